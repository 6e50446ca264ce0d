"""Finished matches on one axis, as arrays: what every rating is computed from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


def collect(systems: Sequence[str], played: Iterable[tuple[Hashable, str, str, float]]) -> Matches:
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
