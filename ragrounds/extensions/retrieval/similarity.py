"""Sentence similarity: correlation of cosines with graded pairs (CMedTEB's synonyms; Pearson's correlation).

Spearman's correlation, by which MTEB's similarity tasks are ranked, is reported next to Pearson's. Both have percentile
intervals of a bootstrap that samples clusters of pairs with replacement (Efron & Tibshirani 1993): pairs that share a
sentence are not independent. Ranks are computed again in every resample, with midranks for ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragrounds.base.chunks import chunks
from ragrounds.base.errors import UserError
from ragrounds.evals.stats.bootstrap import enough_clusters
from ragrounds.tools.index.cards import named_embedder
from ragrounds.tools.index.embedders import Embedder
from ragrounds.tools.jsonlines import bad_line, read_rows

Floats = NDArray[np.float64]
MEASURES = ("Pearson", "Spearman")
RESAMPLES = 10_000
_AT_ONCE = 4_000_000
_UNDEFINED = 0.05
"""Share of resamples without spread from which no interval is reported."""


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """One correlation with its 95 % interval.

    Bounds are ``None`` if there are too few pairs for a bootstrap, or if too few resamples have a correlation.
    """

    value: float
    low: float | None
    high: float | None


class CorrelationDifference(msgspec.Struct, frozen=True, kw_only=True):
    """`first` minus `second`, on the same resamples."""

    first: str
    second: str
    measure: str
    difference: float
    low: float | None
    high: float | None


def correlations(
    given_rows: Mapping[str, Sequence[float]],
    target: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[dict[str, dict[str, Correlation]], list[CorrelationDifference]]:
    """Correlate several rows of numbers with the wanted numbers.

    Args:
        given_rows: name of a row → one number per pair.
        target: one number per pair, not all equal.
        clusters: cluster of each pair; pairs of one cluster are resampled together.
        resamples: number of resamples of the bootstrap.
        seed: equal seeds give equal intervals.

    Returns:
        Name → measure → correlation, and the paired differences. A row without spread has no correlation: it is left
        out of its measures.
    """
    y = np.asarray(target, dtype=np.float64)
    rows = {name: np.asarray(numbers, dtype=np.float64) for name, numbers in given_rows.items()}
    full_sample = np.ones((1, len(y)))
    points = {
        (name, measure): float(_of(measure, x, y, full_sample)[0]) for name, x in rows.items() for measure in MEASURES
    }
    resampled_parts: dict[tuple[str, str], list[Floats]] = {key: [] for key in points}
    for counts in _counts(clusters, resamples, seed):
        for name, measure in points:
            resampled_parts[name, measure].append(_of(measure, rows[name], y, counts))
    draws = {key: np.concatenate(parts) for key, parts in resampled_parts.items()}
    enough = enough_clusters([""] * len(y), clusters)
    estimates: dict[str, dict[str, Correlation]] = {name: {} for name in rows}
    for (name, measure), value in points.items():
        if np.isfinite(value):
            low, high = _interval(draws[name, measure]) if enough else (None, None)
            estimates[name][measure] = Correlation(value=value, low=low, high=high)
    differences = []
    for first, second in combinations(rows, 2):
        for measure in MEASURES:
            difference = points[first, measure] - points[second, measure]
            if np.isfinite(difference):
                low, high = _interval(draws[first, measure] - draws[second, measure]) if enough else (None, None)
                differences.append(
                    CorrelationDifference(
                        first=first, second=second, measure=measure, difference=difference, low=low, high=high
                    )
                )
    return estimates, differences


def _counts(clusters: Sequence[str], resamples: int, seed: int) -> Iterator[Floats]:
    """Yield how often each pair is in each resample, (resamples, pairs), some resamples at a time."""
    cluster_numbers: dict[str, int] = {}
    index = np.array([cluster_numbers.setdefault(name, len(cluster_numbers)) for name in clusters])
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(index))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        multiplicities = generator.multinomial(
            len(cluster_numbers), np.full(len(cluster_numbers), 1 / len(cluster_numbers)), size=size
        )
        yield multiplicities[:, index].astype(np.float64)


def _of(measure: str, x: Floats, y: Floats, counts: Floats) -> Floats:
    if measure == "Pearson":
        return _pearson(x[None, :], y[None, :], counts)
    return _pearson(_midranks(x, counts), _midranks(y, counts), counts)


def _pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Compute Pearson's correlation with weights, one row per resample; NaN if one side has no spread."""
    total = counts.sum(axis=1, keepdims=True)
    x = x - (counts * x).sum(axis=1, keepdims=True) / total
    y = y - (counts * y).sum(axis=1, keepdims=True) / total
    spread = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = np.where(spread > 1e-24, (counts * x * y).sum(axis=1) / np.sqrt(spread), np.nan)
    return correlation


def _midranks(values: Floats, counts: Floats) -> Floats:
    """Return the rank of each value in each resample. Equal values share their mean rank."""
    _, inverse = np.unique(values, return_inverse=True)
    order: NDArray[Any] = np.argsort(inverse, kind="stable")
    starts = np.flatnonzero(np.diff(inverse[order], prepend=-1))
    groups = np.add.reduceat(counts[:, order], starts, axis=1)
    ranks: Floats = (np.cumsum(groups, axis=1) - groups + (groups + 1) / 2)[:, inverse]
    return ranks


def _interval(draws: Floats, level: float = 0.95) -> tuple[float | None, float | None]:
    defined = draws[np.isfinite(draws)]
    if len(defined) < (1 - _UNDEFINED) * len(draws):
        return None, None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


_BATCH = 256
_FORM = "{sentence1, sentence2, score}, or {query, pos, neg}"


class GradedPair(msgspec.Struct, frozen=True):
    """Two sentences and their graded similarity."""

    sentence1: str
    sentence2: str
    score: float


class _Row(msgspec.Struct):
    sentence1: str | None = None
    sentence2: str | None = None
    score: float | None = None
    query: str | None = None
    pos: list[str] = []
    neg: list[str] = []


def read_pairs(path: Path) -> list[GradedPair]:
    """Read graded pairs from JSON Lines.

    Lines are ``{"sentence1", "sentence2", "score"}``, as in MTEB, or ``{"query", "pos", "neg"}``, as in CARE's samples:
    the query with each text of `pos` has the score 1, with each of `neg` 0.

    Raises:
        UserError: no such file, a line that is not of the form, or fewer than three pairs.
    """
    pairs: list[GradedPair] = []
    for number, row in read_rows(path, _Row, _FORM):
        if row.query is not None and (row.pos or row.neg):
            pairs += [GradedPair(row.query, text, 1.0) for text in row.pos] + [
                GradedPair(row.query, text, 0.0) for text in row.neg
            ]
        elif row.sentence1 is not None and row.sentence2 is not None and row.score is not None:
            pairs.append(GradedPair(row.sentence1, row.sentence2, row.score))
        else:
            raise bad_line(path, number, "a field is missing", _FORM)
    if len(pairs) < 3 or len({pair.score for pair in pairs}) < 2:
        raise UserError(f"{str(path)!r} has no correlation: expected three pairs or more, not all of one score.")
    return pairs


def cosines(pairs: list[GradedPair], embedder: Embedder) -> list[float]:
    """Return the cosine of each pair.

    It is 1 minus half the squared distance of the unit vectors, as in MTEB and scikit-learn. Equal vectors thus have a
    cosine of exactly 1, so that ties stay ties for Spearman's correlation. Both sides are embedded as queries: neither
    is a document.
    """
    similarities: list[float] = []
    for batch in chunks(pairs, _BATCH):
        first = _unit(np.asarray(embedder.queries([pair.sentence1 for pair in batch])))
        second = _unit(np.asarray(embedder.queries([pair.sentence2 for pair in batch])))
        gap = first - second
        similarities += (1 - np.einsum("ij,ij->i", gap, gap) / 2).tolist()
    return similarities


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Scale vectors to length 1; those of length 0 stay as they are."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors / np.where(lengths > 0, lengths, 1)


def score_similarity(
    path: Path, specs: list[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[dict[str, Any]], list[CorrelationDifference]]:
    """Score embedding models on a file of pairs, and compare them two by two. Pairs with the same first sentence are
    resampled together.

    Raises:
        UserError: the file cannot be read, a retriever has no vectors or is named twice, or all its cosines are equal.
    """
    pairs = read_pairs(path)
    cosines_by_spec: dict[str, list[float]] = {}
    for text in specs:
        embedder_entry = named_embedder(text)
        if embedder_entry.spec in cosines_by_spec:
            raise UserError(f"{embedder_entry.spec!r} is given twice.")
        cosines_by_spec[embedder_entry.spec] = cosines(pairs, embedder_entry.embedder)
    estimates, differences = correlations(
        cosines_by_spec,
        [pair.score for pair in pairs],
        [pair.sentence1 for pair in pairs],
        resamples=resamples,
        seed=seed,
    )
    for spec, measures in estimates.items():
        if not measures:
            raise UserError(f"{spec!r} has no correlation: its vectors give every pair the same cosine.")
    entries: list[dict[str, Any]] = [
        {
            "retriever": spec,
            **{measure: estimate.value for measure, estimate in measures.items()},
            **{f"{measure}_interval": [estimate.low, estimate.high] for measure, estimate in measures.items()},
            "pairs": len(pairs),
        }
        for spec, measures in estimates.items()
    ]
    return entries, differences
