"""Finished matches on one axis, as arrays: what every rating is computed from.

Pairs of systems in a fixed order, and which question a pair plays next.

The matrix of wins, ties and losses.

Resampling questions with replacement: matches about one question are not independent, so they go together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.errors import UserError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matches:
    """Matches in the order they were played; missing verdicts are not among them.

    `first` and `second` index into `systems`; `score` is the first system's: 1 won, ½ tie, 0 lost. Matches of one
    question (or of one cluster of questions that are not independent) share a number in `cluster`, from 0 without
    gaps: they are resampled together.
    """

    systems: tuple[str, ...]
    first: Ints
    second: Ints
    score: Floats
    cluster: Ints

    def __len__(self) -> int:
        return len(self.score)

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return int(self.cluster.max()) + 1 if len(self) else 0

    def totals(self) -> Floats:
        """(K, K): points of the row's system against the column's, a tie as half a point each."""
        size = len(self.systems)
        points = np.zeros((size, size))
        np.add.at(points, (self.first, self.second), self.score)
        np.add.at(points, (self.second, self.first), 1.0 - self.score)
        return points

    def taken(self, chosen: Ints) -> Matches:
        """The same matches in another order, or some of them; clusters keep their numbers."""
        return Matches(self.systems, self.first[chosen], self.second[chosen], self.score[chosen], self.cluster[chosen])


def collect_matches(systems: Sequence[str], played: Iterable[tuple[Hashable, str, str, float]]) -> Matches:
    """Matches from (question or cluster, first system, second system, first system's score).

    Raises:
        UserError: a system that is not in `systems`, a system against itself, or a score other than 0, ½ and 1.
    """
    place = {system: index for index, system in enumerate(systems)}
    if len(place) != len(systems):
        raise UserError("A system is named twice. Each system of an arena needs a name of its own.")
    numbers: dict[Hashable, int] = {}
    rows: list[tuple[int, int, float, int]] = []
    for question, first, second, score in played:
        if first not in place or second not in place or first == second:
            raise UserError(f"A match of {first!r} against {second!r}: expected two of {', '.join(place)}.")
        if score not in (0.0, 0.5, 1.0):
            raise UserError(f"A match of {first!r} against {second!r} has the score {score}; expected 0, 0.5 or 1.")
        rows.append((place[first], place[second], score, numbers.setdefault(question, len(numbers))))
    ones, others, scores, clusters = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Matches(
        tuple(systems),
        np.array(ones, dtype=np.int64),
        np.array(others, dtype=np.int64),
        np.array(scores, dtype=np.float64),
        np.array(clusters, dtype=np.int64),
    )


def all_pairs(size: int) -> tuple[Ints, Ints]:
    """Both members of the K(K−1)/2 pairs."""
    first, second = np.triu_indices(size, 1)
    return first.astype(np.int64), second.astype(np.int64)


def question_orders(size: int, questions: int, seed: int) -> Ints:
    """(P, Q): in which order each pair plays the questions.

    Drawn for each pair before anything is played: the results of a pair are then a fixed sequence of which a schedule
    only decides how much is seen, and this is what keeps the stopping rule valid however pairs are chosen.
    """
    count = size * (size - 1) // 2
    return np.array([_draw(seed, pair).permutation(questions) for pair in range(count)], dtype=np.int64).reshape(
        count, questions
    )


def _draw(seed: int, pair: int) -> np.random.Generator:
    digest = hashlib.sha256(f"arena order {seed} {pair}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


class Wins(Struct, frozen=True):
    """``counts[i][j]``: how often i won, tied, lost against j."""

    systems: tuple[str, ...]
    counts: tuple[tuple[tuple[int, int, int], ...], ...]

    def least(self) -> int:
        """Matches of the pair that met least."""
        size = len(self.systems)
        return min((sum(self.counts[i][j]) for i in range(size) for j in range(i)), default=0)


def count_wins(matches: Matches) -> Wins:
    """Count every pair from both sides."""
    size = len(matches.systems)
    table = np.zeros((size, size, 3), dtype=np.int64)
    outcome = np.rint(2.0 - 2.0 * matches.score).astype(np.int64)
    np.add.at(table, (matches.first, matches.second, outcome), 1)
    np.add.at(table, (matches.second, matches.first, 2 - outcome), 1)
    counts = tuple(tuple((int(w), int(t), int(lost)) for w, t, lost in row) for row in table)
    return Wins(matches.systems, counts)


_AT_ONCE = 4_000_000
"""Numbers held at once: replicates × clusters."""


def resampled(matches: Matches, *, replicates: int = 1000, seed: int = 0) -> Floats:
    """(B, K, K) tables of points (a tie is half a point each), one for every resample of the clusters."""
    size, count = len(matches.systems), matches.clusters
    draw = np.random.default_rng(seed)
    tables = np.zeros((replicates, size * size))
    if count == 0:
        return tables.reshape(replicates, size, size)
    points = _by_cluster(matches)
    at_once = max(1, _AT_ONCE // count)
    for start in range(0, replicates, at_once):
        stop = min(replicates, start + at_once)
        # Counting draws is several times quicker than a multinomial over as many classes as there are questions.
        times = np.stack([np.bincount(draw.integers(0, count, count), minlength=count) for _ in range(start, stop)])
        tables[start:stop] = (points.T @ times.T.astype(np.float64)).T
    return tables.reshape(replicates, size, size)


def _by_cluster(matches: Matches) -> Any:
    """(C, K²) points of each cluster, sparse: most questions are played by few pairs."""
    from scipy import sparse

    size, count = len(matches.systems), matches.clusters
    rows = np.concatenate([matches.cluster, matches.cluster])
    columns = np.concatenate([matches.first * size + matches.second, matches.second * size + matches.first])
    values = np.concatenate([matches.score, 1.0 - matches.score])
    return sparse.coo_array((values, (rows, columns)), shape=(count, size * size)).tocsr()
