"""Sentence similarity: how well cosines of vectors follow graded pairs (CMedTEB's synonyms; Pearson's correlation).

Spearman's correlation, which MTEB's similarity tasks are ranked by, stands beside Pearson's. Both have percentile
intervals of a bootstrap that draws clusters of pairs with replacement (Efron & Tibshirani 1993): pairs that share a
sentence are not independent. Ranks are made anew in every resample, with midranks for ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

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
"""Share of resamples without spread from which there is no interval."""


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """One correlation with its 95 % interval; no interval where pairs are too few for a bootstrap, or too few
    resamples have a correlation."""

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
    given: Mapping[str, Sequence[float]],
    wanted: Sequence[float],
    clusters: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[dict[str, dict[str, Correlation]], list[CorrelationDifference]]:
    """Correlate each of several rows of numbers with the wanted ones.

    Args:
        given: name → one number a pair.
        wanted: one number a pair, not all the same.
        clusters: pairs with the same name are drawn together.
        resamples: of the bootstrap.
        seed: equal seeds give equal intervals.

    Returns:
        Name → measure → correlation, and the paired differences. A row without spread has no correlation: it is left
        out of its measures.
    """
    y = np.asarray(wanted, dtype=np.float64)
    rows = {name: np.asarray(numbers, dtype=np.float64) for name, numbers in given.items()}
    whole = np.ones((1, len(y)))
    points = {(name, measure): float(_of(measure, x, y, whole)[0]) for name, x in rows.items() for measure in MEASURES}
    drawn: dict[tuple[str, str], list[Floats]] = {key: [] for key in points}
    for counts in _counts(clusters, resamples, seed):
        for name, measure in points:
            drawn[name, measure].append(_of(measure, rows[name], y, counts))
    draws = {key: np.concatenate(parts) for key, parts in drawn.items()}
    enough = enough_clusters([""] * len(y), clusters)
    found: dict[str, dict[str, Correlation]] = {name: {} for name in rows}
    for (name, measure), value in points.items():
        if np.isfinite(value):
            low, high = _interval(draws[name, measure]) if enough else (None, None)
            found[name][measure] = Correlation(value=value, low=low, high=high)
    differences = []
    for first, second in combinations(rows, 2):
        for measure in MEASURES:
            apart = points[first, measure] - points[second, measure]
            if np.isfinite(apart):
                low, high = _interval(draws[first, measure] - draws[second, measure]) if enough else (None, None)
                differences.append(
                    CorrelationDifference(
                        first=first, second=second, measure=measure, difference=apart, low=low, high=high
                    )
                )
    return found, differences


def _counts(clusters: Sequence[str], resamples: int, seed: int) -> Iterator[Floats]:
    """How often each pair is in each resample, some resamples at a time."""
    places: dict[str, int] = {}
    index = np.array([places.setdefault(name, len(places)) for name in clusters])
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(index))
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        often = generator.multinomial(len(places), np.full(len(places), 1 / len(places)), size=size)
        yield often[:, index].astype(np.float64)


def _of(measure: str, x: Floats, y: Floats, counts: Floats) -> Floats:
    if measure == "Pearson":
        return _pearson(x[None, :], y[None, :], counts)
    return _pearson(_midranks(x, counts), _midranks(y, counts), counts)


def _pearson(x: Floats, y: Floats, counts: Floats) -> Floats:
    """Pearson's correlation with weights, a row a resample; NaN where one side has no spread."""
    total = counts.sum(axis=1, keepdims=True)
    x = x - (counts * x).sum(axis=1, keepdims=True) / total
    y = y - (counts * y).sum(axis=1, keepdims=True) / total
    spread = (counts * x * x).sum(axis=1) * (counts * y * y).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        made: Floats = np.where(spread > 1e-24, (counts * x * y).sum(axis=1) / np.sqrt(spread), np.nan)
    return made


def _midranks(values: Floats, counts: Floats) -> Floats:
    """The rank of each value in each resample, equal values sharing the mean of theirs."""
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
    """Two sentences and how alike they are."""

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
    """Read JSON Lines ``{"sentence1", "sentence2", "score"}``, as MTEB has them, or ``{"query", "pos", "neg"}``, as
    CARE's samples are: the query with each text of `pos` has the score 1, with each of `neg` 0.

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
    """The cosine of each pair, as 1 less half the squared distance of the vectors at length 1, which is MTEB's and
    scikit-learn's way: equal vectors have a cosine of exactly 1, so that ties stay ties for Spearman's correlation.
    Both sides are embedded as queries: neither is a document."""
    found: list[float] = []
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        one = _unit(np.asarray(embedder.queries([pair.sentence1 for pair in batch])))
        other = _unit(np.asarray(embedder.queries([pair.sentence2 for pair in batch])))
        apart = one - other
        found += (1 - np.einsum("ij,ij->i", apart, apart) / 2).tolist()
    return found


def _unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Vectors at length 1; those of length 0 stay as they are."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors / np.where(lengths > 0, lengths, 1)


def score_similarity(
    path: Path, specs: list[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[dict[str, Any]], list[CorrelationDifference]]:
    """Score embedding models on a file of pairs, and compare them two by two. Pairs with the same first sentence are
    drawn together.

    Raises:
        UserError: the file cannot be read, a retriever has no vectors or is named twice, or all its cosines are equal.
    """
    pairs = read_pairs(path)
    given: dict[str, list[float]] = {}
    for text in specs:
        named = named_embedder(text)
        if named.spec in given:
            raise UserError(f"{named.spec!r} is given twice.")
        given[named.spec] = cosines(pairs, named.embedder)
    found, differences = correlations(
        given,
        [pair.score for pair in pairs],
        [pair.sentence1 for pair in pairs],
        resamples=resamples,
        seed=seed,
    )
    for spec, measures in found.items():
        if not measures:
            raise UserError(f"{spec!r} has no correlation: its vectors give every pair the same cosine.")
    entries: list[dict[str, Any]] = [
        {
            "retriever": spec,
            **{measure: each.value for measure, each in measures.items()},
            **{f"{measure}_interval": [each.low, each.high] for measure, each in measures.items()},
            "pairs": len(pairs),
        }
        for spec, measures in found.items()
    ]
    return entries, differences
