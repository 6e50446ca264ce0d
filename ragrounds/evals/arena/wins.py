"""The matrix of wins, ties and losses."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ragrounds.evals.arena.matches import Matches


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
