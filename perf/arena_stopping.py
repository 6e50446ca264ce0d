"""The adaptive schedule's stopping rule: how often it ends with a wrong ranking, and after how many matches.

    python perf/arena_stopping.py [copies]

Every arena looks after each batch. Wrong: any pair was called separated the wrong way at any look (where systems are
equal, called separated at all). Beside it, what a fixed 95 % interval looked at as often would do.
"""

from __future__ import annotations

import sys

import numpy as np
from arena_schedules import from_gaps
from arena_simulator import Arenas, Judge

from ragrounds.extensions.arena.ratings import fit
from ragrounds.extensions.arena.schedules import separated_pairs, settled_axes

GRID = {
    "2 equal systems": ([0.0, 0.0], 2000),
    "4 equal systems": ([0.0] * 4, 2000),
    "4 systems, two equal": (from_gaps(1.0, 0.0, 1.0), 2000),
    "4 systems, equal gaps .1": (from_gaps(0.1, 0.1, 0.1), 4000),
    "4 systems, equal gaps .5": (from_gaps(0.5, 0.5, 0.5), 4000),
    "4 systems, unequal 2 .3 2": (from_gaps(2.0, 0.3, 2.0), 4000),
    "12 systems, unequal, 3 of 11 gaps .4, else 1": (from_gaps(*[0.4 if i % 4 == 1 else 1.0 for i in range(11)]), 8000),
}


def naive(wins: np.ndarray) -> np.ndarray:
    """(S, K, K): won more than lost, by a sign test at 5 % (two-sided) with at least 10 decided matches."""
    lost = np.swapaxes(wins, -1, -2)
    total = wins + lost
    return (wins - lost > 1.96 * np.sqrt(np.maximum(total, 1))) & (total >= 10)


def simulate(strengths: list[float], most: int, copies: int) -> str:
    arenas = Arenas(strengths, Judge(), copies, 7)
    true = np.array(strengths)
    wrong_way = true[:, None] <= true[None, :]
    np.fill_diagonal(wrong_way, False)
    pairs = len(arenas.first)
    step = max(8, pairs)
    running = np.ones(copies, dtype=bool)
    wrong, fooled = np.zeros(copies, dtype=bool), np.zeros(copies, dtype=bool)
    ended, ended_right = np.full(copies, np.nan), np.zeros(copies, dtype=bool)
    for count in range(step, most + 1, step):
        arenas.adaptive(step, np.repeat(running[:, None], pairs, axis=1))
        wins = arenas.wins()
        wrong |= running & (separated_pairs(wins, 0.95) & wrong_way).any(axis=(1, 2))
        fooled |= running & (naive(wins) & wrong_way).any(axis=(1, 2))
        stop = running & settled_axes(wins, fit(arenas.points(), prior=True).strengths, 0.95)
        ended[stop], ended_right[stop] = count, arenas.right()[stop]
        running &= ~stop
        if not running.any():
            break
    done = ~np.isnan(ended)
    tail = f"ended {done.mean():4.0%} within {most}"
    if done.any():
        quarter, median, three = np.nanpercentile(ended, [25, 50, 75])
        tail += (
            f", after {median:.0f} matches ({quarter:.0f} to {three:.0f}), ranking right {ended_right[done].mean():.1%}"
        )
    return f"wrong at any look {wrong.mean():5.2%}  fixed test {fooled.mean():6.1%}  {tail}"


if __name__ == "__main__":
    copies = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name, (strengths, most) in GRID.items():
        size = copies if len(strengths) < 6 else copies // 5
        print(f"{name} ({size} arenas): {simulate(strengths, most, size)}", flush=True)
