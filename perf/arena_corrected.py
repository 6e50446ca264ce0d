"""Ratings corrected by votes: do the intervals cover, and what are the judge's verdicts worth?

    python perf/arena_corrected.py [simulations]

3 systems, strengths .4, 0, -.4 by people; 1,500 matches judged, and 150 others judged and voted on. The judge sides
with people's luck in a share of matches (its quality) and likes the last system better by a bias (log-odds).
"""

from __future__ import annotations

import sys

import numpy as np

from ragrounds.evals.arena.corrections import correct_by_votes
from ragrounds.evals.arena.matches import Matches
from ragrounds.evals.arena.ratings import expected, fit, rate

TRUE = np.array([0.4, 0.0, -0.4])
NAMES = ("a", "b", "c")
VOTES, JUDGED = 150, 1500


def play(draw: np.random.Generator, bias: float, quality: float) -> tuple[Matches, np.ndarray, Matches]:
    """The votes, the judge on the same matches, and the judge on the others."""
    count = VOTES + JUDGED
    first = draw.integers(0, 3, count)
    second = (first + draw.integers(1, 3, count)) % 3
    likes = TRUE + np.array([0.0, 0.0, bias])
    luck = draw.random(count)
    human = (luck < expected(TRUE)[first, second]).astype(float)
    other = np.where(draw.random(count) < quality, luck, draw.random(count))
    said = (other < expected(likes)[first, second]).astype(float)
    votes = Matches(NAMES, first[:VOTES], second[:VOTES], human[:VOTES], np.arange(VOTES))
    rest = Matches(NAMES, first[VOTES:], second[VOTES:], said[VOTES:], np.arange(JUDGED))
    return votes, said[:VOTES], rest


def main(simulations: int) -> None:
    points = expected(TRUE)
    np.fill_diagonal(points, 0.0)
    true = fit(points).ratings
    for bias in (0.0, 0.8):
        for quality in (0.9, 0.5, 0.0):
            covered, alone, gains, weights = [], [], [], []
            for number in range(simulations):
                votes, same, rest = play(np.random.default_rng([8, number]), bias, quality)
                found = correct_by_votes(votes, same, rest)
                if found is None:
                    continue
                covered += [low <= value <= high for low, value, high in zip(found.low, true, found.high, strict=True)]
                gains.append(found.gain)
                weights.append(found.weight)
                judge = {row.system: row for row in rate(rest, replicates=100, seed=number).rows}
                alone += [judge[n].low <= value <= judge[n].high for n, value in zip(NAMES, true, strict=True)]
            print(
                f"bias {bias:.1f}, quality {quality:.1f}: corrected 95 % intervals cover {np.mean(covered):.1%}, "
                f"the judge alone {np.mean(alone):.1%}; weight {np.mean(weights):.2f}, "
                f"worth {np.mean(gains):.2f} times the votes",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
