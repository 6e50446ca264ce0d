"""How often systems that are equal are told apart, and how often an interval holds the true rating.

    python perf/arena_equal.py [arenas]

Every pair plays every question. Question effects: a question favours systems by a normal deviate of that size, alike
for all. Beside it, what the bootstrap's own limit would say: the quantile of its largest studentised deviation.
"""

from __future__ import annotations

import sys

import numpy as np
from arena_simulator import Judge

from ragrounds.extensions.arena.matches import Matches, resampled
from ragrounds.extensions.arena.ratings import fit, rate
from ragrounds.extensions.arena.schedules import all_pairs

DESIGNS = ((2, 30, 0.0), (4, 12, 0.0), (4, 30, 0.5), (5, 60, 0.5), (6, 50, 0.0), (6, 200, 0.0), (8, 50, 0.0))
"""Systems, questions, size of a question's effect."""
RESAMPLES = 400


def play(systems: int, questions: int, effect: float, draw: np.random.Generator) -> Matches:
    """All pairs on all questions."""
    first, second = all_pairs(systems)
    own = effect * draw.normal(size=(questions, systems))
    won, lost = Judge().both_orders(own[:, first] - own[:, second])
    luck = draw.random(won.shape)
    score = np.where(luck < won, 1.0, np.where(luck < won + lost, 0.0, 0.5))
    names = tuple("abcdefgh"[:systems])
    asked = np.repeat(np.arange(questions), len(first))
    return Matches(names, np.tile(first, questions), np.tile(second, questions), score.ravel(), asked)


def apart_by_bootstrap(matches: Matches, seed: int) -> bool:
    """Whether the largest studentised difference is beyond the 95 % quantile of the bootstrap's."""
    upper = np.triu_indices(len(matches.systems), 1)
    strengths = fit(matches.totals()).strengths
    drawn = fit(resampled(matches, replicates=RESAMPLES, seed=seed)).strengths
    gaps = (strengths[:, None] - strengths[None, :])[upper]
    draws = (drawn[:, :, None] - drawn[:, None, :])[:, upper[0], upper[1]]
    error = draws.std(axis=0)
    limit = np.quantile((np.abs(draws - gaps) / error).max(axis=1), 0.95)
    return bool((np.abs(gaps) > limit * error).any())


def main(arenas: int) -> None:
    """Print a table."""
    print("| systems | questions | effect | told apart by the bootstrap's limit | told apart | intervals hold |")
    print("|---|---|---|---|---|---|")
    for systems, questions, effect in DESIGNS:
        before = apart = inside = 0
        for seed in range(arenas):
            matches = play(systems, questions, effect, np.random.default_rng([5, seed]))
            made = rate(matches, replicates=RESAMPLES, seed=seed)
            apart += any(map(any, made.separated))
            inside += sum((row.low or -np.inf) <= 1000 <= (row.high or np.inf) for row in made.rows)
            before += seed < arenas // 2 and apart_by_bootstrap(matches, seed)
        rates = (2 * before / arenas, apart / arenas, inside / arenas / systems)
        cells = " | ".join(f"{100 * rate:.1f} %" for rate in rates)
        print(f"| {systems} | {questions} | {effect or '-'} | {cells} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
