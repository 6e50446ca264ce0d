"""Hard negatives: what the document encoder finds for a query, less what a verifier takes for relevant.

In medicine many texts answer the same question, so that the best-ranked unlabelled text is often a false negative
(*topic intensity*, Section 4.1): candidates are verified, and only those said not to answer are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ragrounds.tools.embedders import Vectors
from ragrounds.train.data import Example
from ragrounds.train.spec import Mining

_BLOCK = 256


class Candidate(Struct, frozen=True):
    """A text that was found for a query."""

    text: str
    score: float
    """Cosine to the query."""


class Asked(Struct, frozen=True):
    """What a verifier is asked about one query."""

    example: Example
    positive: float
    """Cosine of the query and its relevant text."""
    candidates: tuple[Candidate, ...]
    """Best first."""


class Verifier(Protocol):
    """Says which candidates do not answer a query."""

    def negatives(self, asked: Sequence[Asked]) -> list[list[bool | None]]:
        """For each candidate of each query: true, it does not answer; false, it does; ``None``: it cannot be said."""


class Mined(Struct, frozen=True, kw_only=True):
    """Examples with their negatives, and what was found."""

    examples: list[Example]
    verifier: str
    candidates: int
    negative: int
    positive: int
    """Candidates that the verifier took for relevant: false negatives, had nobody asked."""
    unsaid: int
    without: int
    """Examples for which no negative was found."""


def mine(
    examples: Sequence[Example],
    queries: Vectors,
    positives: Vectors,
    pool: Sequence[str],
    vectors: Vectors,
    mining: Mining,
    verifier: Verifier,
    told: Callable[[int], None] | None = None,
) -> Mined:
    """Find hard negatives for every example; those it came with stand first.

    Args:
        examples: In the order of `queries` and `positives`.
        queries: Their unit vectors by the document encoder.
        positives: Likewise, of their relevant texts.
        pool: Texts to choose from.
        vectors: Of the pool.
        mining: Settings.
        verifier: Asked about some hundred queries at a time.
        told: Hears how many examples are done.
    """
    made: list[Example] = []
    counts = {True: 0, False: 0, None: 0}
    for start in range(0, len(examples), _BLOCK):
        scores = queries[start : start + _BLOCK] @ vectors.T
        depth = min(mining.candidates + 1, len(pool))  # the relevant text itself is usually among them
        nearest = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
        asked = []
        for row, positions in enumerate(nearest):
            example = examples[start + row]
            ranked = sorted(positions.tolist(), key=lambda position: (-scores[row, position], position))
            own = {example.query, example.positive, *example.negatives}
            found = [Candidate(pool[each], float(scores[row, each])) for each in ranked if pool[each] not in own]
            positive = float(queries[start + row] @ positives[start + row])
            asked.append(Asked(example, positive, tuple(found[: mining.candidates])))
        for one, said in zip(asked, verifier.negatives(asked), strict=True):
            for verdict in said:
                counts[verdict] += 1
            chosen = [found.text for found, verdict in zip(one.candidates, said, strict=True) if verdict]
            kept = (*one.example.negatives, *chosen)[: mining.keep]
            made.append(msgspec.structs.replace(one.example, negatives=kept))
        if told:
            told(len(made))
    return Mined(
        examples=made,
        verifier=mining.verifier,
        candidates=sum(counts.values()),
        negative=counts[True],
        positive=counts[False],
        unsaid=counts[None],
        without=sum(not example.negatives for example in made),
    )
