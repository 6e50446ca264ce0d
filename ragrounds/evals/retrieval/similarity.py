"""Sentence similarity: how well cosines of vectors follow graded pairs (CMedTEB's synonyms; Pearson's correlation).

Spearman's correlation stands beside it, which MTEB's similarity tasks are ranked by; both with their intervals.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ragrounds.errors import UserError
from ragrounds.evals.retrieval.correlating import RESAMPLES, Difference, correlations
from ragrounds.tools.embedding import Embedder
from ragrounds.tools.lines import bad_line, read_rows
from ragrounds.tools.naming import named_embedder

_BATCH = 256
_FORM = "{sentence1, sentence2, score}, or {query, pos, neg}"


class Pair(msgspec.Struct, frozen=True):
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


def read_pairs(path: Path) -> list[Pair]:
    """Read JSON Lines ``{"sentence1", "sentence2", "score"}``, as MTEB has them, or ``{"query", "pos", "neg"}``, as
    CARE's samples are: the query with each text of `pos` has the score 1, with each of `neg` 0.

    Raises:
        UserError: no such file, a line that is not of the form, or fewer than three pairs.
    """
    pairs: list[Pair] = []
    for number, row in read_rows(path, _Row, _FORM):
        if row.query is not None and (row.pos or row.neg):
            pairs += [Pair(row.query, text, 1.0) for text in row.pos] + [Pair(row.query, text, 0.0) for text in row.neg]
        elif row.sentence1 is not None and row.sentence2 is not None and row.score is not None:
            pairs.append(Pair(row.sentence1, row.sentence2, row.score))
        else:
            raise bad_line(path, number, "a field is missing", _FORM)
    if len(pairs) < 3 or len({pair.score for pair in pairs}) < 2:
        raise UserError(f"{str(path)!r} has no correlation: expected three pairs or more, not all of one score.")
    return pairs


def cosines(pairs: list[Pair], embedder: Embedder) -> list[float]:
    """The cosine of each pair. Both sides are embedded as queries: neither is a document."""
    import numpy as np

    found: list[float] = []
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        one = embedder.queries([pair.sentence1 for pair in batch])
        other = embedder.queries([pair.sentence2 for pair in batch])
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        found += (np.sum(one * other, axis=1) / np.where(lengths > 0, lengths, 1)).tolist()
    return found


def score_similarity(
    path: Path, specs: list[str], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[list[dict[str, Any]], list[Difference]]:
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
            raise UserError(f"{named.spec!r} is named twice.")
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
