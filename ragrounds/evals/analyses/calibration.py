"""Whether agents know what they do not know: how well their confidence fits their right answers, and how many of the
answers are right where only the surest are given.

A bound of the risk holds with 95 % confidence: each of 20 thresholds that were fixed beforehand is tested exactly, and
Holm's correction makes the tests one (Learn then Test, Angelopoulos et al. 2021). MAPIE's risk control finds the same.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Attempt, Left, Question, Run, Score, TokenLogprob
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture, figure_mark
from ragrounds.evals.analyses.run_data import (
    AttemptKey,
    ScoredRun,
    check_accuracy,
    scored_runs,
    share_figure,
)
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats import holm
from ragrounds.evals.stats.bootstrap import bootstrap_holds, effective_clusters, percentile_interval
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls, traced_calls

Floats = NDArray[np.float64]
Answered = Mapping[AttemptKey, tuple[Attempt, Score]]
SOURCES = {
    "agreement": "share of epochs, or of an agent's samples, with the same answer",
    "probability": "probability of the answer's tokens in the last reply",
    "stated": "the confidence that the answer states, such as Confidence: 85 %",
}
"""What a confidence is, in the order in which it is looked for: after a chain of thought the token of an option is
nearly certain, and what a model states is nearly always high (Xiong et al. 2024)."""
BINS = 10
"""Of equal width, for the reliability curve and ECE."""
COVERAGE = 0.8
"""Share of all attempts that is answered at least, where the accuracy of the surest is shown."""
RISKS = (0.05, 0.1, 0.2)
"""Shares of wrong answers among those given that a threshold is sought for."""
ERROR = 0.05
"""Chance that such a bound is wrong."""
THRESHOLDS = np.arange(20) / 20
_EDGES = np.linspace(0, 1, BINS + 1)[1:-1]
"""Between the bins, as scikit-learn has them: an edge is of the bin below it."""
_STATED = re.compile(
    r"(?:\bconfidence(?:[_ ](?:level|score|percentage))?[\"'*]*|置信度|信心)\s*[:：=][\s\"'*]*"
    r"(\d+(?:[.,]\d+)?)\s*(%|％|(?:/|out of)\s*\d+)?",
    re.IGNORECASE,
)
"""With a colon: prose of statistics has confidence levels and intervals, too."""
_RESAMPLES, _AT_ONCE = 1_000, 100
_ROUNDING = 1e-9


class SureAnswers(Struct, frozen=True, kw_only=True):
    """Answers of one bin, or those at a confidence or above it."""

    confidence: float
    """The mean of the bin; or the lowest."""
    coverage: float
    """Share of all attempts."""
    right: Figure | None


class Calibration(Struct, frozen=True, kw_only=True):
    """The confidence of one run's answers against their being right. All attempts count alike, whatever dataset."""

    run: str
    source: str
    """What the confidence is (`SOURCES`); empty: there is none, and each answer counts as equally sure."""
    answered: Figure | None
    """Share of attempts, without those left out."""
    left_out: int
    """Answers without a confidence, or without a score."""
    sure: Figure | None
    """The mean confidence."""
    right: Figure | None
    """Among the answers."""
    brier: Figure | None
    """Mean squared difference of confidence and right (1) or wrong (0)."""
    ece: Figure | None
    """Expected calibration error: mean difference of confidence and accuracy over bins."""
    aurc: Figure | None
    """Area under the risk–coverage curve of the answers: the mean share of wrong ones among the surest k, over all k;
    equally sure ones in any order."""
    bins: tuple[SureAnswers, ...]
    curve: tuple[SureAnswers, ...]
    """Answers at a confidence or above it, the surest first."""
    surest: Figure | None
    """Among the surest that are at least `COVERAGE` of all attempts; ``None``: fewer are answered."""
    bounds: tuple[SureAnswers | None, ...]
    """For each of `RISKS` the answers from the lowest confidence on at which at most this share is shown to be wrong,
    by one attempt of each question; ``None``: at none."""


def confidences(store: Store, run: ScoredRun, wanted: str = "") -> tuple[str, dict[AttemptKey, float]]:
    """How sure each answered attempt is, from 0 to 1; one without a confidence is left out.

    Args:
        store: where the run is.
        run: under the scorer that reads its answers.
        wanted: one of `SOURCES`; empty: the first that most answers have.

    Returns:
        The source and the confidences; an empty source: most answers have none.

    Raises:
        UserError: an unknown source.
    """
    if wanted and wanted not in SOURCES:
        hint = nearest(wanted, list(SOURCES))
        raise UserError(f"--parameter {wanted!r} is no confidence.{hint} Known: {', '.join(SOURCES)}.")
    scores = {(one.question_id, one.epoch): one for one in run.scores if one.answer_status == "answered"}
    attempts = {(one.question_id, one.epoch): one for one in store.attempts(run.run)}
    answered = {key: (attempts[key], score) for key, score in scores.items() if key in attempts}
    for source in [wanted] if wanted else SOURCES:
        if source == "agreement":
            read = _agreement(run, answered)
        elif source == "probability":
            read = _probability(store, answered)
        else:
            read = {key: stated(attempt.text) for key, (attempt, _) in answered.items()}
        found = {key: sure for key, sure in read.items() if sure is not None}
        if wanted or 2 * len(found) > len(scores):
            return source, found
    return "", {}


def _agreement(run: ScoredRun, answered: Answered) -> dict[AttemptKey, float | None]:
    """The share of samples with the commonest answer; of an agent without samples the share of epochs with this
    attempt's option, itself among them. What cannot be read agrees with nothing."""
    found: dict[AttemptKey, float | None] = {}
    given: dict[str, list[str]] = {question.id: [] for question in run.questions if question.kind == "choice"}
    for (question, _), (_, score) in answered.items():
        given.get(question, []).append(score.prediction)
    for key, (attempt, score) in answered.items():
        changes = [event.changes.get("drawn") for event in attempt.events if isinstance(event, Left)]
        drawn = [sample for change in changes if isinstance(change, list) for sample in change]
        reads = [sample.get("read") for sample in drawn if isinstance(sample, dict)]
        if len(reads) > 1:
            found[key] = max(reads.count(read) if read else 0 for read in reads) / len(reads)
        elif run.run.epochs > 1 and key[0] in given and score.prediction:
            found[key] = given[key[0]].count(score.prediction) / run.run.epochs
    return found


def _probability(store: Store, answered: Answered) -> dict[AttemptKey, float | None]:
    last = {key: call for key, (one, _) in answered.items() for call in calls(one.events) if call.kind == "model"}
    replies = [one.reply for one in traced_calls(store, list(last.values()), brief=True)]
    read = [(key, reply.logprobs) for key, reply in zip(last, replies, strict=True) if reply and reply.logprobs]
    return {key: answer_probability(tokens, answered[key][1].prediction) for key, tokens in read}


def answer_probability(tokens: Sequence[TokenLogprob], option: str) -> float | None:
    """The probability of the last token that is the option's letter. Of an answer that is no letter the geometric mean
    of all tokens' probabilities; ``None``: no token is the letter."""
    if len(option) != 1:
        return min(1.0, math.exp(math.fsum(one.logprob for one in tokens) / len(tokens)))
    named = [one.logprob for one in tokens if re.sub(r"[\W_]+", "", one.token) == option]
    return min(1.0, math.exp(named[-1])) if named else None


def stated(text: str) -> float | None:
    """The confidence that an answer states last, from 0 to 1: ``Confidence: 85 %``, ``"confidence": 0.85``, ``8/10``.
    A number without a unit is a share up to 1 and percent above; ``None``: there is none, or one above the whole."""
    said = _STATED.findall(text)
    if not said:
        return None
    value, of = float(said[-1][0].replace(",", ".")), re.sub(r"\D", "", said[-1][1])
    whole = float(of) if of else 100.0 if said[-1][1] or value > 1 else 1.0
    return value / whole if whole and value <= whole else None


def risk_bounds(sure: Floats, wrong: Floats, risks: Sequence[float] = RISKS) -> list[float | None]:
    """For each risk the lowest threshold at which it is shown that at most this share of the answers given is wrong,
    with a chance of `ERROR` or less that it is not so; ``None``: it is shown of none.

    Args:
        sure: the confidence of independent attempts; -1: not answered.
        wrong: 1 where the answer is wrong, else 0.
        risks: shares.
    """
    from scipy.stats import binom

    given = sure[:, None] >= THRESHOLDS - _ROUNDING
    counts, bad = given.sum(axis=0), (given * wrong[:, None]).sum(axis=0)
    shown = [np.array(holm(binom.cdf(bad, counts, risk).tolist())) <= ERROR for risk in risks]
    return [float(THRESHOLDS[one].min()) if one.any() else None for one in shown]


def errors(sure: Floats, right: Floats, names: Sequence[str], seed: int = 0) -> tuple[Figure, Figure]:
    """ECE, and AURC with the interval of the basic bootstrap: questions are drawn, with duplicates and epochs. ECE has
    none: noise alone makes it larger, and the bootstrap's interval holds in 68 to 85 % (`perf/calibration.md`).

    Args:
        sure: confidences, the highest first.
        right: 1 or 0.
        names: what each answer is drawn together with.
        seed: of the bootstrap.
    """
    from scipy.special import psi

    off = np.bincount(np.searchsorted(_EDGES, sure), sure - right)
    level = np.append(np.flatnonzero(np.diff(sure)), len(sure) - 1)

    def areas(weights: Floats) -> Floats:
        """AURC of answers that count so often each: (resamples, answers) → resamples."""
        # Equally sure answers stand in any order: the mean over all orders, whose errors grow evenly among them.
        counts, wrong = (np.cumsum(one, axis=1)[:, level] for one in (weights, weights * (1 - right)))
        before, earlier = (np.pad(one, ((0, 0), (1, 0)))[:, :-1] for one in (counts, wrong))
        rate = (wrong - earlier) / np.maximum(counts - before, 1)
        area = wrong - earlier + (earlier - before * rate) * (psi(counts + 1) - psi(before + 1))
        found: Floats = area.sum(axis=1) / counts[:, -1]
        return found

    _, cluster = np.unique(np.array(names), return_inverse=True)
    sizes = np.bincount(cluster).astype(np.float64)
    n, value = len(sure), float(areas(np.ones((1, len(sure))))[0])
    ece, aurc = (Figure(value=one, n=n, missing=0) for one in (float(np.abs(off).sum()) / n, value))
    if not bootstrap_holds([np.column_stack([np.bincount(cluster, right), sizes])]):
        return ece, aurc
    generator, even, draws = np.random.default_rng(seed), np.full(len(sizes), 1 / len(sizes)), []
    for _ in range(_RESAMPLES // _AT_ONCE):
        draws.append(areas(generator.multinomial(len(sizes), even, size=_AT_ONCE)[:, cluster].astype(np.float64)))
    low, high = percentile_interval(np.concatenate(draws), 1 - ERROR, effective_clusters(sizes), 1)
    return ece, replace(aurc, low=max(0.0, 2 * value - high), high=max(value, 2 * value - low))


def calibrated(run: ScoredRun, source: str, sure: Mapping[AttemptKey, float], seed: int = 0) -> Calibration:
    """How well confidences fit right answers.

    Args:
        run: under a scorer of right and wrong.
        source: what the confidences are; empty: none, and every answer counts as sure.
        sure: by question and epoch.
        seed: of the bootstraps.
    """
    given = {(one.question_id, one.epoch): one for one in run.scores if one.answer_status == "answered"}
    rows: list[tuple[Question, float, float]] = []
    for question, epoch in itertools.product(run.questions, range(run.run.epochs)):
        score, confidence = given.get((question.id, epoch)), sure.get((question.id, epoch)) if source else 1.0
        if score is None:
            rows.append((question, -1.0, 0.0))
        elif score.value is not None and confidence is not None:
            rows.append((question, confidence, score.value))
    kept = sorted((one for one in rows if one[1] >= 0), key=lambda one: -one[1])
    asked, clusters = [one[0] for one in kept], [cluster_of(one[0]) for one in kept]
    numbers, right = np.array([one[1:] for one in kept], dtype=np.float64).reshape(-1, 2).T

    def point(inside: NDArray[np.bool_], confidence: float) -> SureAnswers:
        chosen = share_figure([(asked[place], float(right[place])) for place in np.flatnonzero(inside)], seed)
        return SureAnswers(confidence=confidence, coverage=float(inside.sum()) / len(rows), right=chosen)

    def above(threshold: float) -> SureAnswers:
        return point(numbers >= threshold - _ROUNDING, threshold)

    inside = [np.searchsorted(_EDGES, numbers) == place for place in range(BINS)]
    levels = sorted(set(numbers.tolist()), reverse=True)
    enough = numbers[max(0, math.ceil(COVERAGE * len(rows)) - 1) :][:1].tolist()
    alone = {cluster_of(question): (confidence, 1 - value) for question, confidence, value in reversed(rows)}
    shown = risk_bounds(*np.array(list(alone.values())).reshape(-1, 2).T)
    ece, aurc = errors(numbers, right, clusters, seed) if kept else (None, None)
    known = bool(source and kept)
    return Calibration(
        run=run.run.id,
        source=source,
        answered=share_figure([(question, float(confidence >= 0)) for question, confidence, _ in rows], seed),
        left_out=len(run.questions) * run.run.epochs - len(rows),
        sure=share_figure(zip(asked, numbers.tolist(), strict=True), seed) if known else None,
        right=share_figure(zip(asked, right.tolist(), strict=True), seed),
        brier=share_figure(zip(asked, ((numbers - right) ** 2).tolist(), strict=True), seed) if known else None,
        ece=ece if known else None,
        aurc=aurc,
        bins=tuple(point(one, float(numbers[one].mean())) for one in inside if known and one.any()),
        curve=tuple(map(above, levels[:: math.ceil(len(levels) / BINS) or 1])),
        surest=above(enough[0]).right if enough else None,
        bounds=tuple(None if one is None else above(one) for one in shown),
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Calibration, ...]:
    check_accuracy("calibration", options.scorer)
    wanted = "" if options.parameter == AnalysisOptions().parameter else options.parameter
    scored = scored_runs(store, runs, options.scorer)
    return tuple(calibrated(run, *confidences(store, run, wanted), options.seed) for run in scored)


def _with_confidence(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Calibration, ...]:
    made = _measure(store, runs, options)
    if not any(one.bins for one in made):
        raise UserError(f"These runs lack {CALIBRATION.needs}. `ragrounds analyse abstention` goes without.")
    return made


def _note(made: tuple[Calibration, ...], said: str) -> str:
    words = [f"{name.capitalize()}: {SOURCES[name]}." for name in SOURCES if any(one.source == name for one in made)]
    left = sum(one.left_out for one in made)
    return " ".join([*words, said, *([f"Left out: {left:,} answers without a confidence or a score."] if left else [])])


def _table(made: tuple[Calibration, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=f"How well confidence fits right answers ({options.scorer})",
        columns=("run", "confidence", "mean", "right", "Brier × 100", "ECE × 100"),
        rows=tuple((one.run, one.source or None, one.sure, one.right, one.brier, one.ece) for one in made),
        note=_note(made, f"Brier and ECE ({BINS} bins): 0 is best."),
    )


def _picture(made: tuple[Calibration, ...], options: AnalysisOptions) -> Picture:
    marks = [figure_mark(one.run, point.right, one.run, point.confidence) for one in made for point in one.bins]
    marks += [Mark(name="", value=end, x=end, group="as sure as right") for end in (0.0, 1.0)]
    title = f"Right answers by confidence ({options.scorer})"
    return Picture(title=title, x="confidence", marks=tuple(marks), words="percent right")


def _answered(made: tuple[Calibration, ...], options: AnalysisOptions) -> AnalysisTable:
    def bound(at: SureAnswers | None) -> str | None:
        return f"from {at.confidence:.2f}: {100 * at.coverage:.0f}%" if at else None

    bounds, surest = [f"≤ {100 * risk:.0f}% wrong" for risk in RISKS], f"at {COVERAGE:.0%}"
    return AnalysisTable(
        title=f"Right answers where only the surest are given ({options.scorer})",
        columns=("run", "confidence", "answered", "right", surest, "AURC × 100", *bounds),
        rows=tuple(
            (one.run, one.source or None, one.answered, one.right, one.surest, one.aurc, *map(bound, one.bounds))
            for one in made
        ),
        note=_note(
            made,
            f"Right: of the answers; {surest}: of the surest, where so many attempts are answered. {bounds[0]}: shown "
            "from this confidence on, with the share answered then; each such column holds for new questions like "
            "these with 95 % confidence (exact tests, Holm). AURC: mean share of wrong answers among the surest.",
        ),
    )


def _answered_picture(made: tuple[Calibration, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(figure_mark(one.run, point.right, one.run, point.coverage) for one in made for point in one.curve)
    title = f"Right answers by the share of attempts answered, the surest first ({options.scorer})"
    return Picture(title=title, x="share of attempts answered", marks=marks, words="percent right")


CALIBRATION = Analysis(
    name="calibration",
    summary="confidence against right answers: Brier, ECE, reliability curve",
    needs="a confidence of most answers: several epochs or samples, token probabilities, or 'Confidence: 85 %' in them",
    measure=_with_confidence,
    table=_table,
    picture=_picture,
)
ABSTENTION = Analysis(
    name="abstention",
    summary="right answers where only the surest are given, and the confidence from which on few are wrong",
    needs="scores of right and wrong",
    measure=_measure,
    table=_answered,
    picture=_answered_picture,
)
