"""Bradley–Terry with bootstrap by question: order recovered, intervals at their nominal rate, position bias removed.

    python perf/arena_intervals.py [simulations]

4 systems, random pairs on 160 questions; questions favour systems (a question's own effect on each system's strength,
standard deviation .5), so matches of one question go together. The truth is the fit to the expected points.
"""

from __future__ import annotations

import sys

import numpy as np
from arena_simulator import Judge

from ragrounds.extensions.arena.matches import Matches
from ragrounds.extensions.arena.ratings import POINTS, fit, rate

STRENGTHS = np.array([0.6, 0.2, -0.2, -0.6])
QUESTIONS, A_QUESTION, EFFECT = 160, 3, 0.5


def play(judge: Judge, draw: np.random.Generator, *, both: bool = True, first_is_lower: bool = False) -> Matches:
    """480 matches: 3 random pairs on each question; one order only where not `both`."""
    size, count = len(STRENGTHS), QUESTIONS * A_QUESTION
    question = np.repeat(np.arange(QUESTIONS), A_QUESTION)
    own = STRENGTHS + EFFECT * draw.normal(size=(QUESTIONS, size))
    first = draw.integers(0, size, count)
    second = (first + draw.integers(1, size, count)) % size
    if first_is_lower:
        first, second = np.minimum(first, second), np.maximum(first, second)
    gap = own[question, first] - own[question, second]
    won, lost = judge.both_orders(gap) if both else judge.one_order(gap)
    luck = draw.random(count)
    score = np.where(luck < won, 1.0, np.where(luck < won + lost, 0.0, 0.5))
    return Matches(tuple("abcd"), first.astype(np.int64), second.astype(np.int64), score, question.astype(np.int64))


def truth(judge: Judge) -> np.ndarray:
    """The fit to expected points under both orders, every pair alike."""
    draw = np.random.default_rng(99)
    own = STRENGTHS + EFFECT * draw.normal(size=(400_000, len(STRENGTHS)))
    won, lost = judge.both_orders(own[:, :, None] - own[:, None, :])
    points = (won + 0.5 * (1.0 - won - lost)).mean(axis=0)
    np.fill_diagonal(points, 0.0)
    return fit(points).ratings


def main(simulations: int) -> None:
    judge = Judge()
    true = truth(judge)
    covered, ordered, called = np.zeros(4), 0, 0
    for number in range(simulations):
        found = rate(play(judge, np.random.default_rng([3, number])), replicates=1000, seed=number)
        rows = sorted(found.rows, key=lambda row: row.system)
        covered += [row.low <= value <= row.high for row, value in zip(rows, true, strict=True)]
        ordered += found.order == ("a", "b", "c", "d")
        place = {name: index for index, name in enumerate(found.order)}
        called += any(found.separated[place[y]][place[x]] for x, y in zip("abc", "bcd", strict=True))
    rates = ", ".join(f"{rate:.1%}" for rate in covered / simulations)
    print(f"{simulations} simulations, 480 matches each; true ratings {np.round(true).astype(int).tolist()}")
    print(f"95 % intervals cover: {covered.mean() / simulations:.1%} (by system: {rates})")
    print(
        f"whole order right: {ordered / simulations:.1%}; "
        f"a neighbouring pair separated the wrong way: {called / simulations:.1%}"
    )
    for name, both in (("one order", False), ("both orders", True)):
        biased = Judge(position=1.0)
        several = [
            fit(play(biased, np.random.default_rng([4, n]), both=both, first_is_lower=True).totals()).ratings
            for n in range(200)
        ]
        against = fit_expected(biased, both)
        shift = np.mean(several, axis=0) - against
        error = np.std(several, axis=0).max() / np.sqrt(200)
        print(
            f"a judge that favours the first (log-odds 1), the better system always shown first, {name}: "
            f"ratings are off by {np.round(shift).astype(int).tolist()} (± {error:.0f})"
        )


def fit_expected(judge: Judge, both: bool) -> np.ndarray:
    """What the ratings would be without position bias."""
    fair = Judge(position=0.0, tie=judge.tie)
    draw = np.random.default_rng(98)
    own = STRENGTHS + EFFECT * draw.normal(size=(200_000, len(STRENGTHS)))
    gaps = own[:, :, None] - own[:, None, :]
    won, lost = judge.both_orders(gaps) if both else fair.one_order(gaps)
    points = (won + 0.5 * (1.0 - won - lost)).mean(axis=0)
    np.fill_diagonal(points, 0.0)
    return fit(points).ratings


if __name__ == "__main__":
    print(f"(one point is {1 / POINTS:.5f} log-odds)")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
