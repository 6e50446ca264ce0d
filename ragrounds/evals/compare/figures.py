"""The figures of a comparison: a mean with its intervals, and two runs paired. From values to records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.stats import (
    binomial_error,
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


class Paired(Struct, frozen=True, kw_only=True):
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


def paired(questions: Sequence[Question], first: Values, second: Values, seed: int) -> Paired:
    """`second` minus `first`, on the questions where both have a score."""
    both = [
        (question, one, other)
        for question in questions
        if (one := first.get(question.id)) is not None and (other := second.get(question.id)) is not None
    ]
    if not both:
        return Paired(
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
    return Paired(
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
