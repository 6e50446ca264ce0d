"""Figures of a comparison: means with intervals, paired differences, and both by groups of questions.

Everything is computed from values: question id → score, the mean over its epochs. The scorer says how they become a
figure: by their mean, or by a ratio of sums over all questions (a micro-F1). In a comparison, attempts of
an unfinished run that were not made count as 0; :func:`figure_so_far` is the figure of the questions answered so far.

Runs are compared all with all, or all with a baseline. The number of pairs grows with the square of the number of runs:
beyond :data:`MOST_PAIRS` no pair is tested.
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
    combined_mean,
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
"""Name of the group of questions that do not have the property."""
KeyT = TypeVar("KeyT")


class Figure(Struct, frozen=True, kw_only=True):
    """Mean score with its precision. Values are shares, not percentages."""

    value: float | None = None
    n: int
    """Questions with a score."""
    missing: int
    """Questions whose score is missing; they are in no mean."""
    error: float | None = None
    """Standard error as in MIRAGE's tables: sqrt(p(1-p)/n) of one dataset (Section 4.1), combined over datasets. It is
    not an interval; ``None`` if scores are not right-or-wrong."""
    low: float | None = None
    """Lower end of the 95 % interval (:mod:`ragrounds.evals.stats.estimates`); ``None`` next to a value if there are
    too few scores."""
    high: float | None = None
    pooled: float | None = None
    """Mean over all questions alike, regardless of their dataset."""
    best: float | None = None
    """Value if every open attempt (failed, capped, not run) had the best score; ``None`` if there is no best score."""

    @property
    def is_open(self) -> bool:
        """True if open attempts could still raise the value."""
        # The two sums are added up in different orders, so a rounding error is not a difference.
        return self.best is not None and self.value is not None and self.best > self.value + 1e-9


class QuestionCost(Struct, frozen=True, kw_only=True):
    """Mean cost of a question, over those of one scorer that were asked; ``None`` if it is unknown for any of them.

    It is averaged as scores are: over the questions of a dataset, then over datasets.
    """

    dollars: float | None = None
    """US dollars at full price."""
    tokens: float | None = None
    seconds: float | None = None
    unanswered: int = 0
    """Number of requests without an answer. A provider may bill them: dollars and tokens are lower bounds."""
    questions: int = 0
    """Number of questions in these means."""


class PairedFigure(Struct, frozen=True, kw_only=True):
    """Difference of two runs on the same questions: `second` minus `first`."""

    difference: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval (:mod:`ragrounds.evals.stats.estimates`); ``None`` next to a difference if there
    are too few scores. For runs that stopped early by their own results it is a confidence sequence (`p_always`)."""
    high: float | None = None
    n: int
    first_only: int | None = None
    """Questions that only the first run has right; ``None`` if some are right in a part of their epochs, or scores are
    not right-or-wrong."""
    second_only: int | None = None
    p_mcnemar: float | None = None
    """P value of an exact test of this difference, the mean over datasets, with duplicates and epochs as one. For one
    dataset and one epoch, without duplicates, it is McNemar's test. It is below 5 % if and only if the interval
    excludes 0."""
    mde: float | None = None
    """Smallest true difference that this test detects with 80 % power at 5 %; ``None`` next to it if too few questions
    are answered differently. It is not computed where `first_only` is ``None``."""
    p_always: float | None = None
    """P value that is valid at any number of questions, for runs that stopped early by their own results. It replaces
    `p_mcnemar` and `mde`, which assume a number of questions fixed beforehand."""
    draws: int | None = None
    """Number of draws (questions; duplicates and datasets count together) behind `p_always` and its interval."""

    @property
    def leaves_out_0(self) -> bool:
        """True if there is an interval that excludes 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def figure(
    questions: Sequence[Question],
    values: Values,
    unsettled: Mapping[str, float],
    seed: int,
    scorer: ScorerRecord | None = None,
    epochs: int = 1,
    *,
    resamples: int = RESAMPLES,
) -> Figure:
    """Return the figure of one run: by default the unweighted mean over the questions' datasets.

    Args:
        questions: questions of the denominator.
        values: question id → score.
        unsettled: question id → share of its attempts whose result is open.
        seed: seed of the bootstrap.
        scorer: scorer, which says how scores aggregate and which are best; by default scores are shares and 1 is best.
        epochs: number of epochs that each score is a mean over.
        resamples: number of resamples of the bootstrap; 0 for no interval.
    """
    if scorer is not None and scorer.ratio:
        return _ratio_figure(questions, values, seed, scorer, resamples)
    scored = [(question, value) for question in questions if (value := values.get(question.id)) is not None]
    missing = len(questions) - len(scored)
    if not scored:
        return Figure(n=0, missing=missing)
    numbers = [value for _, value in scored]
    strata, clusters = design([question for question, _ in scored])
    indices_by_stratum: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(strata):
        indices_by_stratum[name].append(index)
    means = {name: _mean([numbers[i] for i in indices]) for name, indices in indices_by_stratum.items()}
    best = _best_values(scored, unsettled, scorer)
    binary = set(numbers) <= {0.0, 1.0}  # scores that are not right-or-wrong have no p(1-p)
    estimate = stratified_mean(
        numbers, strata, clusters,
        attempts=outcomes_in(scorer, epochs), bounded=_has_bounded_scores(scorer), resamples=resamples, seed=seed,
    )  # fmt: skip
    errors = [binomial_error(means[name], len(indices)) for name, indices in indices_by_stratum.items()]
    return Figure(
        value=_shown(estimate.value, scorer),
        n=len(scored),
        missing=missing,
        error=macro_error(errors) if binary else None,
        low=_shown(estimate.low, scorer),
        high=_shown(estimate.high, scorer),
        pooled=_shown(_mean(numbers), scorer),
        best=_mean([_mean([best[i] for i in indices]) for indices in indices_by_stratum.values()]) if best else None,
    )


def figure_so_far(score: LiveScore, epochs: int = 1) -> Figure:
    """Return the figure of an unfinished run with its 95 % interval, as if the questions answered so far were all.

    While some dataset has too few questions, the figure is the mean of all questions alike.

    If questions have been asked in different numbers of epochs, the precision of a mean is lower than its epochs
    suggest. Its interval is then computed from the questions alone.

    Args:
        score: score so far.
        epochs: epochs of the run.
    """
    question_parts = score.scored_questions()
    record = described(score.scorer) if score.scorer else None
    if record is None or not question_parts:
        return Figure(n=0, missing=0)
    counts = {len(epoch_parts) for _, epoch_parts in question_parts}
    all_same_epochs = counts == {epochs}
    values: dict[str, float | None] = {}
    parts: dict[str, Parts] = {}
    for question, epoch_parts in question_parts:
        known_parts = [part for part in epoch_parts if part is not None]
        if len(known_parts) < len(epoch_parts):
            values[question.id] = None
            continue
        values[question.id] = sum(above for above, _ in known_parts) / len(known_parts)
        parts[question.id] = tuple(known_parts)
    questions = [question for question, _ in question_parts]
    if score.is_pooled:
        questions = [
            replace(
                question, benchmark="", cluster=f"{question.benchmark} {question.cluster}" if question.cluster else ""
            )
            for question in questions
        ]
    if not score.is_ratio:
        return figure(questions, values, {}, 0, record, epochs if all_same_epochs else 1)
    if len(counts) > 1:
        return Figure(value=score.average, n=len(parts), missing=len(values) - len(parts), pooled=score.pooled)
    return figure(questions, QuestionValues(values, parts, parts), {}, 0, record, epochs)


def outcomes_in(scorer: ScorerRecord | None, epochs: int) -> int:
    """Return the number of right-or-wrong outcomes that a question's mean score is over: its epochs.

    A score that can be partly right is one outcome: a half in each of two epochs is not one right and one wrong.
    """
    return epochs if scorer is None or scorer.accuracy else 1


def _has_bounded_scores(scorer: ScorerRecord | None) -> bool:
    """Return True if the scorer's scores are shares."""
    return scorer is None or (scorer.unit == "percent" and not scorer.clipped)


def _shown(value: float | None, scorer: ScorerRecord | None) -> float | None:
    return min(1.0, max(0.0, value)) if value is not None and scorer is not None and scorer.clipped else value


def _best_values(
    scored: Sequence[tuple[Question, float]], unsettled: Mapping[str, float], scorer: ScorerRecord | None
) -> list[float]:
    """Return each question's value if its open attempts, which count as 0, had the best score; empty if there is no
    best score."""
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
    """Return the difference `second` minus `first` on the questions for which both have a score."""
    if scorer is not None and scorer.ratio:
        return _ratio_pair(questions, first, second, seed)
    scored_by_both = [
        (question, first_score, second_score)
        for question in questions
        if (first_score := first.get(question.id)) is not None and (second_score := second.get(question.id)) is not None
    ]
    if not scored_by_both:
        return PairedFigure(n=0)
    first_scores, second_scores = (
        [first_score for _, first_score, _ in scored_by_both],
        [second_score for _, _, second_score in scored_by_both],
    )
    strata, clusters = design([question for question, _, _ in scored_by_both])
    attempts, bounded = outcomes_in(scorer, epochs), _has_bounded_scores(scorer)

    def difference(level: float) -> Estimate:
        return paired_difference(
            first_scores, second_scores, strata, clusters, attempts=attempts, bounded=bounded, level=level, seed=seed
        )

    estimate, test = difference_and_test((first_scores, second_scores), strata, clusters, difference, attempts=attempts)
    binary = {*first_scores, *second_scores} <= {0.0, 1.0}
    return PairedFigure(
        difference=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=len(scored_by_both),
        first_only=sum(
            first_score > second_score for first_score, second_score in zip(first_scores, second_scores, strict=True)
        )
        if binary
        else None,
        second_only=sum(
            first_score < second_score for first_score, second_score in zip(first_scores, second_scores, strict=True)
        )
        if binary
        else None,
        p_mcnemar=test.p if test else None,
        mde=minimum_detectable_effect(test.worth, test.differing) if binary and test and test.differing else None,
    )


def table_mean(questions: Sequence[Question], values: Sequence[float]) -> float:
    """Return the figure of the tables: the unweighted mean over datasets of the mean over a dataset's questions.

    Args:
        questions: questions of one dataset or several.
        values: value of each.
    """
    return combined_mean([values], [1.0], design(questions)[0], resamples=0).value


def _ratio_figure(
    questions: Sequence[Question], values: Values, seed: int, scorer: ScorerRecord, resamples: int
) -> Figure:
    """Return the :func:`figure` of a ratio of sums, unweighted over datasets, the mean over epochs.

    Scores are not right or wrong, so there is no standard error.
    """
    known_values = _with_parts(values)
    scored = [question for question in questions if known_values.get(question.id) is not None]
    missing = len(questions) - len(scored)
    if not scored:
        return Figure(n=0, missing=missing)
    parts = [known_values.parts[question.id] for question in scored]
    estimate = ratio_estimate([parts], [1.0], scored, seed, resamples=resamples)
    everything = [replace(question, benchmark="", cluster="") for question in scored]
    pooled = ratio_estimate([parts], [1.0], everything, seed, resamples=0)
    best_case = ratio_estimate(
        [[known_values.best_case[question.id] for question in scored]], [1.0], scored, seed, resamples=0
    )
    return Figure(
        value=estimate.value if estimate else None,
        n=len(scored),
        missing=missing,
        low=estimate.low if estimate else None,
        high=estimate.high if estimate else None,
        pooled=pooled.value if pooled else None,
        best=best_case.value if best_case and scorer.direction == "higher" else None,
    )


def _ratio_pair(questions: Sequence[Question], first: Values, second: Values, seed: int) -> PairedFigure:
    first_values, second_values = _with_parts(first), _with_parts(second)
    shared_questions = [
        question
        for question in questions
        if first_values.get(question.id) is not None and second_values.get(question.id) is not None
    ]
    if not shared_questions:
        return PairedFigure(n=0)
    columns = [[side.parts[question.id] for question in shared_questions] for side in (first_values, second_values)]
    estimate = ratio_estimate(columns, [-1.0, 1.0], shared_questions, seed)
    if estimate is None:
        return PairedFigure(n=len(shared_questions))
    return PairedFigure(difference=estimate.value, low=estimate.low, high=estimate.high, n=len(shared_questions))


def ratio_estimate(
    columns: Sequence[Sequence[Parts]],
    factors: Sequence[float],
    questions: Sequence[Question],
    seed: int,
    *,
    constant: float = 0.0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Estimate | None:
    """Return a constant plus Σ factor × ratio, each ratio the mean over its epochs; ``None`` if there is nothing to
    count.

    Args:
        columns: for each ratio, the parts of every question.
        factors: one factor for each column.
        questions: questions of these parts.
        seed: seed of the bootstrap.
        constant: constant to add.
        level: level of the interval.
        resamples: number of resamples; 0 for no interval.
    """
    return combined_ratio(
        *ratio_columns(columns, factors), *design(questions),
        constant=constant, level=level, resamples=resamples, seed=seed,
    )  # fmt: skip


def ratio_columns(
    columns: Sequence[Sequence[Parts]], factors: Sequence[float]
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Return numerators, denominators and factors of ratios, with a column for every epoch.

    A ratio is the mean over its epochs.
    """
    numerators: list[list[float]] = []
    denominators: list[list[float]] = []
    weights: list[float] = []
    for factor, column in zip(factors, columns, strict=True):
        for epoch in zip(*column, strict=True):
            numerators.append([numerator for numerator, _ in epoch])
            denominators.append([denominator for _, denominator in epoch])
            weights.append(factor / len(column[0]))
    return numerators, denominators, weights


def _with_parts(values: Values) -> QuestionValues:
    """Return the values of a scorer whose figure is a ratio.

    Raises:
        ValueError: they have no parts.
    """
    if not isinstance(values, QuestionValues):
        raise ValueError("the figure of a ratio needs the parts of each question: QuestionValues, by scorer_values")
    return values


def design(questions: Sequence[Question]) -> tuple[list[str], list[str]]:
    """Return the stratum (dataset) and the cluster of each question."""
    return [question.benchmark for question in questions], [question.cluster for question in questions]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


class RunPair(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions under one scorer: `second` minus `first`."""

    first: str
    second: str
    tests: PairedFigure
    p_holm: float | None
    """McNemar's p after Holm's correction over the pairs of the table in all its groups."""


class QuestionGroup(Struct, frozen=True, kw_only=True):
    """Figures of one group of questions."""

    name: str
    questions: int
    figures: dict[str, Figure]
    """Run id → figure."""
    costs: dict[str, QuestionCost] = {}
    """Run id → cost of a question of the group."""
    pairs: tuple[RunPair, ...]


class GroupTable(Struct, frozen=True, kw_only=True):
    """Figures of runs by groups of questions."""

    by: str
    groups: tuple[QuestionGroup, ...]


def property_named(name: str, questions: Sequence[Question]) -> Callable[[Question], str]:
    """Return the function that reads the property of ``--group-by NAME`` from a question.

    `group`, as it is called in a question's line, is the subject.

    Raises:
        UserError: the property is unknown, or no question has it.
    """
    metadata_keys = sorted({key for question in questions for key in question.metadata})
    if name == "group" and name not in metadata_keys:
        name = "subject"
    if name in _PROPERTIES:
        property_of = _PROPERTIES[name]
    else:
        if name not in metadata_keys:
            names = [*_PROPERTIES, *metadata_keys]
            raise UserError(
                f"Questions cannot be grouped by {name!r}.{nearest(name, names)} Known: {', '.join(names)}."
            )

        def property_of(question: Question) -> str:
            return question.metadata.get(name, "")

    if not any(property_of(question) for question in questions):
        raise UserError(f"None of these questions has a {name}; take another property.")
    return property_of


def group_table(
    group_by: str,
    questions: Sequence[Question],
    values: Mapping[str, Values],
    unsettled: Mapping[str, Mapping[str, float]],
    costs: Callable[[str, Sequence[Question]], QuestionCost],
    seed: int,
    scorer: ScorerRecord | None = None,
    epochs: int = 1,
    stopped: Callable[[str, str], bool] = lambda first, second: False,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> GroupTable:
    """Return figures and paired tests for each group of questions, the largest group first.

    Args:
        group_by: name of a property of questions.
        questions: questions that the scorer applies to.
        values: run id → question id → score.
        unsettled: run id → question id → share of attempts whose result is open.
        costs: function of a run id and questions that returns what one of them costs.
        seed: of the bootstrap.
        scorer, epochs: see :func:`figure`.
        stopped: predicate of two run ids, true if one of them stopped early by its own results. Their differences get
            no interval and no test here, as both assume a number of questions that was fixed beforehand.
        pairs: pairs of run ids to test; ``None``: all pairs.
    """
    property_of = property_named(group_by, questions)
    questions_by_group: dict[str, list[Question]] = {}
    for question in questions:
        questions_by_group.setdefault(property_of(question) or NONE, []).append(question)
    tests: dict[tuple[str, str, str], PairedFigure] = {}
    for name, group_questions in questions_by_group.items():
        for first, second in itertools.combinations(values, 2) if pairs is None else pairs:
            difference = paired(group_questions, values[first], values[second], seed, scorer, epochs)
            if stopped(first, second):
                difference = replace(difference, low=None, high=None, p_mcnemar=None, mde=None)
            tests[name, first, second] = difference
    corrected = holm_corrected(tests)
    groups = [
        QuestionGroup(
            name=name,
            questions=len(group_questions),
            figures={run: figure(group_questions, values[run], unsettled[run], seed, scorer, epochs) for run in values},
            costs={run: costs(run, group_questions) for run in values},
            pairs=tuple(
                RunPair(first=first, second=second, tests=test, p_holm=corrected.get((name, first, second)))
                for (group, first, second), test in tests.items()
                if group == name
            ),
        )
        for name, group_questions in questions_by_group.items()
    ]
    return GroupTable(by=group_by, groups=tuple(sorted(groups, key=lambda group: (-group.questions, group.name))))


def holm_corrected(tests: Mapping[KeyT, PairedFigure]) -> dict[KeyT, float]:
    """Return McNemar's p of each test that has one, after Holm's correction over all of them.

    Pairs with always-valid tests count too: the table reports the differences of both kinds, and which pairs are of
    which kind depends on their data.
    """
    p_values = {key: test.p_mcnemar for key, test in tests.items() if test.p_mcnemar is not None}
    among = len(tests) if any(test.draws is not None for test in tests.values()) else None
    return dict(zip(p_values, holm(list(p_values.values()), among), strict=True))


MOST_PAIRS = 1_225
"""Largest number of pairs of runs that are tested under each scorer: the pairs of 50 runs."""

Pair = tuple[str, str]
"""Ids of two runs; the difference shown is the second minus the first."""


def chosen_pairs(runs: Sequence[str], baseline: str = "") -> tuple[list[Pair], str]:
    """Return the pairs of run ids to test and a note about the choice, empty if no note is needed.

    Args:
        runs: run ids, each once.
        baseline: id of the run that all others are compared with; if empty, all pairs are compared.
    """
    if baseline:
        note = f"Differences are those to the baseline {baseline}; Holm's correction is over these."
        return [(baseline, run) for run in runs if run != baseline], note * (len(runs) > 2)
    pairs = list(itertools.combinations(runs, 2))
    if len(pairs) <= MOST_PAIRS:
        return pairs, ""
    return [], (
        f"{len(runs):,} runs make {len(pairs):,} pairs, and at most {MOST_PAIRS:,} are tested, so paired differences "
        "are left out: compare with one run (--baseline RUN)."
    )
