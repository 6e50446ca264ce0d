"""The figures of a comparison: a mean with its intervals, and two runs paired. From values to records.

Tables by a property of the questions: their subject, dataset, kind, language, or a field of their metadata.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.errors import UserError, nearest
from ragrounds.evals.stats import (
    binomial_error,
    holm,
    macro_error,
    mcnemar,
    minimum_detectable_effect,
    paired_difference,
    stratified_mean,
    wilson,
)
from ragrounds.records import Question, Score

Values = Mapping[str, float | None]
"""Question id → mean score over epochs; ``None``: no score (a judge that failed)."""


class Figure(Struct, frozen=True, kw_only=True):
    """A mean score with what is known about its precision. Shares, not percent."""

    value: float | None
    n: int
    """Questions with a score."""
    missing: int
    """Questions whose score is missing; they are in no mean."""
    error: float | None
    """The paper's ± figure: sqrt(p(1-p)/n) of one dataset (MIRAGE Section 4.1), combined over datasets."""
    low: float | None
    """95 % interval: Wilson's for right-or-wrong scores of one dataset, else a bootstrap stratified by dataset and
    clustered by duplicates."""
    high: float | None
    best: float | None
    """The value if every open attempt (failed, capped, not run) had been right."""


class PairedFigure(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions; the difference is `second` minus `first`."""

    difference: float | None
    low: float | None
    """95 % interval by the paired bootstrap, stratified by dataset, clustered by duplicates; of runs that ended by
    their own results a confidence sequence (`p_always`)."""
    high: float | None
    n: int
    first_only: int | None
    """Questions that only the first run has right; ``None``: scores are not right-or-wrong."""
    second_only: int | None
    p_mcnemar: float | None
    """Exact McNemar test, one question of each cluster of duplicates."""
    mde: float | None
    """The smallest true difference that these questions show with 80 % power at 5 %."""
    p_always: float | None = None
    """Of runs that ended by their own results: the p value that is valid at any number of questions, in place of
    `p_mcnemar` and `detectable`, which are for a number that was fixed beforehand."""
    watched: int | None = None
    """Draws (questions; duplicates and datasets together) that this p value and its interval rest on."""


def scorer_values(questions: Iterable[Question], scores: Iterable[Score], epochs: int) -> dict[str, float | None]:
    """Each question's mean score over its epochs. An attempt without a score counts as 0, a score without a value
    (missing) makes the question's value missing."""
    by_question: dict[str, list[float | None]] = defaultdict(list)
    for score in scores:
        by_question[score.question_id].append(score.value)
    values: dict[str, float | None] = {}
    for question in questions:
        known = by_question.get(question.id, [])
        numbers = [value for value in known if value is not None]
        values[question.id] = None if len(numbers) < len(known) else sum(numbers) / epochs
    return values


def figure(questions: Sequence[Question], values: Values, open_: Mapping[str, float], seed: int) -> Figure:
    """The unweighted mean over the questions' datasets."""
    scored = [(question, value) for question in questions if (value := values.get(question.id)) is not None]
    missing = len(questions) - len(scored)
    if not scored:
        return Figure(value=None, n=0, missing=missing, error=None, low=None, high=None, best=None)
    numbers = [value for _, value in scored]
    datasets: dict[str, list[int]] = defaultdict(list)
    for index, (question, _) in enumerate(scored):
        datasets[question.benchmark].append(index)
    means = {name: _mean([numbers[i] for i in places]) for name, places in datasets.items()}
    best = [
        _mean([min(1.0, numbers[i] + open_.get(scored[i][0].id, 0.0)) for i in places]) for places in datasets.values()
    ]
    # Scores that are not right-or-wrong have no p(1-p): their spread is the bootstrap's.
    binary = all(number in (0.0, 1.0) for number in numbers)
    alone = len(datasets) == 1 and len({question.cluster or question.id for question, _ in scored}) == len(scored)
    if binary and alone:
        low, high = wilson(sum(numbers), len(numbers))
    else:
        estimate = stratified_mean(numbers, *_design([question for question, _ in scored]), seed=seed)
        low, high = estimate.low, estimate.high
    errors = [binomial_error(means[name], len(places)) for name, places in datasets.items()]
    return Figure(
        value=_mean(list(means.values())),
        n=len(scored),
        missing=missing,
        error=macro_error(errors) if binary else None,
        low=low,
        high=high,
        best=_mean(best),
    )


def paired(questions: Sequence[Question], first: Values, second: Values, seed: int) -> PairedFigure:
    """`second` minus `first`, on the questions where both have a score."""
    both = [
        (question, one, other)
        for question in questions
        if (one := first.get(question.id)) is not None and (other := second.get(question.id)) is not None
    ]
    if not both:
        return PairedFigure(
            difference=None,
            low=None,
            high=None,
            n=0,
            first_only=None,
            second_only=None,
            p_mcnemar=None,
            mde=None,
        )
    ones, others = [one for _, one, _ in both], [other for _, _, other in both]
    estimate = paired_difference(ones, others, *_design([question for question, _, _ in both]), seed=seed)
    binary = all(number in (0.0, 1.0) for number in (*ones, *others))
    test = None
    if binary:
        lone = {question.cluster or question.id: (one == 1.0, other == 1.0) for question, one, other in reversed(both)}
        test = mcnemar([one for one, _ in lone.values()], [other for _, other in lone.values()])
    differing = sum(one != other for one, other in zip(ones, others, strict=True)) / len(both)
    return PairedFigure(
        difference=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=len(both),
        first_only=sum(one > other for one, other in zip(ones, others, strict=True)) if binary else None,
        second_only=sum(one < other for one, other in zip(ones, others, strict=True)) if binary else None,
        p_mcnemar=test.p if test else None,
        mde=minimum_detectable_effect(len(both), differing) if binary and differing > 0 else None,
    )


def _design(questions: Sequence[Question]) -> tuple[list[str], list[str]]:
    """Dataset and cluster of each question."""
    return [question.benchmark for question in questions], [question.cluster for question in questions]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


_PROPERTIES: dict[str, Callable[[Question], str]] = {
    "subject": lambda question: question.group,
    "dataset": lambda question: question.benchmark,
    "kind": lambda question: question.kind,
    "language": lambda question: question.language,
    "split": lambda question: question.split,
}
NONE = "(none)"
"""The group of questions that do not have the property."""


class GroupPair(Struct, frozen=True, kw_only=True):
    """Two runs inside one group: `second` minus `first`."""

    first: str
    second: str
    tests: PairedFigure
    p_holm: float | None
    """McNemar's p after Holm's correction over all groups and pairs of the table."""


class QuestionGroup(Struct, frozen=True, kw_only=True):
    """The questions of one group."""

    name: str
    questions: int
    figures: dict[str, Figure]
    """By run."""
    pairs: tuple[GroupPair, ...]


class GroupTable(Struct, frozen=True, kw_only=True):
    """Runs by groups of questions."""

    by: str
    groups: tuple[QuestionGroup, ...]


def property_named(name: str, questions: Sequence[Question]) -> Callable[[Question], str]:
    """What `--group-by NAME` reads of a question.

    Raises:
        UserError: no such property, or one that no question has.
    """
    if name in _PROPERTIES:
        read = _PROPERTIES[name]
    else:
        known = sorted({key for question in questions for key in question.metadata})
        if name not in known:
            names = [*_PROPERTIES, *known]
            raise UserError(
                f"Questions cannot be grouped by {name!r}.{nearest(name, names)} These can be grouped by "
                f"{', '.join(names)}."
            )

        def read(question: Question) -> str:
            return question.metadata.get(name, "")

    if not any(read(question) for question in questions):
        raise UserError(f"None of these questions has a {name}; group by another property.")
    return read


def group_table(
    by: str,
    questions: Sequence[Question],
    values: Mapping[str, Values],
    open_: Mapping[str, Mapping[str, float]],
    seed: int,
    stopped: Callable[[str, str], bool] = lambda first, second: False,
) -> GroupTable:
    """Figures and paired tests inside each group, the largest group first.

    Args:
        by: a property of questions.
        questions: those a scorer scores.
        values: run id → question id → score.
        open_: run id → question id → share of attempts whose result is open.
        seed: of the bootstrap.
        stopped: of two run ids, whether one ended by its own results: their differences get no interval and no test
            here, as both would be for a number of questions that was fixed beforehand.
    """
    read = property_named(by, questions)
    members: dict[str, list[Question]] = {}
    for question in questions:
        members.setdefault(read(question) or NONE, []).append(question)
    tests = {
        (name, first, second): _tested(paired(inside, values[first], values[second], seed), stopped(first, second))
        for name, inside in members.items()
        for first, second in itertools.combinations(values, 2)
    }
    known = {key: test.p_mcnemar for key, test in tests.items() if test.p_mcnemar is not None}
    corrected = dict(zip(known, holm(list(known.values())), strict=True))
    groups = [
        QuestionGroup(
            name=name,
            questions=len(inside),
            figures={run: figure(inside, values[run], open_[run], seed) for run in values},
            pairs=tuple(
                GroupPair(first=first, second=second, tests=test, p_holm=corrected.get((name, first, second)))
                for (group, first, second), test in tests.items()
                if group == name
            ),
        )
        for name, inside in members.items()
    ]
    return GroupTable(by=by, groups=tuple(sorted(groups, key=lambda group: (-group.questions, group.name))))


def _tested(tests: PairedFigure, stopped: bool) -> PairedFigure:
    return replace(tests, low=None, high=None, p_mcnemar=None, mde=None) if stopped else tests
