"""What answers cost where a wrong one and none do different harm, and from which price of a wrong answer on one agent
loses less than another.

A loss is price × cost of each wrong answer + cost of each attempt without an answer, both by the user's table. The
interval of the price at which two agents lose the same is Fieller's (1954): all prices at which the difference of their
losses has 0 in its interval. So it agrees with the curve, and has no bound where the data set none.
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
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture, figure_mark
from ragrounds.evals.analyses.run_data import ScoredRun, check_share, scored_runs
from ragrounds.evals.compare.figures import Figure, design, figure, property_named
from ragrounds.evals.stats import bootstrap
from ragrounds.evals.store.store import Store

_KINDS = ("wrong", "none")
_POINTS = 13
CostOf = Callable[[Question, str, str], float]
"""The cost of a ``wrong`` answer to a question, by the option that was chosen, or of ``none``."""
Harms = dict[str, tuple[float, ...]]
"""Question id → shares of its attempts with a wrong answer and with none, and what each of both costs."""


class LossDifference(Struct, frozen=True, kw_only=True):
    """What a run loses more than the first one on the same questions, by the price of a wrong answer."""

    wrong: float
    """What its wrong answers cost more at the price 1."""
    none: float
    """What its missing answers cost more."""
    squares: tuple[float, float, float] | None
    """The squares of half of the 95 % interval of `wrong` and of `none`, and what both have in common; ``None``: too
    few questions for an interval."""
    price: float | None
    """At which both lose the same; ``None``: at none above 0."""
    low: float | None = None
    """The lowest price at which it is not shown which loses less; ``None``: it is at every price, or `squares` is."""
    high: float | None = None
    """The highest one; ``None`` beside `low`: there is no bound."""

    def at(self, price: float) -> tuple[float, float | None]:
        """The difference at a price, and half of its interval."""
        wrong, none, both = self.squares or (math.nan, math.nan, math.nan)
        half = math.sqrt(max(0.0, none + 2 * price * both + price**2 * wrong)) if self.squares else None
        return self.none + price * self.wrong, half

    @property
    def words(self) -> str:
        """At which prices this run loses less."""
        said = "at every price" if self.wrong + self.none < 0 else "at no price"
        if self.price is not None:
            said = f"{'from' if self.wrong < 0 else 'up to'} {self.price:.3g}"
        if self.low is None:
            return said if self.squares else f"{said} (too few questions)"
        ends = f"{self.low:.3g} and more" if self.high is None else f"{self.low:.3g} to {self.high:.3g}"
        return f"{said} ({ends})" if self.price is not None else f"{said} (not shown: {ends})"


class Harm(Struct, frozen=True, kw_only=True):
    """What one run's answers cost: unweighted means over datasets."""

    run: str
    wrong: Figure
    """Share of attempts with a wrong answer; of one that is right to a share the rest."""
    none: Figure
    """Share of attempts without an answer, even where their scorer found one."""
    loss: Figure
    """Of a question, at the price 1."""
    more: LossDifference | None
    """Than the first run; ``None``: it is the first."""


def read_costs(path: str, questions: Sequence[Question]) -> CostOf:
    """The user's table of costs: ``wrong`` and ``none`` (each 1 by default), and the same for questions of a property
    (``[subject.cardiology]``) or an option that was chosen (``[option.B]``). Where several fit, the highest counts.

    Raises:
        UserError: it cannot be read, has a row that fits no question, or a cost that is no number from 0.
    """
    try:
        read = tomllib.loads(read_text(Path(path))) if path else {}
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} cannot be read as TOML: {error}.") from error
    plain = {name: value for name, value in read.items() if not isinstance(value, dict)}
    rows = {(name, key): row for name, table in read.items() if name not in plain for key, row in table.items()}
    for (name, key), row in {("", ""): plain, **rows}.items():
        for kind, each in row.items() if isinstance(row, dict) else [(key, row)]:
            if kind not in _KINDS or type(each) not in (int, float) or not 0 <= each < math.inf:
                raise UserError(
                    f"{path}: {f'[{name}.{key}] ' if name else ''}{kind} = {each!r} is no cost; expected wrong or none "
                    "= a number from 0, at the top or below [subject.NAME], [dataset.NAME] or [option.LETTER]."
                )
    try:
        readers = {name: property_named(name, questions) for name, _ in rows if name != "option"}
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    known = {(name, reader(one)) for name, reader in readers.items() for one in questions}
    known |= {("option", letter) for one in questions for letter in one.options}
    if amiss := [f"[{name}.{key}]" for name, key in rows if (name, key) not in known]:
        raise UserError(f"{path}: no question of these runs fits {', '.join(amiss)}.")

    def cost(question: Question, kind: str, option: str) -> float:
        fits = [*((name, reader(question)) for name, reader in readers.items()), ("option", option)]
        return float(max((rows[one][kind] for one in fits if kind in rows.get(one, ())), default=plain.get(kind, 1.0)))

    return cost


def harms(run: ScoredRun, cost: CostOf) -> Harms:
    """What each question's attempts cost at the price 1. A question with a missing score is left out; an attempt that
    was not made gave no answer."""
    scores, made = {(one.question_id, one.epoch): one for one in run.scores}, Harms()
    for question in run.questions if run.scores else ():
        parts = np.zeros(4)
        for epoch in range(run.run.epochs):
            score = scores.get((question.id, epoch))
            none = score is None or score.answer_status != "answered"
            lost = 1.0 if none or score is None else 1.0 - (score.value or 0.0)
            parts[[none, 2 + none]] += lost, lost * cost(question, _KINDS[none], score.prediction if score else "")
        if run.values.get(question.id) is not None:
            made[question.id] = tuple((parts / run.run.epochs).tolist())
    return made


def difference(questions: Sequence[Question], first: Harms, second: Harms) -> LossDifference:
    """What the second run loses more than the first, with the covariance of both parts over clusters of questions.

    Raises:
        UserError: no question has a score of both.
    """
    asked = [question for question in questions if question.id in first and question.id in second]
    if not asked:
        raise UserError("Harm is compared on the same questions, and these runs have none in common.")
    of = design(asked)
    wrong, none = np.array([np.subtract(second[one.id], first[one.id])[2:] for one in asked]).T
    moved = bootstrap.variance_columns([wrong, none, wrong + none], *of)
    means = bootstrap.joint_means([one.tolist() for one in (wrong, none, *moved)], *of, resamples=0)[0].tolist()
    made = LossDifference(
        wrong=means[0], none=means[1], squares=None, price=-means[1] / means[0] if means[0] * means[1] < 0 else None
    )
    unlike = [np.count_nonzero(one) for one in (wrong, none)]
    if not bootstrap.enough_clusters(*of) or any(0 < one < bootstrap.FEWEST_UNLIKE for one in unlike):
        return made
    worth = bootstrap.effective_clusters(np.concatenate(bootstrap.cluster_sizes(*of)))
    reach = bootstrap.student_reach(worth, worth - len(set(of[0])), 0.95) ** 2
    squares = (reach * means[2], reach * means[3], reach * (means[4] - means[2] - means[3]) / 2)
    made = replace(made, squares=squares)
    roots = np.roots([means[0] ** 2 - squares[0], 2 * (means[0] * means[1] - squares[2]), means[1] ** 2 - squares[1]])
    ends = [0.0, *sorted(float(root.real) for root in roots if not root.imag and root.real > 0), math.inf]
    parts = [(*part, *made.at(sum(part) / 2 if part[1] < math.inf else 2 * part[0] + 1)) for part in pairwise(ends)]
    shut = [(low, high) for low, high, value, half in parts if abs(value) <= (half or 0.0)]
    if not shut:
        return made
    return replace(made, low=shut[0][0], high=shut[-1][1] if shut[-1][1] < math.inf else None)


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Harm, ...]:
    check_share("harm", options.scorer)
    scored = scored_runs(store, runs, options.scorer)
    cost = read_costs(options.severity, scored[0].questions)
    made = [harms(one, cost) for one in scored]

    def mean(run: ScoredRun, found: Harms, *columns: int) -> Figure:
        values = {id: sum(each[column] for column in columns) for id, each in found.items()}
        return figure(run.questions, values, {}, options.seed, epochs=run.run.epochs)

    return tuple(
        Harm(
            run=run.run.id,
            wrong=mean(run, each, 0),
            none=mean(run, each, 1),
            loss=mean(run, each, 2, 3),
            more=difference(scored[0].questions, made[0], each) if place else None,
        )
        for place, (run, each) in enumerate(zip(scored, made, strict=True))
    )


def _table(made: tuple[Harm, ...], options: AnalysisOptions) -> AnalysisTable:
    costs = (
        f"Costs: {Path(options.severity).name}."
        if options.severity
        else "A wrong and a missing answer cost 1 (--severity)."
    )
    return AnalysisTable(
        title=f"What wrong and missing answers cost ({options.scorer})",
        columns=("run", "wrong", "no answer", "loss of 100 questions", "loses less than the first"),
        rows=tuple((one.run, one.wrong, one.none, one.loss, one.more.words if one.more else None) for one in made),
        note=f"{costs} From, up to: the price of wrong answers, times their cost; in brackets the prices at which it "
        "is not shown which loses less (95 %).",
    )


def _picture(made: tuple[Harm, ...], options: AnalysisOptions) -> Picture:
    more = {one.run: one.more for one in made if one.more}
    if not more:
        marks = [figure_mark("wrong", made[0].wrong), figure_mark("no answer", made[0].none)]
        return Picture(title=f"Wrong and missing answers ({options.scorer})", marks=tuple(marks), bars=True)
    reached = [min(4 * one.price, one.high or math.inf) for one in more.values() if one.price]
    prices = np.linspace(0, 1.5 * max(reached, default=4.0), _POINTS).tolist()
    marks = [Mark(name=one.run, group=one.run, x=price, value=0.0) for one in made[:1] for price in prices]
    for run, price in itertools.product(more, prices):
        value, half = more[run].at(price)
        low, high = (None, None) if half is None else (value - half, value + half)
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
