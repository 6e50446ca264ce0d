"""The figures of a comparison: a run's mean with its interval, two runs paired, and both by groups of questions; and
which runs are set against which: all with all, or all with a baseline.

Everything is computed from values: question id → score, the mean over its epochs. How they become a figure the scorer
says: by their mean, or by a ratio of sums over all questions (a micro-F1), which the same functions make. A run that is
being made has the same figure, over the questions answered so far. The number of pairs grows with the square of the
number of runs: beyond :data:`MOST_PAIRS` they are not all tested.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Question
from ragrounds.evals.compare.question_values import Parts, QuestionValues, Values
from ragrounds.evals.engine.live_score import LiveScore
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.stats import (
    Estimate,
    binomial_error,
    combined_ratio,
    holm,
    macro_error,
    minimum_detectable_effect,
    paired_difference,
    stratified_mean,
)
from ragrounds.evals.stats.bootstrap import RESAMPLES
from ragrounds.evals.stats.sign_flips import difference_and_test

_PROPERTIES: dict[str, Callable[[Question], str]] = {
    "subject": lambda question: question.group,
    "dataset": lambda question: question.benchmark,
    "kind": lambda question: question.kind,
    "language": lambda question: question.language,
    "split": lambda question: question.split,
}
NONE = "(none)"
"""The group of questions that do not have the property."""
KeyT = TypeVar("KeyT")


class Figure(Struct, frozen=True, kw_only=True):
    """A mean score with what is known about its precision. Shares, not percent."""

    value: float | None = None
    n: int
    """Questions with a score."""
    missing: int
    """Questions whose score is missing; they are in no mean."""
    error: float | None = None
    """The ± of MIRAGE's tables: sqrt(p(1-p)/n) of one dataset (Section 4.1), combined over datasets. It is no interval;
    ``None``: scores are not right-or-wrong."""
    low: float | None = None
    """95 % interval (:mod:`ragrounds.evals.stats.estimates`); ``None`` beside a value: too few scores for one."""
    high: float | None = None
    pooled: float | None = None
    """The mean over all questions alike, whatever dataset they are of."""
    best: float | None = None
    """The value if every attempt whose result is open (failed, capped, not run) had the best score; ``None``: there is
    no best score."""

    @property
    def is_open(self) -> bool:
        """Whether open attempts could still raise the value."""
        # The two are added up in different orders: a remainder of rounding is no difference.
        return self.best is not None and self.value is not None and self.best > self.value + 1e-9


class PairedFigure(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions; the difference is `second` minus `first`."""

    difference: float | None = None
    low: float | None = None
    """95 % interval (:mod:`ragrounds.evals.stats.estimates`), ``None`` beside a difference: too few scores for one; of
    runs that ended by their own results a confidence sequence (`p_always`)."""
    high: float | None = None
    n: int
    first_only: int | None = None
    """Questions that only the first run has right; ``None``: scores are not right-or-wrong."""
    second_only: int | None = None
    p_mcnemar: float | None = None
    """Exact test of this difference, the mean over datasets, duplicates as one; of one dataset without duplicates it is
    McNemar's. It is below 5 % where the interval leaves 0 out, and nowhere else."""
    mde: float | None = None
    """The smallest true difference that this test shows with 80 % power at 5 %; ``None`` beside it: too few questions
    are answered differently for any."""
    p_always: float | None = None
    """Of runs that ended by their own results: the p value that is valid at any number of questions, in place of
    `p_mcnemar` and `mde`, which are for a number that was fixed beforehand."""
    draws: int | None = None
    """Draws (questions; duplicates and datasets together) that this p value and its interval rest on."""

    @property
    def leaves_out_0(self) -> bool:
        """Whether there is an interval, and 0 is not in it."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def figure(
    questions: Sequence[Question],
    values: Values,
    unsettled: Mapping[str, float],
    seed: int,
    scorer: ScorerRecord | None = None,
    epochs: int = 1,
) -> Figure:
    """The figure of one run: by default the unweighted mean over the questions' datasets.

    Args:
        questions: the denominator.
        values: question id → score.
        unsettled: question id → share of its attempts whose result is open.
        seed: of the bootstrap.
        scorer: says how its scores aggregate, and which are best; by default shares, of which 1 is best.
        epochs: that each score is a mean over.
    """
    if scorer is not None and scorer.ratio:
        return _ratio_figure(questions, values, seed, scorer)
    scored = [(question, value) for question in questions if (value := values.get(question.id)) is not None]
    missing = len(questions) - len(scored)
    if not scored:
        return Figure(n=0, missing=missing)
    numbers = [value for _, value in scored]
    strata, clusters = design([question for question, _ in scored])
    places: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(strata):
        places[name].append(index)
    means = {name: _mean([numbers[i] for i in found]) for name, found in places.items()}
    best = _best(scored, unsettled, scorer)
    binary = set(numbers) <= {0.0, 1.0}  # scores that are not right-or-wrong have no p(1-p)
    estimate = stratified_mean(
        numbers, strata, clusters, attempts=outcomes_in(scorer, epochs), bounded=_bounded(scorer), seed=seed
    )
    errors = [binomial_error(means[name], len(found)) for name, found in places.items()]
    return Figure(
        value=_shown(estimate.value, scorer),
        n=len(scored),
        missing=missing,
        error=macro_error(errors) if binary else None,
        low=_shown(estimate.low, scorer),
        high=_shown(estimate.high, scorer),
        pooled=_shown(_mean(numbers), scorer),
        best=_mean([_mean([best[i] for i in found]) for found in places.values()]) if best else None,
    )


def figure_so_far(score: LiveScore, epochs: int = 1, seed: int = 0) -> Figure:
    """The figure with its 95 % interval, as the run's table would have it if these questions were all; of all questions
    alike while some dataset has too few.

    Where questions have been asked in different numbers of epochs, a mean is known with less precision than its epochs
    would say: its interval is then made from the questions alone.

    Args:
        score: the score so far.
        epochs: of the run.
        seed: of a bootstrap.
    """
    made = score.made()
    known = described(score.scorer) if score.scorer else None
    if known is None or not made:
        return Figure(n=0, missing=0)
    counts = {len(parts) for _, parts in made}
    whole = counts == {epochs}
    values: dict[str, float | None] = {}
    parts: dict[str, Parts] = {}
    for question, each in made:
        found = [part for part in each if part is not None]
        if len(found) < len(each):
            values[question.id] = None
            continue
        values[question.id] = sum(above for above, _ in found) / len(found)
        parts[question.id] = tuple(found)
    questions = [question for question, _ in made]
    if score.is_pooled:
        questions = [
            replace(one, benchmark="", cluster=f"{one.benchmark} {one.cluster}" if one.cluster else "")
            for one in questions
        ]
    if not score.is_ratio:
        return figure(questions, values, {}, seed, known, epochs if whole else 1)
    if len(counts) > 1:
        return Figure(value=score.average, n=len(parts), missing=len(values) - len(parts), pooled=score.pooled)
    return figure(questions, QuestionValues(values, parts, parts), {}, seed, known, epochs)


def outcomes_in(scorer: ScorerRecord | None, epochs: int) -> int:
    """How many outcomes, right or wrong, the mean of a question's scores is over: its epochs. Of a score that can be
    partly right it is one value: a half in each of two epochs is not one right and one wrong."""
    return epochs if scorer is None or scorer.accuracy else 1


def _bounded(scorer: ScorerRecord | None) -> bool:
    """Whether its scores are shares."""
    return scorer is None or (scorer.unit == "percent" and not scorer.clipped)


def _shown(value: float | None, scorer: ScorerRecord | None) -> float | None:
    return min(1.0, max(0.0, value)) if value is not None and scorer is not None and scorer.clipped else value


def _best(
    scored: Sequence[tuple[Question, float]], unsettled: Mapping[str, float], scorer: ScorerRecord | None
) -> list[float]:
    """Each question's value if its open attempts, which count as 0, had the best score; none where there is no best."""
    if scorer is not None and scorer.unit != "percent":
        return []
    if scorer is not None and scorer.direction == "lower":
        return [value for _, value in scored]
    return [min(1.0, value + unsettled.get(question.id, 0.0)) for question, value in scored]


def paired(
    questions: Sequence[Question],
    first: Values,
    second: Values,
    seed: int,
    scorer: ScorerRecord | None = None,
    epochs: int = 1,
) -> PairedFigure:
    """The figure of `second` minus `first`, on the questions where both have a score."""
    if scorer is not None and scorer.ratio:
        return _ratio_pair(questions, first, second, seed, scorer)
    both = [
        (question, one, other)
        for question in questions
        if (one := first.get(question.id)) is not None and (other := second.get(question.id)) is not None
    ]
    if not both:
        return PairedFigure(n=0)
    ones, others = [one for _, one, _ in both], [other for _, _, other in both]
    strata, clusters = design([question for question, _, _ in both])
    attempts, bounded = outcomes_in(scorer, epochs), _bounded(scorer)

    def difference(level: float) -> Estimate:
        return paired_difference(
            ones, others, strata, clusters, attempts=attempts, bounded=bounded, level=level, seed=seed
        )

    estimate, test = difference_and_test((ones, others), strata, clusters, difference)
    binary = test is not None
    return PairedFigure(
        difference=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=len(both),
        first_only=sum(one > other for one, other in zip(ones, others, strict=True)) if binary else None,
        second_only=sum(one < other for one, other in zip(ones, others, strict=True)) if binary else None,
        p_mcnemar=test.p if test else None,
        mde=minimum_detectable_effect(test.worth, test.differing) if test and test.differing else None,
    )


def _ratio_figure(questions: Sequence[Question], values: Values, seed: int, scorer: ScorerRecord) -> Figure:
    """:func:`figure` of a ratio of sums: in each dataset that of its questions, unweighted over datasets, the mean over
    epochs. Scores are no right or wrong, so there is no ±."""
    known = _with_parts(values)
    scored = [question for question in questions if known.get(question.id) is not None]
    missing = len(questions) - len(scored)
    if not scored:
        return Figure(n=0, missing=missing)
    own = [known.parts[question.id] for question in scored]
    estimate = ratio_estimate([own], [1.0], scored, scorer, seed)
    everything = [replace(question, benchmark="", cluster="") for question in scored]
    pooled = ratio_estimate([own], [1.0], everything, scorer, seed, resamples=0)
    open_ = ratio_estimate([[known.best[one.id] for one in scored]], [1.0], scored, scorer, seed, resamples=0)
    return Figure(
        value=estimate.value if estimate else None,
        n=len(scored),
        missing=missing,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        pooled=pooled.value if pooled else None,
        best=open_.value if open_ and scorer.direction == "higher" else None,
    )


def _ratio_pair(
    questions: Sequence[Question], first: Values, second: Values, seed: int, scorer: ScorerRecord
) -> PairedFigure:
    one, other = _with_parts(first), _with_parts(second)
    both = [each for each in questions if one.get(each.id) is not None and other.get(each.id) is not None]
    if not both:
        return PairedFigure(n=0)
    columns = [[side.parts[question.id] for question in both] for side in (one, other)]
    estimate = ratio_estimate(columns, [-1.0, 1.0], both, scorer, seed)
    if estimate is None:
        return PairedFigure(n=len(both))
    return PairedFigure(difference=estimate.value, low=estimate.low, high=estimate.high, n=len(both))


def ratio_estimate(
    columns: Sequence[Sequence[Parts]],
    factors: Sequence[float],
    questions: Sequence[Question],
    scorer: ScorerRecord,
    seed: int,
    *,
    constant: float = 0.0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """A constant plus Σ factor × ratio, each the mean over its epochs; ``None``: nothing to count.

    Args:
        columns: of each ratio the parts of every question.
        factors: one a column.
        questions: of these parts.
        scorer: says whether datasets are pooled.
        seed: of the bootstrap.
        constant: added.
        level: of the interval.
        resamples: 0: no interval.
    """
    return combined_ratio(
        *ratio_columns(columns, factors), *design(questions),
        constant=constant, level=level, resamples=resamples, seed=seed,
    )  # fmt: skip


def ratio_columns(
    columns: Sequence[Sequence[Parts]], factors: Sequence[float]
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Numerators, denominators and factors of ratios, a column for every epoch of each: a ratio is the mean over its
    epochs."""
    above: list[list[float]] = []
    below: list[list[float]] = []
    weights: list[float] = []
    for factor, column in zip(factors, columns, strict=True):
        for epoch in zip(*column, strict=True):
            above.append([numerator for numerator, _ in epoch])
            below.append([denominator for _, denominator in epoch])
            weights.append(factor / len(column[0]))
    return above, below, weights


def _with_parts(values: Values) -> QuestionValues:
    """The values of a scorer whose figure is a ratio.

    Raises:
        ValueError: they have no parts.
    """
    if not isinstance(values, QuestionValues):
        raise ValueError("the figure of a ratio needs the parts of each question: QuestionValues, by scorer_values")
    return values


def design(questions: Sequence[Question]) -> tuple[list[str], list[str]]:
    """The stratum of each question, its dataset, and its cluster."""
    return [question.benchmark for question in questions], [question.cluster for question in questions]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class RunPair(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions under one scorer: `second` minus `first`."""

    first: str
    second: str
    tests: PairedFigure
    p_holm: float | None
    """McNemar's p after Holm's correction over the pairs of the table, in all its groups."""


class QuestionGroup(Struct, frozen=True, kw_only=True):
    """The figures of the questions of one group."""

    name: str
    questions: int
    figures: dict[str, Figure]
    """By run."""
    pairs: tuple[RunPair, ...]


class GroupTable(Struct, frozen=True, kw_only=True):
    """The figures of runs by groups of questions."""

    by: str
    groups: tuple[QuestionGroup, ...]


def property_named(name: str, questions: Sequence[Question]) -> Callable[[Question], str]:
    """What `--group-by NAME` reads of a question. `group`, as a question's line has it, is the subject.

    Raises:
        UserError: no such property, or one that no question has.
    """
    known = sorted({key for question in questions for key in question.metadata})
    if name == "group" and name not in known:
        name = "subject"
    if name in _PROPERTIES:
        read = _PROPERTIES[name]
    else:
        if name not in known:
            names = [*_PROPERTIES, *known]
            raise UserError(
                f"Questions cannot be grouped by {name!r}.{nearest(name, names)} Known: {', '.join(names)}."
            )

        def read(question: Question) -> str:
            return question.metadata.get(name, "")

    if not any(read(question) for question in questions):
        raise UserError(f"None of these questions has a {name}; take another property.")
    return read


def group_table(
    by: str,
    questions: Sequence[Question],
    values: Mapping[str, Values],
    unsettled: Mapping[str, Mapping[str, float]],
    seed: int,
    scorer: ScorerRecord | None = None,
    epochs: int = 1,
    stopped: Callable[[str, str], bool] = lambda first, second: False,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> GroupTable:
    """Figures and paired tests inside each group, the largest group first.

    Args:
        by: a property of questions.
        questions: those a scorer scores.
        values: run id → question id → score.
        unsettled: run id → question id → share of attempts whose result is open.
        seed: of the bootstrap.
        scorer, epochs: see :func:`figure`.
        stopped: of two run ids, whether one ended by its own results: their differences get no interval and no test
            here, as both would be for a number of questions that was fixed beforehand.
        pairs: runs to test against each other, by ids; ``None``: each against each.
    """
    read = property_named(by, questions)
    members: dict[str, list[Question]] = {}
    for question in questions:
        members.setdefault(read(question) or NONE, []).append(question)
    tests: dict[tuple[str, str, str], PairedFigure] = {}
    for name, inside in members.items():
        for first, second in itertools.combinations(values, 2) if pairs is None else pairs:
            made = paired(inside, values[first], values[second], seed, scorer, epochs)
            if stopped(first, second):
                made = replace(made, low=None, high=None, p_mcnemar=None, mde=None)
            tests[name, first, second] = made
    corrected = holm_corrected(tests)
    groups = [
        QuestionGroup(
            name=name,
            questions=len(inside),
            figures={run: figure(inside, values[run], unsettled[run], seed, scorer, epochs) for run in values},
            pairs=tuple(
                RunPair(first=first, second=second, tests=test, p_holm=corrected.get((name, first, second)))
                for (group, first, second), test in tests.items()
                if group == name
            ),
        )
        for name, inside in members.items()
    ]
    return GroupTable(by=by, groups=tuple(sorted(groups, key=lambda group: (-group.questions, group.name))))


def holm_corrected(tests: Mapping[KeyT, PairedFigure]) -> dict[KeyT, float]:
    """McNemar's p of each test that has one, after Holm's correction over all of them."""
    known = {key: test.p_mcnemar for key, test in tests.items() if test.p_mcnemar is not None}
    return dict(zip(known, holm(list(known.values())), strict=True)) if known else {}


MOST_PAIRS = 1_225
"""Pairs of runs that are tested at most, under each scorer: those of 50 runs."""

Pair = tuple[str, str]
"""Two run ids; what is shown is the second minus the first."""


def chosen_pairs(runs: Sequence[str], baseline: str = "") -> tuple[list[Pair], str]:
    """The pairs of runs (ids) that are tested, and what a reader must know of the choice; empty: nothing.

    Args:
        runs: each once.
        baseline: one of them, that each other is set against; empty: each against each.
    """
    if baseline:
        said = f"Differences are those to the baseline {baseline}; Holm's correction is over these."
        return [(baseline, run) for run in runs if run != baseline], said * (len(runs) > 2)
    pairs = list(itertools.combinations(runs, 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs, ""
    return [], (
        f"{len(runs):,} runs make {len(pairs):,} pairs, and at most {MOST_PAIRS:,} are tested, so paired differences "
        "are left out: compare with one run (--baseline RUN)."
    )
