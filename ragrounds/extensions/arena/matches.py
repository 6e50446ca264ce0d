"""Finished matches on one axis as arrays, their table of wins, and their bootstrap. Every rating is computed from
these.

Matches about one question are not independent, so the bootstrap draws questions with replacement, each with all its
matches.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.base.errors import UserError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Matches:
    """Matches in the order in which they were played; missing verdicts are not among them.

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
        """The number of clusters."""
        return int(self.cluster.max()) + 1 if len(self) else 0

    def totals(self) -> Floats:
        """Points of the row's system against the column's, (K, K); a tie is half a point for each."""
        results = self.results()
        points: Floats = results[..., 0] + 0.5 * results[..., 1]
        return points

    def results(self) -> Ints:
        """Wins, ties and losses of the row's system against the column's, (K, K, 3)."""
        size = len(self.systems)
        table = np.zeros((size, size, 3), dtype=np.int64)
        outcome = np.rint(2.0 - 2.0 * self.score).astype(np.int64)
        np.add.at(table, (self.first, self.second, outcome), 1)
        np.add.at(table, (self.second, self.first, 2 - outcome), 1)
        return table


def collect_matches(systems: Sequence[str], played: Iterable[tuple[Hashable, str, str, float]]) -> Matches:
    """Collect matches from (question or cluster, first system, second system, first system's score).

    Raises:
        UserError: a system that is not in `systems`, a system against itself, or a score other than 0, ½ and 1.
    """
    index_by_system = {system: index for index, system in enumerate(systems)}
    if len(index_by_system) != len(systems):
        raise UserError("A system is given twice. Each system of an arena needs its own name.")
    numbers: dict[Hashable, int] = {}
    rows: list[tuple[int, int, float, int]] = []
    for question, first, second, score in played:
        if first not in index_by_system or second not in index_by_system or first == second:
            raise UserError(f"A match of {first!r} against {second!r}: expected two of {', '.join(index_by_system)}.")
        if score not in (0.0, 0.5, 1.0):
            raise UserError(f"A match of {first!r} against {second!r} has the score {score}; expected 0, 0.5 or 1.")
        rows.append(
            (index_by_system[first], index_by_system[second], score, numbers.setdefault(question, len(numbers)))
        )
    firsts, seconds, scores, clusters = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Matches(
        tuple(systems),
        np.array(firsts, dtype=np.int64),
        np.array(seconds, dtype=np.int64),
        np.array(scores, dtype=np.float64),
        np.array(clusters, dtype=np.int64),
    )


class Wins(Struct, frozen=True):
    """Table of results: ``counts[i][j]`` is how often system i won, tied and lost against system j."""

    systems: tuple[str, ...]
    counts: tuple[tuple[tuple[int, int, int], ...], ...]


def count_wins(matches: Matches) -> Wins:
    """Return the table of wins, ties and losses of these matches, every pair from both sides."""
    counts = tuple(tuple((w, t, lost) for w, t, lost in row) for row in matches.results().tolist())
    return Wins(matches.systems, counts)


def resampled(matches: Matches, *, replicates: int = 1000, seed: int = 0) -> Floats:
    """Return tables of points (B, K, K), one for every resample of the clusters; a tie is half a point for each."""
    size, count = len(matches.systems), matches.clusters
    draw = np.random.default_rng(seed)
    tables = np.zeros((replicates, size * size))
    if count == 0:
        return tables.reshape(replicates, size, size)
    cells = np.concatenate([matches.first * size + matches.second, matches.second * size + matches.first])
    points = np.concatenate([matches.score, 1.0 - matches.score])
    clusters = np.concatenate([matches.cluster, matches.cluster])
    for number in range(replicates):
        times = np.bincount(draw.integers(0, count, count), minlength=count)
        tables[number] = np.bincount(cells, points * times[clusters], size * size)
    return tables.reshape(replicates, size, size)
