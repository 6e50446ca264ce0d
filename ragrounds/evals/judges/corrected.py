"""Judged figures corrected by people's labels of some of the answers.

A judge's mean is as wrong as the judge. People label a sample of the same answers. The corrected figure is the judge's
mean over all answers, moved by its error on the labelled ones, with an interval that accounts for both samples
(prediction-powered inference: Angelopoulos et al. 2023). The estimators come from libraries. ``cje-eval`` (Landesberg
and Narayan 2025) gives means and paired differences, also if answers had unequal chances to be labelled; if it is not
installed, ``glide-py`` (PPI++, Angelopoulos et al. 2024; from Python 3.12 on) is used. Without either, no figure is
corrected.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Run, Score
from ragrounds.evals.benchmarks.benchmark import cluster_of, lot
from ragrounds.evals.judges.labels import HumanLabels, LabelAgreement
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.stats.agreement import Agreement
from ragrounds.evals.stats.estimates import paired_difference, stratified_mean
from ragrounds.evals.stats.intervals import Estimate, normal_quantile
from ragrounds.evals.store.store import Store

FEWEST = 20
"""Smallest number of labelled answers for which a run's figure is corrected, as cje-eval requires for every policy."""
INSTALL = "pip install 'ragrounds[people]'"


class JudgedRow(Struct, frozen=True, kw_only=True):
    """Scores of one answer under one scorer."""

    question: str
    cluster: str
    judge: float
    person: float | None = None
    """Score from people's labels; ``None`` if the answer is not labelled."""
    chance: float = 1.0
    """Probability that the answer was labelled, up to a factor of its run."""


class Corrected(Struct, frozen=True, kw_only=True):
    """A corrected figure or difference, on the scale of the scores, with its 95 % interval."""

    value: float
    low: float
    high: float
    error: float
    """Standard error."""


class CorrectedFigure(Struct, frozen=True, kw_only=True):
    """Figure of a run by the judge alone, and corrected."""

    scorer: str
    run: str
    judge: Estimate | None
    """Mean by the judge; ``None`` if no answer has its verdict."""
    labelled: int
    """Number of answers with people's score and the judge's."""
    sampled: int | None = None
    """Number of answers in the sheet, sampled for labelling; ``None`` if the sheet has no probabilities."""
    blank: int = 0
    """Number of these that are left blank, wholly or in part."""
    corrected: Corrected | None = None
    why: str = ""
    """Reason why there is no corrected figure."""
    effective: int | None = None
    """Number of labels that alone would give as narrow an interval: the variance of people's scores divided by the
    squared error."""
    more: int | None = None
    """Further labelled answers for the requested width of the interval; ``None`` if no width was requested, or if it
    cannot be reached with this run's answers (`short`)."""
    short: bool = False


class CorrectedDifference(Struct, frozen=True, kw_only=True):
    """Figure of a run minus that of the first run, on the same questions."""

    scorer: str
    run: str
    first: str
    judge: Estimate | None
    corrected: Corrected | None = None
    why: str = ""


class Corrections(Struct, frozen=True, kw_only=True):
    """Judged figures of runs, corrected by people's labels."""

    by: str
    """Library with its version; empty if none is installed."""
    drawn: bool
    """True if labels come with the probability that their answers were sampled; otherwise uniform sampling is
    assumed."""
    figures: tuple[CorrectedFigure, ...]
    differences: tuple[CorrectedDifference, ...]
    notes: tuple[str, ...] = ()
    """Warnings of the library about unreliable figures."""


class CategoryAgreement(Struct, frozen=True, kw_only=True):
    """Agreement of a judge with people on a part of the items."""

    of: str
    """Kind of category: ``agent``, ``dataset`` or ``subject``."""
    name: str
    agreement: Agreement


class JudgePrice(Struct, frozen=True, kw_only=True):
    """Cost of a judge, and the width of the first run's figure corrected from its verdicts."""

    judge: str
    cost: float | None
    """Dollars of its calls about these runs with an empty journal; ``None`` if not known."""
    width: float | None
    """Width of the 95 % interval, on the scale of the first scorer; ``None`` if there is no corrected figure."""
    effective: int | None


class PeopleAgreement(LabelAgreement, frozen=True, kw_only=True):
    """Agreement of a judge with people, by category, and its figures corrected by their labels."""

    categories: tuple[CategoryAgreement, ...] = ()
    corrections: tuple[Corrections, ...] = ()
    """Corrected figures, one entry for each scorer of the judge method."""
    prices: tuple[JudgePrice, ...] = ()
    """Prices, one for each judge if several judged these runs."""


Rows = Mapping[str, Sequence[JudgedRow]]
"""Run → its answers."""


class _Library(Protocol):
    def __call__(self, runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
        """Return run → figure, run → difference from `first`, and notes.

        Raises:
            ValueError: the library refuses the data.
        """


def correct(
    scorer: str, runs: Rows, *, is_sampled: bool = True, width: float | None = None, library_name: str = ""
) -> Corrections:
    """Correct the mean of every run, and its difference from the first run.

    Args:
        scorer: scorer of the scores.
        runs: run → its answers, the same questions in each.
        is_sampled: True if the sampling probabilities of the rows are known.
        width: requested width of the interval, on the scale of the scores.
        library_name: ``cje-eval`` or ``glide-py``; if empty, the first that is installed.
    """
    name = library_name or next(filter(_installed, _LIBRARIES), "")
    reasons = {
        run: _missing_labels(rows) if name else f"cje-eval is not installed: {INSTALL}" for run, rows in runs.items()
    }
    usable = {run: rows for run, rows in runs.items() if not reasons[run]}
    first = next(iter(runs))
    figures, differences, notes = dict[str, Corrected](), dict[str, Corrected](), list[str]()
    if usable:
        try:
            figures, differences, notes = _LIBRARIES[name](usable, first)
        except ValueError as error:
            reasons |= dict.fromkeys(usable, f"{name}: {error}")
    corrected_figures = []
    for run, rows in runs.items():
        judge_mean = (
            stratified_mean([row.judge for row in rows], clusters=[row.cluster for row in rows]) if rows else None
        )
        labelled = sum(row.person is not None for row in rows)
        uncorrected = CorrectedFigure(scorer=scorer, run=run, judge=judge_mean, labelled=labelled, why=reasons[run])
        corrected_figures.append(
            _with_label_counts(replace(uncorrected, corrected=correction), rows, width)
            if (correction := figures.get(run))
            else uncorrected
        )
    pairs = tuple(
        CorrectedDifference(
            scorer=scorer,
            run=run,
            first=first,
            judge=_judged_difference(runs[first], runs[run]),
            corrected=differences.get(run),
            why="" if run in differences else reasons[run] or reasons[first] or _FEW_PAIRS,
        )
        for run in list(runs)[1:]
    )
    library = f"{name} {version(name)}" if name else ""
    return Corrections(
        by=library, drawn=is_sampled, figures=tuple(corrected_figures), differences=pairs, notes=tuple(notes)
    )


_FEW_PAIRS = f"fewer than {FEWEST} questions are labelled in both"


def _missing_labels(rows: Sequence[JudgedRow]) -> str:
    """Return the reason why a run's figure cannot be corrected; empty if it can."""
    people = [row.person for row in rows if row.person is not None]
    if len(people) < FEWEST:
        return f"{len(people)} answers of this agent have labels; {FEWEST} are needed"
    if len(set(people)) == 1:
        return f"people scored all {len(people)} labelled answers alike"
    return ""


def _with_label_counts(figure: CorrectedFigure, rows: Sequence[JudgedRow], width: float | None) -> CorrectedFigure:
    """Return the figure with the effective number of labels, and how many more make the interval as narrow as `width`.

    The squared error of n labels of N answers is v/N + c (1/n - 1/N). v is the variance of people's scores, and c is
    the part of it that the judge does not explain, computed from the observed error.
    """
    correction = figure.corrected
    if correction is None:
        return figure
    if described(figure.scorer).unit == "percent":  # no share is below 0 or above 1
        correction = replace(
            correction, value=_share(correction.value), low=_share(correction.low), high=_share(correction.high)
        )
    people = [(row.person, 1 / row.chance) for row in rows if row.person is not None]
    values, weights = np.array(people).T
    spread = float(np.cov(values, aweights=weights))
    n, size, square = len(people), len(rows), correction.error**2
    measured = replace(figure, corrected=correction, effective=math.floor(spread / square + 1e-9))
    if width is None or correction.high - correction.low <= width:
        return replace(measured, more=None if width is None else 0)
    squared_error_left = (width / 2 / normal_quantile(0.95)) ** 2 - spread / size
    if squared_error_left <= 0 or n >= size:
        return replace(measured, short=True)
    residual = max(square - spread / size, 1e-12) / (1 / n - 1 / size)
    return replace(measured, more=max(1, math.ceil(1 / (squared_error_left / residual + 1 / size)) - n))


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _judged_difference(first: Sequence[JudgedRow], other: Sequence[JudgedRow]) -> Estimate | None:
    left, right = ({row.question: row for row in rows} for rows in (first, other))
    shared = [name for name in left if name in right]
    if not shared:
        return None
    first_values, other_values = ([by_question[name].judge for name in shared] for by_question in (left, right))
    return paired_difference(first_values, other_values, clusters=[left[name].cluster for name in shared])


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the library's logs about single fits; its gates are reported as notes."""
    log = logging.getLogger("cje")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _by_cje(runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
    """Correct figures by cje-eval's calibrated direct estimator.

    The judge is calibrated by all labels, cross-fitted, and the rest is corrected by the run's own labels.
    """
    from cje import analyze_dataset

    all_scores = [
        value for rows in runs.values() for row in rows for value in (row.judge, row.person) if value is not None
    ]
    scale = (min(0.0, *all_scores), max(1.0, *all_scores))
    chances = {run: {row.chance for row in rows if row.person is not None} for run, rows in runs.items()}
    design: dict[str, Any] = {}
    if any(len(distinct) > 1 for distinct in chances.values()):
        design = {
            "label_design": "known_propensity",
            "label_propensities": {run: [row.chance for row in rows] for run, rows in runs.items()},
        }
    draws = {
        run: [
            {"prompt_id": row.cluster, "row_id": row.question, "judge_score": row.judge, "oracle_label": row.person}
            for row in rows
        ]
        for run, rows in runs.items()
    }
    with _quiet():
        analysis = analyze_dataset(fresh_draws_data=draws, fresh_judge_scale=scale, fresh_oracle_scale=scale, **design)
    figures = {
        run: Corrected(value=float(value), low=float(low), high=float(high), error=float(error))
        for run, value, (low, high), error in zip(
            analysis.target_policies, analysis.estimates, analysis.ci(), analysis.standard_errors, strict=True
        )
        if math.isfinite(error)
    }
    pairs = {}
    for run in runs if first in runs else ():
        if run != first and run in figures and first in figures:
            pair = analysis.compare_policies(run, first)
            keys = {"value": "difference", "low": "ci_lower", "high": "ci_upper", "error": "se_difference"}
            pairs[run] = Corrected(**{ours: float(pair[theirs]) for ours, theirs in keys.items()})
    gates = analysis.metadata.get("reliability_gates", {})
    return figures, pairs, [f"{run}: {', '.join(gate['reasons'])}" for run, gate in gates.items() if gate["flagged"]]


def _by_glide(runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
    """Correct figures by glide-py: PPI++, or active statistical inference if sampling probabilities differ.

    Differences are estimated on the questions of both runs; those labelled in both count as labelled. Answers are
    assumed to be independent.
    """
    from glide.estimators import ASIMeanEstimator, ClassicalMeanEstimator, PPIMeanEstimator

    def estimate(people: Sequence[float | None], judge: Sequence[float], chances: Sequence[float]) -> Corrected:
        people_scores, judge_scores = np.array(people, dtype=float), np.array(judge)
        if len({chance for chance, person in zip(chances, people, strict=True) if person is not None}) > 1:
            estimation = ASIMeanEstimator().estimate(people_scores, judge_scores, np.array(chances))
        elif len(set(judge)) == 1:  # a constant judge says nothing, and PPI++ refuses it
            estimation = ClassicalMeanEstimator().estimate(people_scores[~np.isnan(people_scores)])
        else:
            estimation = PPIMeanEstimator().estimate(people_scores, judge_scores)
        interval = estimation.confidence_interval
        return Corrected(
            value=float(estimation.mean),
            low=float(interval.lower_bound),
            high=float(interval.upper_bound),
            error=float(estimation.std),
        )

    if any(len({row.cluster for row in rows}) < len(rows) for rows in runs.values()):
        raise ValueError("it takes questions as independent, and some share a cluster; cje-eval does not")
    figures = {
        run: estimate([row.person for row in rows], [row.judge for row in rows], [row.chance for row in rows])
        for run, rows in runs.items()
    }
    pairs = {}
    base = {row.question: row for row in runs.get(first, ())}
    for run, rows in runs.items():
        row_pairs = [(row, base[row.question]) for row in rows if row.question in base and run != first]
        people = [
            None if run_row.person is None or first_row.person is None else run_row.person - first_row.person
            for run_row, first_row in row_pairs
        ]
        # Probabilities of pairs are known only if one sample chose the questions of all runs.
        has_equal_chances = len({row.chance for pair in row_pairs for row in pair if row.person is not None}) == 1
        if (
            has_equal_chances
            and sum(person is not None for person in people) >= FEWEST
            and len(set(people) - {None}) > 1
        ):
            pairs[run] = estimate(
                people, [run_row.judge - first_row.judge for run_row, first_row in row_pairs], [1.0] * len(row_pairs)
            )
    return figures, pairs, []


_LIBRARIES: dict[str, _Library] = {"cje-eval": _by_cje, "glide-py": _by_glide}


def judged_rows(
    store: Store,
    run: Run,
    method: LabelMethod,
    labels: Mapping[str, str | None],
    people: Mapping[str, str],
    chances: Mapping[str, float],
    epoch: int = 0,
) -> dict[str, list[JudgedRow]]:
    """Return scorer → answers of an epoch that verdicts score, with people's scores of the labelled ones.

    Args:
        store: store of the run.
        run: judged run.
        method: judge method.
        labels: item → the judge's verdict.
        people: item → the label of their majority.
        chances: item → its probability to be labelled; 1 if missing.
        epoch: epoch of the run.
    """
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    attempts = {attempt.question_id: attempt for attempt in store.attempts(run) if attempt.epoch == epoch}
    rows_by_scorer: dict[str, list[JudgedRow]] = {scorer.name: [] for scorer in method.scorers}
    certain_rows: dict[str, list[JudgedRow]] = {scorer.name: [] for scorer in method.scorers}
    for question in questions:
        attempt, gold = attempts.get(question.id), golds[question.id]
        if attempt is None or not method.fits(question, gold):
            continue
        items, certain_values = list(method.items(gold)), _values(method.unasked(attempt, question, gold))
        judge_values = certain_values or _by_labels(method, attempt, gold, [labels.get(item) for item in items])
        human_values = {} if certain_values else _by_labels(method, attempt, gold, [people.get(item) for item in items])
        for name, value in judge_values.items():
            row = JudgedRow(question=question.id, cluster=cluster_of(question), judge=value)
            row = replace(row, person=human_values.get(name), chance=chances.get(items[0], 1.0))
            (certain_rows if certain_values else rows_by_scorer)[name].append(row)
    return {name: [*rows, *_as_sampled(certain_rows[name], rows)] for name, rows in rows_by_scorer.items()}


def _values(scores: Sequence[Score]) -> dict[str, float]:
    """Return scorer → score, for scorers that have one."""
    return {score.scorer: score.value for score in scores if score.value is not None}


def _by_labels(method: LabelMethod, attempt: Attempt, gold: Gold, labels: Sequence[str | None]) -> dict[str, float]:
    """Return scorer → the score from the labels of an answer's items; missing if a required label is."""
    return _values(method.scores(attempt, gold, [(label or "", "") for label in labels]))


def _as_sampled(certain: Sequence[JudgedRow], sampled: Sequence[JudgedRow]) -> Iterator[JudgedRow]:
    """Yield answers without a text, whose scores need no judge.

    As large a share of them counts as labelled as of the others, so that the labelled ones stay a sample of all.
    """
    labelled = sum(row.person is not None for row in sampled)
    labelled_count = round(len(certain) * labelled / len(sampled)) if sampled else 0
    common_chance = Counter(row.chance for row in sampled if row.person is not None).most_common(1)
    for index, row in enumerate(sorted(certain, key=lambda row: lot(0, row.question))):
        yield replace(
            row,
            person=row.judge if index < labelled_count else None,
            chance=common_chance[0][0] if common_chance else 1.0,
        )


def label_chances(labels: HumanLabels) -> dict[tuple[str, str], float]:
    """Return run and item → the probability in its sheet, times the share of the sheet's items with this probability
    that were labelled."""
    sampled_counts, labelled_counts = Counter[tuple[str, float]](), Counter[tuple[str, float]]()
    for name, mark in labels.marks.items():
        if mark.chance is not None:
            sampled_counts[mark.run, mark.chance] += 1
            labelled_counts[mark.run, mark.chance] += any(labels.items.get(name, ()))
    return {
        (mark.run, mark.item): mark.chance
        * labelled_counts[mark.run, mark.chance]
        / sampled_counts[mark.run, mark.chance]
        for mark in labels.marks.values()
        if mark.chance is not None and labelled_counts[mark.run, mark.chance]
    }
