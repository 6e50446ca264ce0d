"""How many matches the adaptive schedule and the published one need for the same chance of the right ranking.

    python perf/arena_schedules.py [copies]

One axis; both orders of every match; the same judge (noise, position bias, ties) and the same fit. `published` draws
random pairs; its end is where every pair has 80 matches. Ratios are of matches, and so of judge calls; ± is one
standard error, from resampling the simulated arenas.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from arena_simulator import Arenas, Judge
from scipy.optimize import isotonic_regression

from ragrounds.extensions.arena.schedules import LEAST

TARGETS = (0.8, 0.9, 0.95)


def from_gaps(*gaps: float) -> list[float]:
    """Strengths (log-odds) of systems that lie so far apart."""
    return [-float(total) for total in np.cumsum([0.0, *gaps])]


GRID: dict[str, tuple[list[float], int]] = {
    "4 systems, equal gaps .5": (from_gaps(0.5, 0.5, 0.5), 700),
    "4 systems, equal gaps .25": (from_gaps(0.25, 0.25, 0.25), 1000),
    "4 systems, unequal 2 .2 2": (from_gaps(2.0, 0.2, 2.0), 1400),
    "4 systems, unequal .2 2 .2": (from_gaps(0.2, 2.0, 0.2), 1600),
    "4 systems, unequal 1 .2 1": (from_gaps(1.0, 0.2, 1.0), 1000),
    "4 systems, unequal .2 1 .2": (from_gaps(0.2, 1.0, 0.2), 1200),
    "12 systems, equal gaps .5": (from_gaps(*[0.5] * 11), 5500),
    "12 systems, equal gaps .3": (from_gaps(*[0.3] * 11), 3500),
    "12 systems, unequal, 3 of 11 gaps .25, else 1": (
        from_gaps(*[0.25 if i % 4 == 1 else 1.0 for i in range(11)]),
        6600,
    ),
    "12 systems, unequal, 8 of 11 gaps .25, else 1": (
        from_gaps(*[1.0 if i % 4 == 3 else 0.25 for i in range(11)]),
        6600,
    ),
}


def curves(
    strengths: list[float], most: int, copies: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Checkpoints; which arenas are right there (S, T), for both schedules; published's end, and who is right there."""
    pairs = len(strengths) * (len(strengths) - 1) // 2
    step = max(8, pairs)
    published, adaptive = Arenas(strengths, Judge(), copies, 1), Arenas(strengths, Judge(), copies, 2)
    right: list[list[np.ndarray]] = [[], []]
    end, right_at_end = np.full(copies, np.nan), np.zeros(copies, dtype=bool)

    def look(count: int) -> None:
        done = np.isnan(end) & (published.counts.sum(axis=-1).min(axis=-1) >= LEAST)
        right_at_end[done], end[done] = published.right()[done], count

    checkpoints = np.arange(step, most + 1, step)
    for count in checkpoints:
        published.random(step)
        adaptive.adaptive(step)
        right[0].append(published.right())
        right[1].append(adaptive.right())
        look(int(count))
    while np.isnan(end).any():
        count += step
        published.random(step)
        look(int(count))
    return checkpoints, np.stack(right[0], axis=1), np.stack(right[1], axis=1), end, right_at_end


def needed(checkpoints: np.ndarray, right: np.ndarray, target: float) -> float:
    """Matches at which the chance of the right ranking reaches the target; nan where it does not."""
    chance = isotonic_regression(right.mean(axis=0)).x
    place = int(np.searchsorted(chance, target))
    if place >= len(chance):
        return float("nan")
    if place == 0 or chance[place] == chance[place - 1]:
        return float(checkpoints[place])
    part = (target - chance[place - 1]) / (chance[place] - chance[place - 1])
    return float(checkpoints[place - 1] + part * (checkpoints[place] - checkpoints[place - 1]))


def main(copies: int) -> None:
    draw = np.random.default_rng(0)
    for name, (strengths, most) in GRID.items():
        start = time.process_time()
        size = copies if len(strengths) < 6 else copies // 4
        checkpoints, published, adaptive, end, right_at_end = curves(strengths, most, size)
        at_end = right_at_end.mean()
        print(f"{name}: published ends after {end.mean():.0f} matches, then right {at_end:.1%}")
        # Above .95 the curves are flat and the comparison is noise.
        for target in sorted({*TARGETS, round(float(min(at_end, 0.95)), 3)}):
            one, two = needed(checkpoints, published, target), needed(checkpoints, adaptive, target)
            again = []
            for _ in range(100):
                rows, others = draw.integers(0, size, size), draw.integers(0, size, size)
                again.append(
                    needed(checkpoints, adaptive[rows], target) / needed(checkpoints, published[others], target)
                )
            error = np.nanstd(again)
            print(
                f"   right {target:.1%}: published {one:6.0f}  adaptive {two:6.0f}  ratio {two / one:.2f} ± {error:.2f}"
            )
        print(f"   ({size} arenas, {time.process_time() - start:.0f} s of CPU)", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1200)
