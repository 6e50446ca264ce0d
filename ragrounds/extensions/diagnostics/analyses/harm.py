"""Cost of answers if a wrong answer and a missing one do different harm, and the price of a wrong answer from which one
agent loses less than another.

A loss is price × cost of each wrong answer + cost of each attempt without an answer, both by the user's table. The
interval of the price at which two agents lose the same is Fieller's (1954): all prices at which the interval of the
difference of their losses contains 0. So it agrees with the curve, and is unbounded if the data set no bound.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.files import read_text
from ragrounds.base.records import Question, Run
from ragrounds.base.text import parse_toml
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, check_share, scored_runs
from ragrounds.evals.compare.figures import Figure, design, figure, property_named
from ragrounds.evals.stats import bootstrap
from ragrounds.evals.store.store import Store

_KINDS = ("wrong", "none")
_POINTS = 13
CostOf = Callable[[Question, str, str], float]
"""Function that returns the cost of a ``wrong`` answer to a question, by the option that was chosen, or of ``none``."""
Harms = dict[str, tuple[float, ...]]
"""Question id → shares of its attempts with a wrong answer and with none, and the cost of each."""


class LossDifference(Struct, frozen=True, kw_only=True):
    """Excess loss of a run over the first run on the same questions, by the price of a wrong answer."""

    wrong: float
    """Excess cost of its wrong answers at the price 1."""
    none: float
    """Excess cost of its missing answers."""
    squares: tuple[float, float, float] | None
    """Squared half-widths of the 95 % intervals of `wrong` and of `none`, and their covariance term; ``None`` if there
    are too few questions for an interval."""
    price: float | None
    """Price at which both lose the same; ``None`` if there is no such price above 0."""
    low: float | None = None
    """Lowest price at which neither is shown to lose less; ``None`` if one is at every price, or if `squares` is
    ``None``."""
    high: float | None = None
    """Highest such price; ``None`` next to `low` if there is no bound."""

    def difference_at(self, price: float) -> tuple[float, float | None]:
        """Return the difference at a price, and half of the width of its interval."""
        wrong, none, shared = self.squares or (math.nan, math.nan, math.nan)
        half_width = math.sqrt(max(0.0, none + 2 * price * shared + price**2 * wrong)) if self.squares else None
        return self.none + price * self.wrong, half_width

    @property
    def words(self) -> str:
        """Description of the prices at which this run loses less."""
        text = "at every price" if self.wrong + self.none < 0 else "at no price"
        if self.price is not None:
            text = f"{'from' if self.wrong < 0 else 'up to'} {self.price:.3g}"
        if self.low is None:
            return text if self.squares else f"{text} (too few questions)"
        bounds = f"{self.low:.3g} and more" if self.high is None else f"{self.low:.3g} to {self.high:.3g}"
        return f"{text} ({bounds})" if self.price is not None else f"{text} (not shown: {bounds})"


class Harm(Struct, frozen=True, kw_only=True):
    """Costs of one run's answers: unweighted means over datasets."""

    run: str
    wrong: Figure
    """Share of attempts with a wrong answer; a partly right answer counts with the rest of its share."""
    none: Figure
    """Share of attempts without an answer, even if their scorer found one."""
    loss: Figure
    """Loss of a question at the price 1."""
    more: LossDifference | None
    """Excess loss over the first run; ``None`` for the first run itself."""


def read_costs(path: str, questions: Sequence[Question]) -> CostOf:
    """Read the user's table of costs.

    The table holds ``wrong`` and ``none`` (each 1 by default), and the same for questions of a property
    (``[subject.cardiology]``) or a chosen option (``[option.B]``). If several apply, the highest counts.

    Raises:
        UserError: the file cannot be read, a row fits no question, or a cost is not a number from 0.
    """
    try:
        parsed = parse_toml(read_text(Path(path))) if path else {}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} cannot be read as TOML: {error}.") from error
    defaults = {name: value for name, value in parsed.items() if not isinstance(value, dict)}
    rows = {(name, key): row for name, table in parsed.items() if name not in defaults for key, row in table.items()}
    for (name, key), row in {("", ""): defaults, **rows}.items():
        for kind, cell in row.items() if isinstance(row, dict) else [(key, row)]:
            if kind not in _KINDS or type(cell) not in (int, float) or not 0 <= cell < math.inf:
                raise UserError(
                    f"{path}: {f'[{name}.{key}] ' if name else ''}{kind} = {cell!r} is no cost; expected wrong or none "
                    "= a number from 0, at the top or below [subject.NAME], [dataset.NAME] or [option.LETTER]."
                )
    try:
        readers = {name: property_named(name, questions) for name, _ in rows if name != "option"}
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    valid_keys = {(name, reader(question)) for name, reader in readers.items() for question in questions}
    valid_keys |= {("option", letter) for question in questions for letter in question.options}
    if unmatched := [f"[{name}.{key}]" for name, key in rows if (name, key) not in valid_keys]:
        raise UserError(f"{path}: no question of these runs fits {', '.join(unmatched)}.")

    def cost(question: Question, kind: str, option: str) -> float:
        keys = [*((name, reader(question)) for name, reader in readers.items()), ("option", option)]
        return float(
            max((rows[key][kind] for key in keys if kind in rows.get(key, ())), default=defaults.get(kind, 1.0))
        )

    return cost


def harms(run: ScoredRun, cost: CostOf) -> Harms:
    """Return the costs of each question's attempts at the price 1.

    A question with a missing score is left out. An attempt that was not made gave no answer.
    """
    scores, harm_by_question = {score.key: score for score in run.scores}, Harms()
    for question in run.questions if run.scores else ():
        parts = np.zeros(4)
        for epoch in range(run.run.epochs):
            score = scores.get((question.id, epoch))
            is_missing = score is None or score.answer_status != "answered"
            missing_share = 1.0 if is_missing or score is None else 1.0 - (score.value or 0.0)
            parts[[is_missing, 2 + is_missing]] += (
                missing_share,
                missing_share * cost(question, _KINDS[is_missing], score.prediction if score else ""),
            )
        if run.values.get(question.id) is not None:
            harm_by_question[question.id] = tuple((parts / run.run.epochs).tolist())
    return harm_by_question


def difference(questions: Sequence[Question], first: Harms, second: Harms) -> LossDifference:
    """Return the excess loss of the second run, with the covariance of both parts over clusters of questions.

    Raises:
        UserError: no question has a score in both runs.
    """
    shared_questions = [question for question in questions if question.id in first and question.id in second]
    if not shared_questions:
        raise UserError("Harm is compared on the same questions, and these runs have none in common.")
    strata_clusters = design(shared_questions)
    wrong, none = np.array(
        [np.subtract(second[question.id], first[question.id])[2:] for question in shared_questions]
    ).T
    variances = bootstrap.variance_columns([wrong, none, wrong + none], *strata_clusters)
    means = bootstrap.joint_means(
        [column.tolist() for column in (wrong, none, *variances)], *strata_clusters, resamples=0
    )[0].tolist()
    loss_difference = LossDifference(
        wrong=means[0], none=means[1], squares=None, price=-means[1] / means[0] if means[0] * means[1] < 0 else None
    )
    nonzero_counts = [np.count_nonzero(column) for column in (wrong, none)]
    if not bootstrap.enough_clusters(*strata_clusters) or any(
        0 < count < bootstrap.FEWEST_UNLIKE for count in nonzero_counts
    ):
        return loss_difference
    effective = bootstrap.effective_clusters(np.concatenate(bootstrap.cluster_sizes(*strata_clusters)))
    squared_reach = bootstrap.student_reach(effective, effective - len(set(strata_clusters[0])), 0.95) ** 2
    squares = (squared_reach * means[2], squared_reach * means[3], squared_reach * (means[4] - means[2] - means[3]) / 2)
    loss_difference = replace(loss_difference, squares=squares)
    roots = np.roots([means[0] ** 2 - squares[0], 2 * (means[0] * means[1] - squares[2]), means[1] ** 2 - squares[1]])
    breakpoints = [0.0, *sorted(float(root.real) for root in roots if not root.imag and root.real > 0), math.inf]
    parts = [
        (*part, *loss_difference.difference_at(sum(part) / 2 if part[1] < math.inf else 2 * part[0] + 1))
        for part in pairwise(breakpoints)
    ]
    undecided = [(low, high) for low, high, value, half_width in parts if abs(value) <= (half_width or 0.0)]
    if not undecided:
        return loss_difference
    return replace(loss_difference, low=undecided[0][0], high=undecided[-1][1] if undecided[-1][1] < math.inf else None)


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Harm, ...]:
    check_share("harm", options.scorer)
    scored = scored_runs(store, runs, options.scorer)
    cost = read_costs(options.severity, scored[0].questions)
    harm_maps = [harms(run, cost) for run in scored]

    def mean(run: ScoredRun, run_harms: Harms, *columns: int) -> Figure:
        values = {id: sum(costs[column] for column in columns) for id, costs in run_harms.items()}
        return figure(run.questions, values, {}, options.seed, epochs=run.run.epochs)

    return tuple(
        Harm(
            run=run.run.id,
            wrong=mean(run, run_harms, 0),
            none=mean(run, run_harms, 1),
            loss=mean(run, run_harms, 2, 3),
            more=difference(scored[0].questions, harm_maps[0], run_harms) if index else None,
        )
        for index, (run, run_harms) in enumerate(zip(scored, harm_maps, strict=True))
    )


def _table(records: tuple[Harm, ...], options: AnalysisOptions) -> AnalysisTable:
    costs = (
        f"Costs: {Path(options.severity).name}."
        if options.severity
        else "A wrong and a missing answer cost 1 (--severity)."
    )
    return AnalysisTable(
        title=f"What wrong and missing answers cost ({options.scorer})",
        columns=("run", "wrong", "no answer", "loss of 100 questions", "loses less than the first"),
        rows=tuple(
            (record.run, record.wrong, record.none, record.loss, record.more.words if record.more else None)
            for record in records
        ),
        note=f"{costs} From, up to: the price of wrong answers, times their cost; in brackets the prices at which it "
        "is not shown which loses less (95 %).",
    )


def _picture(records: tuple[Harm, ...], options: AnalysisOptions) -> Picture:
    differences = {record.run: record.more for record in records if record.more}
    if not differences:
        marks = [figure_mark("wrong", records[0].wrong), figure_mark("no answer", records[0].none)]
        return Picture(title=f"Wrong and missing answers ({options.scorer})", marks=tuple(marks), bars=True)
    price_limits = [min(4 * record.price, record.high or math.inf) for record in differences.values() if record.price]
    prices = np.linspace(0, 1.5 * max(price_limits, default=4.0), _POINTS).tolist()
    marks = [Mark(name=record.run, group=record.run, x=price, value=0.0) for record in records[:1] for price in prices]
    for run, price in itertools.product(differences, prices):
        value, half_width = differences[run].difference_at(price)
        low, high = (None, None) if half_width is None else (value - half_width, value + half_width)
        marks.append(Mark(name=run, group=run, x=price, value=value, low=low, high=high))
    return Picture(
        title=f"What a question loses more than with the first run ({options.scorer})",
        x="price of a wrong answer, times its cost",
        marks=tuple(marks),
        words="difference of loss",
        unit="number",
        signed=True,
    )


HARM = Analysis(
    name="harm",
    summary="what wrong and missing answers cost, and from which price of a wrong one on an agent loses less",
    needs="scores of answers that are right, or are to a share",
    measure=_measure,
    table=_table,
    picture=_picture,
)
