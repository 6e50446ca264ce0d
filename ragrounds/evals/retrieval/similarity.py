"""Sentence similarity: how well cosines of vectors follow graded pairs (CMedTEB's synonyms; Pearson's correlation)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ragrounds.errors import UserError
from ragrounds.tools.embedding import Embedder
from ragrounds.tools.naming import named_embedder

_BATCH = 256


class Pair(msgspec.Struct, frozen=True):
    """Two sentences and how alike they are."""

    sentence1: str
    sentence2: str
    score: float


def read_pairs(path: Path) -> list[Pair]:
    """Read JSON Lines ``{"sentence1", "sentence2", "score"}``, as MTEB has them.

    Raises:
        UserError: no such file, a line that is not of the form, or fewer than three pairs.
    """
    pairs: list[Pair] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem.strerror}.") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                pairs.append(msgspec.json.decode(line, type=Pair))
            except (msgspec.MsgspecError, UnicodeError) as problem:
                raise UserError(f"Cannot read line {number} of {path}: {problem}.") from None
    if len(pairs) < 3 or len({pair.score for pair in pairs}) < 2:
        raise UserError(f"{str(path)!r} has no correlation: expected three pairs or more, not all of one score.")
    return pairs


def similarity(pairs: list[Pair], embedder: Embedder) -> dict[str, float]:
    """Pearson's and Spearman's correlation of the pairs' cosines with their scores. Both sides are embedded as queries:
    neither is a document."""
    import numpy as np
    from scipy import stats

    cosines: list[float] = []
    for start in range(0, len(pairs), _BATCH):
        batch = pairs[start : start + _BATCH]
        one = embedder.queries([pair.sentence1 for pair in batch])
        other = embedder.queries([pair.sentence2 for pair in batch])
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines += (np.sum(one * other, axis=1) / np.where(lengths > 0, lengths, 1)).tolist()
    scores = [pair.score for pair in pairs]
    return {
        "Pearson": float(stats.pearsonr(cosines, scores).statistic),
        "Spearman": float(stats.spearmanr(cosines, scores).statistic),
    }


def score_similarity(path: Path, specs: list[str]) -> list[dict[str, Any]]:
    """Score embedding models on a file of pairs.

    Raises:
        UserError: the file cannot be read, or a retriever has no vectors.
    """
    pairs = read_pairs(path)
    entries: list[dict[str, Any]] = []
    for text in specs:
        named = named_embedder(text)
        entries.append({"retriever": named.spec, **similarity(pairs, named.embedder), "pairs": len(pairs)})
    return entries
