"""Calibration of agents' confidence: its fit with right answers, and the accuracy if only the surest answers are given.

A bound of the risk holds with 95 % confidence. Each of 20 thresholds that were fixed beforehand is tested exactly, and
Holm's correction combines the tests (Learn then Test, Angelopoulos et al. 2021). MAPIE's risk control gives the same
result.
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
from ragrounds.base.records import Attempt, AttemptKey, Left, Question, Run, Score, TokenLogprob
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Mark, Picture, figure_mark
from ragrounds.evals.analyses.run_data import (
    ScoredRun,
    check_accuracy,
    scored_runs,
    share_figure,
)
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers.answer_status import answer_text
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
"""Sources of a confidence, in the order in which they are tried: after a chain of thought the token of an option is
nearly certain, and the confidence that a model states is nearly always high (Xiong et al. 2024)."""
BINS = 10
"""Number of bins of equal width, for the reliability curve and ECE."""
COVERAGE = 0.8
"""Least share of all attempts that is answered when the accuracy of the surest is shown."""
RISKS = (0.05, 0.1, 0.2)
"""Shares of wrong answers among those given for which a threshold is searched."""
ERROR = 0.05
"""Probability that such a bound is wrong."""
THRESHOLDS = np.arange(20) / 20
_EDGES = np.linspace(0, 1, BINS + 1)[1:-1]
"""Edges between the bins, as in scikit-learn: an edge belongs to the bin below it."""
_STATED = re.compile(
    r"(?:\bconfidence(?:[_ ](?:level|score|percentage))?[\"'*]*|置信度|信心)\s*[:：=][\s\"'*]*"
    r"(\d+(?:[.,]\d+)?)\s*(%|％|(?:/|out of)\s*\d+)?",
    re.IGNORECASE,
)
"""Pattern of a stated confidence. It needs a colon, because statistical prose has confidence levels and intervals
too."""
_RESAMPLES, _AT_ONCE = 1_000, 100
_ROUNDING = 1e-9


class SureAnswers(Struct, frozen=True, kw_only=True):
    """Answers of one bin, or answers at a confidence or above it."""

    confidence: float
    """Mean confidence of the bin, or lowest confidence of the answers."""
    coverage: float
    """Share of these answers in all attempts."""
    right: Figure | None


class Calibration(Struct, frozen=True, kw_only=True):
    """Calibration of one run's confidence. All attempts count alike, whatever their dataset."""

    run: str
    source: str
    """Source of the confidence (`SOURCES`); empty if there is no confidence, and each answer counts as equally sure."""
    answered: Figure | None
    """Share of attempts with an answer, without those left out."""
    left_out: int
    """Number of answers without a confidence, or without a score."""
    sure: Figure | None
    """Mean confidence."""
    right: Figure | None
    """Share of right answers."""
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
    """Share of right answers among the surest that are at least `COVERAGE` of all attempts; ``None`` if fewer are
    answered."""
    bounds: tuple[SureAnswers | None, ...]
    """Answers for each of `RISKS` from the lowest confidence on at which at most this share is shown to be wrong, by
    one attempt of each question; ``None`` if there is no such confidence."""


def confidences(store: Store, run: ScoredRun, kind: str = "") -> tuple[str, dict[AttemptKey, float]]:
    """Return how sure each answered attempt is, from 0 to 1. Attempts without a confidence are left out.

    Args:
        store: store of the run.
        run: run under the scorer that reads its answers.
        kind: source of `SOURCES`; if empty, the first that most answers have.

    Returns:
        The source and the confidences. The source is empty if most answers have no confidence.

    Raises:
        UserError: the source is unknown.
    """
    if kind and kind not in SOURCES:
        hint = nearest(kind, list(SOURCES))
        raise UserError(f"--parameter {kind!r} is no confidence.{hint} Known: {', '.join(SOURCES)}.")
    scores = {score.key: score for score in run.scores if score.answer_status == "answered"}
    attempts = {attempt.key: attempt for attempt in store.attempts(run.run)}
    answered = {key: (attempts[key], score) for key, score in scores.items() if key in attempts}
    for source in [kind] if kind else SOURCES:
        if source == "agreement":
            candidates = _agreement(run, answered)
        elif source == "probability":
            candidates = _probability(store, answered)
        else:
            candidates = {key: stated(answer_text(attempt)) for key, (attempt, _) in answered.items()}
        known = {key: sure for key, sure in candidates.items() if sure is not None}
        if kind or 2 * len(known) > len(scores):
            return source, known
    return "", {}


def _agreement(run: ScoredRun, answered: Answered) -> dict[AttemptKey, float | None]:
    """Return the share of samples with the commonest answer.

    For an agent without samples it is the share of epochs with this attempt's option, including itself. Unreadable
    answers agree with nothing.
    """
    shares: dict[AttemptKey, float | None] = {}
    options_by_question: dict[str, list[str]] = {
        question.id: [] for question in run.questions if question.kind == "choice"
    }
    for (question, _), (_, score) in answered.items():
        options_by_question.get(question, []).append(score.prediction)
    for key, (attempt, score) in answered.items():
        changes = [event.changes.get("drawn") for event in attempt.events if isinstance(event, Left)]
        samples = [sample for change in changes if isinstance(change, list) for sample in change]
        read_options = [sample.get("read") for sample in samples if isinstance(sample, dict)]
        if len(read_options) > 1:
            shares[key] = max(read_options.count(read) if read else 0 for read in read_options) / len(read_options)
        elif run.run.epochs > 1 and key[0] in options_by_question and score.prediction:
            shares[key] = options_by_question[key[0]].count(score.prediction) / run.run.epochs
    return shares


def _probability(store: Store, answered: Answered) -> dict[AttemptKey, float | None]:
    last_calls = {
        key: call for key, (attempt, _) in answered.items() for call in calls(attempt.events) if call.kind == "model"
    }
    replies = [traced_call.reply for traced_call in traced_calls(store, list(last_calls.values()), brief=True)]
    return {
        key: answer_probability(reply.logprobs, answered[key][1].prediction)
        for key, reply in zip(last_calls, replies, strict=True)
        if reply and reply.logprobs
    }


def answer_probability(tokens: Sequence[TokenLogprob], option: str) -> float | None:
    """Return the probability of the last token that is the option's letter; ``None`` if no token is the letter.

    For an answer that is not a letter it is the geometric mean of all tokens' probabilities.
    """
    if len(option) != 1:
        return min(1.0, math.exp(math.fsum(token.logprob for token in tokens) / len(tokens)))
    logprobs = [token.logprob for token in tokens if re.sub(r"[\W_]+", "", token.token) == option]
    return min(1.0, math.exp(logprobs[-1])) if logprobs else None


def stated(text: str) -> float | None:
    """Return the last stated confidence, from 0 to 1: ``Confidence: 85 %``, ``"confidence": 0.85``, ``8/10``.

    A number without a unit is a share up to 1 and a percentage above; ``None`` if no confidence is stated, or one above
    the total.
    """
    statements = _STATED.findall(text)
    if not statements:
        return None
    value, denominator = float(statements[-1][0].replace(",", ".")), re.sub(r"\D", "", statements[-1][1])
    total = float(denominator) if denominator else 100.0 if statements[-1][1] or value > 1 else 1.0
    return value / total if total and value <= total else None


def risk_bounds(sure: Floats, wrong: Floats, risks: Sequence[float] = RISKS) -> list[float | None]:
    """Return for each risk the lowest threshold at which at most this share of the given answers is shown to be wrong.

    The chance of error is at most `ERROR`; ``None`` if it is shown for no threshold.

    Args:
        sure: confidence of independent attempts; -1 if not answered.
        wrong: 1 if the answer is wrong, otherwise 0.
        risks: allowed shares of wrong answers.
    """
    from scipy.stats import binom

    is_given = sure[:, None] >= THRESHOLDS - _ROUNDING
    counts, wrong_counts = is_given.sum(axis=0), (is_given * wrong[:, None]).sum(axis=0)
    is_shown = [np.array(holm(binom.cdf(wrong_counts, counts, risk).tolist())) <= ERROR for risk in risks]
    return [float(THRESHOLDS[significant].min()) if significant.any() else None for significant in is_shown]


def errors(sure: Floats, right: Floats, names: Sequence[str], seed: int = 0) -> tuple[Figure, Figure]:
    """Return ECE, and AURC with the interval of the basic bootstrap.

    Questions are resampled with their duplicates and epochs. ECE has no interval: noise alone makes it larger, and the
    bootstrap's interval covers only 68 to 85 % (`perf/calibration.md`).

    Args:
        sure: confidences, the highest first.
        right: 1 or 0 for each answer.
        names: cluster of each answer; a cluster is resampled together.
        seed: seed of the bootstrap.
    """
    from scipy.special import psi

    bin_sums = np.bincount(np.searchsorted(_EDGES, sure), sure - right)
    level_ends = np.append(np.flatnonzero(np.diff(sure)), len(sure) - 1)

    def areas(weights: Floats) -> Floats:
        """Return the AURC for answers with these multiplicities: (resamples, answers) → resamples."""
        # For equally sure answers this is the mean over all orders: errors grow evenly among them.
        counts, wrong = (np.cumsum(weighted, axis=1)[:, level_ends] for weighted in (weights, weights * (1 - right)))
        counts_before, wrong_before = (np.pad(cumulated, ((0, 0), (1, 0)))[:, :-1] for cumulated in (counts, wrong))
        rate = (wrong - wrong_before) / np.maximum(counts - counts_before, 1)
        area = wrong - wrong_before + (wrong_before - counts_before * rate) * (psi(counts + 1) - psi(counts_before + 1))
        mean_areas: Floats = area.sum(axis=1) / counts[:, -1]
        return mean_areas

    _, cluster = np.unique(np.array(names), return_inverse=True)
    sizes = np.bincount(cluster).astype(np.float64)
    n, value = len(sure), float(areas(np.ones((1, len(sure))))[0])
    ece = Figure(value=float(np.abs(bin_sums).sum()) / n, n=n, missing=0)
    aurc = Figure(value=value, n=n, missing=0)
    if not bootstrap_holds([np.column_stack([np.bincount(cluster, right), sizes])]):
        return ece, aurc
    generator, probabilities, draws = np.random.default_rng(seed), np.full(len(sizes), 1 / len(sizes)), []
    for _ in range(_RESAMPLES // _AT_ONCE):
        draws.append(
            areas(generator.multinomial(len(sizes), probabilities, size=_AT_ONCE)[:, cluster].astype(np.float64))
        )
    low, high = percentile_interval(np.concatenate(draws), 1 - ERROR, effective_clusters(sizes), 1)
    return ece, replace(aurc, low=max(0.0, 2 * value - high), high=max(value, 2 * value - low))


def calibrated(run: ScoredRun, source: str, sure: Mapping[AttemptKey, float], seed: int = 0) -> Calibration:
    """Return how well confidences fit right answers.

    Args:
        run: run under a scorer of right and wrong.
        source: source of the confidences; if empty, every answer counts as sure.
        sure: question id and epoch → confidence.
        seed: seed of the bootstraps.
    """
    score_by_key = {score.key: score for score in run.scores if score.answer_status == "answered"}
    rows: list[tuple[Question, float, float]] = []
    for question, epoch in itertools.product(run.questions, range(run.run.epochs)):
        score, confidence = score_by_key.get((question.id, epoch)), sure.get((question.id, epoch)) if source else 1.0
        if score is None:
            rows.append((question, -1.0, 0.0))
        elif score.value is not None and confidence is not None:
            rows.append((question, confidence, score.value))
    answered_rows = sorted((row for row in rows if row[1] >= 0), key=lambda row: -row[1])
    questions, clusters = [row[0] for row in answered_rows], [cluster_of(row[0]) for row in answered_rows]
    numbers, right = np.array([row[1:] for row in answered_rows], dtype=np.float64).reshape(-1, 2).T

    def point(inside: NDArray[np.bool_], confidence: float) -> SureAnswers:
        right_share = share_figure([(questions[index], float(right[index])) for index in np.flatnonzero(inside)], seed)
        return SureAnswers(confidence=confidence, coverage=float(inside.sum()) / len(rows), right=right_share)

    def above(threshold: float) -> SureAnswers:
        return point(numbers >= threshold - _ROUNDING, threshold)

    in_bins = [np.searchsorted(_EDGES, numbers) == bin_index for bin_index in range(BINS)]
    levels = sorted(set(numbers.tolist()), reverse=True)
    coverage_threshold = numbers[max(0, math.ceil(COVERAGE * len(rows)) - 1) :][:1].tolist()
    first_attempts = {cluster_of(question): (confidence, 1 - value) for question, confidence, value in reversed(rows)}
    thresholds = risk_bounds(*np.array(list(first_attempts.values())).reshape(-1, 2).T)
    ece, aurc = errors(numbers, right, clusters, seed) if answered_rows else (None, None)
    has_confidence = bool(source and answered_rows)
    return Calibration(
        run=run.run.id,
        source=source,
        answered=share_figure([(question, float(confidence >= 0)) for question, confidence, _ in rows], seed),
        left_out=len(run.questions) * run.run.epochs - len(rows),
        sure=share_figure(zip(questions, numbers.tolist(), strict=True), seed) if has_confidence else None,
        right=share_figure(zip(questions, right.tolist(), strict=True), seed),
        brier=share_figure(zip(questions, ((numbers - right) ** 2).tolist(), strict=True), seed)
        if has_confidence
        else None,
        ece=ece if has_confidence else None,
        aurc=aurc,
        bins=tuple(
            point(in_bin, float(numbers[in_bin].mean())) for in_bin in in_bins if has_confidence and in_bin.any()
        ),
        curve=tuple(map(above, levels[:: math.ceil(len(levels) / BINS) or 1])),
        surest=above(coverage_threshold[0]).right if coverage_threshold else None,
        bounds=tuple(None if threshold is None else above(threshold) for threshold in thresholds),
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Calibration, ...]:
    check_accuracy("calibration", options.scorer)
    source = "" if options.parameter == AnalysisOptions().parameter else options.parameter
    scored = scored_runs(store, runs, options.scorer)
    return tuple(calibrated(run, *confidences(store, run, source), options.seed) for run in scored)


def _with_confidence(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[Calibration, ...]:
    calibrations = _measure(store, runs, options)
    if not any(calibration.bins for calibration in calibrations):
        raise UserError(f"These runs lack {CALIBRATION.needs}. `ragrounds analyse abstention` goes without.")
    return calibrations


def _note(calibrations: tuple[Calibration, ...], remark: str) -> str:
    used = {calibration.source for calibration in calibrations}
    sentences = [f"{name.capitalize()}: {meaning}." for name, meaning in SOURCES.items() if name in used] + [remark]
    if left_out := sum(calibration.left_out for calibration in calibrations):
        sentences.append(f"Left out: {left_out:,} answers without a confidence or a score.")
    return " ".join(sentences)


def _table(calibrations: tuple[Calibration, ...], options: AnalysisOptions) -> AnalysisTable:
    return AnalysisTable(
        title=f"How well confidence fits right answers ({options.scorer})",
        columns=("run", "confidence", "mean", "right", "Brier × 100", "ECE × 100"),
        rows=tuple(
            (
                calibration.run,
                calibration.source or None,
                calibration.sure,
                calibration.right,
                calibration.brier,
                calibration.ece,
            )
            for calibration in calibrations
        ),
        note=_note(calibrations, f"Brier and ECE ({BINS} bins): 0 is best."),
    )


def _picture(calibrations: tuple[Calibration, ...], options: AnalysisOptions) -> Picture:
    marks = [
        figure_mark(calibration.run, point.right, calibration.run, point.confidence)
        for calibration in calibrations
        for point in calibration.bins
    ]
    marks += [Mark(name="", value=end, x=end, group="as sure as right") for end in (0.0, 1.0)]
    title = f"Right answers by confidence ({options.scorer})"
    return Picture(title=title, x="confidence", marks=tuple(marks), words="percent right")


def _abstention_table(calibrations: tuple[Calibration, ...], options: AnalysisOptions) -> AnalysisTable:
    def bound(answers: SureAnswers | None) -> str | None:
        return f"from {answers.confidence:.2f}: {100 * answers.coverage:.0f}%" if answers else None

    bounds, surest = [f"≤ {100 * risk:.0f}% wrong" for risk in RISKS], f"at {COVERAGE:.0%}"
    return AnalysisTable(
        title=f"Right answers where only the surest are given ({options.scorer})",
        columns=("run", "confidence", "answered", "right", surest, "AURC × 100", *bounds),
        rows=tuple(
            (
                calibration.run,
                calibration.source or None,
                calibration.answered,
                calibration.right,
                calibration.surest,
                calibration.aurc,
                *map(bound, calibration.bounds),
            )
            for calibration in calibrations
        ),
        note=_note(
            calibrations,
            f"Right: of the answers; {surest}: of the surest, where so many attempts are answered. {bounds[0]}: shown "
            "from this confidence on, with the share answered then; each such column holds for new questions like "
            "these with 95 % confidence (exact tests, Holm). AURC: mean share of wrong answers among the surest.",
        ),
    )


def _abstention_picture(calibrations: tuple[Calibration, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(calibration.run, point.right, calibration.run, point.coverage)
        for calibration in calibrations
        for point in calibration.curve
    )
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
    table=_abstention_table,
    picture=_abstention_picture,
)
