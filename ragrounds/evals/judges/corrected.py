"""Judged figures, corrected by people's labels of some of the answers.

A judge's mean is as wrong as the judge. People label a sample of the same answers; the corrected figure is the judge's
mean over all answers, moved by how far it is off where people looked, with an interval that holds both samples
(prediction-powered inference: Angelopoulos et al. 2023). No estimator is of our own. ``cje-eval`` (Landesberg and
Narayan 2025) gives means and paired differences, also where answers had unequal chances to be labelled; where it is
missing, ``glide-py`` (PPI++, Angelopoulos et al. 2024; from Python 3.12 on). Without either a figure is not available.
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
"""Labelled answers of a run from which its figure is corrected: what cje-eval asks of every policy."""
INSTALL = "pip install 'ragrounds[people]'"


class JudgedRow(Struct, frozen=True, kw_only=True):
    """One answer under one scorer."""

    question: str
    cluster: str
    judge: float
    person: float | None = None
    """The same score from people's labels; ``None``: it is not labelled."""
    chance: float = 1.0
    """With which the answer came to be labelled, up to a factor of its run."""


class Corrected(Struct, frozen=True, kw_only=True):
    """A corrected figure or difference, on the scale of the scores, with its 95 % interval."""

    value: float
    low: float
    high: float
    error: float
    """Standard error."""


class CorrectedFigure(Struct, frozen=True, kw_only=True):
    """A run's figure by the judge alone, and corrected."""

    scorer: str
    run: str
    judge: Estimate | None
    """The judge's mean; ``None``: no answer has its verdict."""
    labelled: int
    """Answers with people's score and the judge's."""
    corrected: Corrected | None = None
    why: str = ""
    """Why there is no corrected figure."""
    effective: int | None = None
    """Labels that alone would give as narrow an interval: the variance of people's scores by the squared error."""
    more: int | None = None
    """Further labelled answers for the wanted width of the interval; ``None``: none was asked for, or it is not to be
    had with this run's answers (`short`)."""
    short: bool = False


class CorrectedDifference(Struct, frozen=True, kw_only=True):
    """A run's figure minus that of the first, on the same questions."""

    scorer: str
    run: str
    first: str
    judge: Estimate | None
    corrected: Corrected | None = None
    why: str = ""


class Corrections(Struct, frozen=True, kw_only=True):
    """What people's labels make of judged figures."""

    by: str
    """The library with its version; empty: none is installed."""
    drawn: bool
    """Whether labels come with the chance that their answers had; else chance is taken to have drawn them."""
    figures: tuple[CorrectedFigure, ...]
    differences: tuple[CorrectedDifference, ...]
    notes: tuple[str, ...] = ()
    """What the library says of figures that must not be relied on."""


class CategoryAgreement(Struct, frozen=True, kw_only=True):
    """A judge against people on a part of the items."""

    of: str
    """``agent``, ``dataset`` or ``subject``."""
    name: str
    agreement: Agreement


class JudgePrice(Struct, frozen=True, kw_only=True):
    """What a judge costs, and how narrow the figure of the first run is that people's labels make of its verdicts."""

    judge: str
    cost: float | None
    """Dollars of its calls about these runs without any cache; ``None``: not known."""
    width: float | None
    """Of the 95 % interval, on the scale of the first scorer; ``None``: no corrected figure."""
    effective: int | None


class PeopleAgreement(LabelAgreement, frozen=True, kw_only=True):
    """A judge against people, by category, and its figures corrected by their labels."""

    categories: tuple[CategoryAgreement, ...] = ()
    corrections: tuple[Corrections, ...] = ()
    """One a scorer of this way of judging."""
    prices: tuple[JudgePrice, ...] = ()
    """One a judge, where several judged these runs."""


Rows = Mapping[str, Sequence[JudgedRow]]
"""Run → its answers."""


class _Library(Protocol):
    def __call__(self, runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
        """Run → figure; run → its difference from `first`; notes.

        Raises:
            ValueError: the library refuses the data.
        """


def correct(scorer: str, runs: Rows, *, drawn: bool = True, width: float | None = None, by: str = "") -> Corrections:
    """Correct the mean of every run, and each one's difference from the first.

    Args:
        scorer: whose scores they are.
        runs: run → its answers, the same questions in each.
        drawn: whether the chances of the rows are known.
        width: of the interval that is wanted, on the scale of the scores.
        by: ``cje-eval`` or ``glide-py``; empty: the first that is installed.
    """
    name = by or next(filter(_installed, _LIBRARIES), "")
    why = {run: _lack(rows) if name else f"cje-eval is not installed: {INSTALL}" for run, rows in runs.items()}
    usable = {run: rows for run, rows in runs.items() if not why[run]}
    first = next(iter(runs))
    figures, differences, notes = dict[str, Corrected](), dict[str, Corrected](), list[str]()
    if usable:
        try:
            figures, differences, notes = _LIBRARIES[name](usable, first)
        except ValueError as error:
            why |= dict.fromkeys(usable, f"{name}: {error}")
    made = []
    for run, rows in runs.items():
        judged = stratified_mean([row.judge for row in rows], clusters=[row.cluster for row in rows]) if rows else None
        labelled = sum(row.person is not None for row in rows)
        one = CorrectedFigure(scorer=scorer, run=run, judge=judged, labelled=labelled, why=why[run])
        made.append(_measured(replace(one, corrected=found), rows, width) if (found := figures.get(run)) else one)
    pairs = tuple(
        CorrectedDifference(
            scorer=scorer,
            run=run,
            first=first,
            judge=_judged_difference(runs[first], runs[run]),
            corrected=differences.get(run),
            why="" if run in differences else why[run] or why[first] or _FEW_PAIRS,
        )
        for run in list(runs)[1:]
    )
    said = f"{name} {version(name)}" if name else ""
    return Corrections(by=said, drawn=drawn, figures=tuple(made), differences=pairs, notes=tuple(notes))


_FEW_PAIRS = f"fewer than {FEWEST} questions are labelled in both"


def _lack(rows: Sequence[JudgedRow]) -> str:
    """Why a run's figure cannot be corrected; empty: it can."""
    people = [row.person for row in rows if row.person is not None]
    if len(people) < FEWEST:
        return f"{len(people)} answers are labelled whole, {FEWEST} needed"
    if len(set(people)) == 1:
        return f"people scored all {len(people)} labelled answers alike"
    return ""


def _measured(figure: CorrectedFigure, rows: Sequence[JudgedRow], width: float | None) -> CorrectedFigure:
    """With the effective number of labels, and how many more make the interval as narrow as `width`.

    The squared error of n labels of N answers is v/N + c (1/n - 1/N): v is the variance of people's scores, and c what
    the judge leaves open of it, from the error at hand.
    """
    one = figure.corrected
    if one is None:
        return figure
    if described(figure.scorer).unit == "percent":  # no share is below 0 or above 1
        one = replace(one, value=_share(one.value), low=_share(one.low), high=_share(one.high))
    people = [(row.person, 1 / row.chance) for row in rows if row.person is not None]
    values, weights = np.array(people).T
    spread = float(np.cov(values, aweights=weights))
    n, size, square = len(people), len(rows), one.error**2
    found = replace(figure, corrected=one, effective=math.floor(spread / square + 1e-9))
    if width is None or one.high - one.low <= width:
        return replace(found, more=None if width is None else 0)
    room = (width / 2 / normal_quantile(0.95)) ** 2 - spread / size
    if room <= 0 or n >= size:
        return replace(found, short=True)
    left = max(square - spread / size, 1e-12) / (1 / n - 1 / size)
    return replace(found, more=max(1, math.ceil(1 / (room / left + 1 / size)) - n))


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))


def _judged_difference(first: Sequence[JudgedRow], other: Sequence[JudgedRow]) -> Estimate | None:
    left, right = ({row.question: row for row in rows} for rows in (first, other))
    both = [name for name in left if name in right]
    if not both:
        return None
    one, two = ([of[name].judge for name in both] for of in (left, right))
    return paired_difference(one, two, clusters=[left[name].cluster for name in both])


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """What a library logs of single fits is not for the screen; its gates are notes."""
    log = logging.getLogger("cje")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)


def _by_cje(runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
    """By cje-eval's calibrated direct estimator: the judge calibrated by all labels, cross-fitted, and what is left
    corrected by the run's own."""
    from cje import analyze_dataset

    seen = [value for rows in runs.values() for row in rows for value in (row.judge, row.person) if value is not None]
    scale = (min(0.0, *seen), max(1.0, *seen))
    chances = {run: {row.chance for row in rows if row.person is not None} for run, rows in runs.items()}
    design: dict[str, Any] = {}
    if any(len(of) > 1 for of in chances.values()):
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
        found = analyze_dataset(fresh_draws_data=draws, fresh_judge_scale=scale, fresh_oracle_scale=scale, **design)
    figures = {
        run: Corrected(value=float(value), low=float(low), high=float(high), error=float(error))
        for run, value, (low, high), error in zip(
            found.target_policies, found.estimates, found.ci(), found.standard_errors, strict=True
        )
        if math.isfinite(error)
    }
    pairs = {}
    for run in runs if first in runs else ():
        if run != first and run in figures and first in figures:
            pair = found.compare_policies(run, first)
            keys = {"value": "difference", "low": "ci_lower", "high": "ci_upper", "error": "se_difference"}
            pairs[run] = Corrected(**{ours: float(pair[theirs]) for ours, theirs in keys.items()})
    gates = found.metadata.get("reliability_gates", {})
    return figures, pairs, [f"{run}: {', '.join(gate['reasons'])}" for run, gate in gates.items() if gate["flagged"]]


def _by_glide(runs: Rows, first: str) -> tuple[dict[str, Corrected], dict[str, Corrected], list[str]]:
    """By glide-py: PPI++, or active statistical inference where chances differ; differences on the questions of both,
    those that are labelled in both as labelled. It takes answers as independent."""
    from glide.estimators import ASIMeanEstimator, ClassicalMeanEstimator, PPIMeanEstimator

    def one(people: Sequence[float | None], judge: Sequence[float], chances: Sequence[float]) -> Corrected:
        true, proxy = np.array(people, dtype=float), np.array(judge)
        if len({chance for chance, person in zip(chances, people, strict=True) if person is not None}) > 1:
            found = ASIMeanEstimator().estimate(true, proxy, np.array(chances))
        elif len(set(judge)) == 1:  # it says nothing, and is refused
            found = ClassicalMeanEstimator().estimate(true[~np.isnan(true)])
        else:
            found = PPIMeanEstimator().estimate(true, proxy)
        ends = found.confidence_interval
        return Corrected(
            value=float(found.mean), low=float(ends.lower_bound), high=float(ends.upper_bound), error=float(found.std)
        )

    if any(len({row.cluster for row in rows}) < len(rows) for rows in runs.values()):
        raise ValueError("it takes questions as independent, and some share a cluster; cje-eval does not")
    figures = {
        run: one([row.person for row in rows], [row.judge for row in rows], [row.chance for row in rows])
        for run, rows in runs.items()
    }
    pairs = {}
    base = {row.question: row for row in runs.get(first, ())}
    for run, rows in runs.items():
        both = [(row, base[row.question]) for row in rows if row.question in base and run != first]
        people = [None if a.person is None or b.person is None else a.person - b.person for a, b in both]
        # Chances of pairs are known only where one lot drew the questions of all runs.
        equal = len({row.chance for pair in both for row in pair if row.person is not None}) == 1
        if equal and sum(one is not None for one in people) >= FEWEST and len(set(people) - {None}) > 1:
            pairs[run] = one(people, [a.judge - b.judge for a, b in both], [1.0] * len(both))
    return figures, pairs, []


_LIBRARIES: dict[str, _Library] = {"cje-eval": _by_cje, "glide-py": _by_glide}


def judged_rows(
    store: Store,
    run: Run,
    method: LabelMethod,
    said: Mapping[str, str | None],
    people: Mapping[str, str],
    chances: Mapping[str, float],
    epoch: int = 0,
) -> dict[str, list[JudgedRow]]:
    """Scorer → the answers of an epoch of a run that verdicts score, with people's scores of those that they labelled.

    Args:
        store: of the run.
        run: judged.
        method: how.
        said: item → the judge's verdict.
        people: item → the label of their majority.
        chances: item → its chance to be labelled; none: 1.
        epoch: of the run.
    """
    questions, golds = store.questions(run)
    method = method.behind(method.name, lambda: store.scores(run, method.name))
    attempts = {one.question_id: one for one in store.attempts(run) if one.epoch == epoch}
    made: dict[str, list[JudgedRow]] = {scorer.name: [] for scorer in method.scorers}
    certain: dict[str, list[JudgedRow]] = {scorer.name: [] for scorer in method.scorers}
    for question in questions:
        attempt, gold = attempts.get(question.id), golds[question.id]
        if attempt is None or not method.fits(question, gold):
            continue
        items, sure = list(method.items(gold)), _values(method.unasked(attempt, question, gold))
        judge = sure or _by_labels(method, attempt, gold, [said.get(item) for item in items])
        human = {} if sure else _by_labels(method, attempt, gold, [people.get(item) for item in items])
        for name, value in judge.items():
            row = JudgedRow(question=question.id, cluster=cluster_of(question), judge=value)
            row = replace(row, person=human.get(name), chance=chances.get(items[0], 1.0))
            (certain if sure else made)[name].append(row)
    return {name: [*rows, *_as_drawn(certain[name], rows)] for name, rows in made.items()}


def _values(scores: Sequence[Score]) -> dict[str, float]:
    """Scorer → its score, where it has one."""
    return {score.scorer: score.value for score in scores if score.value is not None}


def _by_labels(method: LabelMethod, attempt: Attempt, gold: Gold, labels: Sequence[str | None]) -> dict[str, float]:
    """Scorer → the score that the labels of an answer's items make; missing where one is that it needs."""
    return _values(method.scores(attempt, gold, [(label or "", "") for label in labels]))


def _as_drawn(certain: Sequence[JudgedRow], others: Sequence[JudgedRow]) -> Iterator[JudgedRow]:
    """Answers without a text, whose scores nobody needs to give: as many of them count as labelled as of the others, so
    that the labelled ones stay a sample of all."""
    labelled = sum(row.person is not None for row in others)
    among = round(len(certain) * labelled / len(others)) if others else 0
    usual = Counter(row.chance for row in others if row.person is not None).most_common(1)
    for place, row in enumerate(sorted(certain, key=lambda row: lot(0, row.question))):
        yield replace(row, person=row.judge if place < among else None, chance=usual[0][0] if usual else 1.0)


def label_chances(labels: HumanLabels) -> dict[tuple[str, str], float]:
    """Run and item → the chance that its sheet says, times the share of the sheet's items with this chance that were
    labelled."""
    drawn, given = Counter[tuple[str, float]](), Counter[tuple[str, float]]()
    for name, mark in labels.marks.items():
        if mark.chance is not None:
            drawn[mark.run, mark.chance] += 1
            given[mark.run, mark.chance] += any(labels.items.get(name, ()))
    return {
        (mark.run, mark.item): mark.chance * given[mark.run, mark.chance] / drawn[mark.run, mark.chance]
        for mark in labels.marks.values()
        if mark.chance is not None and given[mark.run, mark.chance]
    }
