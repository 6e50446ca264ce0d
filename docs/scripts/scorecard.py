"""What a scorecard of averages leaves open of its models' differences: docs/how-to/read-a-scorecard.md.

    python docs/scripts/scorecard.py [--write]

A category says of a model how many tasks it solved in one trial or more (pass@k), and the mean over trials (avg@k). So
it is known which numbers of tasks can have been solved in 0, 1, 2 and 3 trials, but not which tasks these are. Every
way in which two models' tasks can stand against each other is counted, and the interval of the paired difference made
of each (:mod:`ragrounds.evals.stats`): it depends on a category's differences k, in trials, by Σ|k| and Σk² alone.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import combinations, product
from pathlib import Path

import numpy as np

from ragrounds.evals.stats.estimates import combined_mean
from ragrounds.evals.stats.intervals import Tallies, adjusted_interval

PAGE = Path(__file__).parents[1] / "how-to/read-a-scorecard.md"
TRIALS = 3
TASKS = {"autonomous": 15, "conversation": 11, "context": 10}
# langchain-ai/deepagents, libs/evals/UNIFIED_SCORECARD.md, commit b6613a8 (2026-07-21), profile lite: pass@3 and avg@3.
PUBLISHED = {
    "GPT-5.6 sol": ((0.400, 0.311), (0.545, 0.394), (1.000, 1.000)),
    "Claude Opus 4.8": ((0.467, 0.267), (0.273, 0.152), (0.900, 0.900)),
    "GPT-5.6 terra": ((0.400, 0.244), (0.273, 0.182), (0.900, 0.867)),
    "GPT-5.6 luna": ((0.400, 0.156), (0.273, 0.182), (1.000, 0.900)),
    "Claude Sonnet 5": ((0.133, 0.089), (0.000, 0.000), (0.900, 0.867)),
    "GLM-5.2": ((0.067, 0.022), (0.000, 0.000), (1.000, 0.833)),
}
Profile = tuple[int, ...]
"""Tasks that were solved in 0, 1, 2 … trials."""
Pairing = tuple[tuple[int, int], ...]
"""Of each task the trials in which the first and the second model solved it."""


def profiles(tasks: int, solved: float, mean: float) -> list[Profile]:
    """What a model can have done in a category, of which this pass@k and avg@k were published."""
    (ever,) = (one for one in range(tasks + 1) if round(one / tasks, 3) == solved)
    (often,) = (one for one in range(tasks * TRIALS + 1) if round(one / tasks / TRIALS, 3) == mean)
    split = product(range(ever + 1), repeat=TRIALS)
    return [
        (tasks - ever, *counts)
        for counts in split
        if sum(counts) == ever and sum(place * one for place, one in enumerate(counts, 1)) == often
    ]


@cache
def pairings(first: Profile, second: Profile) -> dict[tuple[int, int], Pairing]:
    """(Σ|k|, Σk²) of every way in which the tasks of two models can be the same, each with one such way."""
    if not any(first):
        return {(0, 0): ()}
    row = next(place for place, one in enumerate(first) if one)
    rest = tuple(one - (place == row) for place, one in enumerate(first))
    found: dict[tuple[int, int], Pairing] = {}
    for column, one in enumerate(second):
        if one:
            left = tuple(other - (place == column) for place, other in enumerate(second))
            step = column - row
            for (size, square), pairs in pairings(rest, left).items():
                found.setdefault((size + abs(step), square + step**2), ((row, column), *pairs))
    return found


def outcomes(first: str, second: str) -> list[dict[tuple[int, int], Pairing]]:
    """Of each category every (Σ|k|, Σk²) that fits what was published of two models."""
    made = []
    for place, tasks in enumerate(TASKS.values()):
        of = (profiles(tasks, *PUBLISHED[model][place]) for model in (first, second))
        made.append({key: pairs for ends in product(*of) for key, pairs in pairings(*ends).items()})
    return made


def intervals(first: str, second: str, level: float) -> tuple[np.ndarray, np.ndarray]:
    """(outcomes, 2): the ends of the difference `second` - `first` over all tasks in every outcome that fits; and the
    outcomes themselves, (outcomes, categories, 2)."""
    kinds = outcomes(first, second)
    cases = np.array(list(product(*kinds)), dtype=float)
    tasks = np.array(list(TASKS.values()), dtype=float)
    totals = [sum(two - one for one, two in next(iter(kind.values()))) for kind in kinds]
    whole, squares = cases[..., 0], cases[..., 1]
    ones = np.ones_like(whole)
    tallies = Tallies(
        observations=ones * tasks * TRIALS,
        total=ones * totals,
        squares=whole,
        within=whole - squares / TRIALS,
        pairs=ones * tasks * TRIALS * (TRIALS - 1),
        clusters=ones * tasks,
    )
    low, high = adjusted_interval(tallies, -1.0, 1.0, tasks / tasks.sum(), 0.5, level)
    check(kinds, cases, low, high, level)
    return np.stack([low, high], axis=-1), cases


def check(
    kinds: list[dict[tuple[int, int], Pairing]], cases: np.ndarray, low: np.ndarray, high: np.ndarray, level: float
) -> None:
    """Make the narrowest and the widest again from rows by task, as `ragrounds compare` makes an interval."""
    for at in (int(np.argmin(high - low)), int(np.argmax(high - low))):
        pairs = [kind[int(a), int(b)] for kind, (a, b) in zip(kinds, cases[at], strict=True)]
        columns = [[pair[side] / TRIALS for of in pairs for pair in of] for side in (0, 1)]
        strata = [name for name, of in zip(TASKS, pairs, strict=True) for _ in of]
        weights = [tasks / sum(TASKS.values()) for tasks in TASKS.values()]
        made = combined_mean(columns, [-1.0, 1.0], strata, attempts=TRIALS, weights=weights, level=level)
        if made.low is None or made.high is None or not np.allclose((made.low, made.high), (low[at], high[at])):
            raise ValueError(f"the rows give {made.low} to {made.high}, the sums {low[at]} to {high[at]}")


def decided(ends: np.ndarray) -> str:
    """In how many outcomes the interval leaves 0 out."""
    apart = (ends[:, 0] > 0) | (ends[:, 1] < 0)
    return "yes" if apart.all() else "by task" if apart.any() else "no"


def rows() -> Iterator[list[str]]:
    """The table, a pair a row, the larger difference first."""
    many = len(list(combinations(PUBLISHED, 2)))
    made = []
    for better, worse in combinations(PUBLISHED, 2):
        ends, cases = intervals(worse, better, 0.95)
        strict, _ = intervals(worse, better, 1 - 0.05 / many)
        width = ends[:, 1] - ends[:, 0]
        kinds = outcomes(worse, better)
        trials = sum(sum(two - one for one, two in next(iter(kind.values()))) for kind in kinds)
        value = 100 * trials / TRIALS / sum(TASKS.values())
        narrow, wide = (
            "{:+.1f} to {:+.1f}".format(*(100 * ends[at])) for at in (int(width.argmin()), int(width.argmax()))
        )
        made.append(
            (
                value,
                [
                    f"{better} - {worse}",
                    f"{value:+.1f}",
                    narrow,
                    wide,
                    decided(ends),
                    decided(strict),
                    f"{len(cases):,}",
                ],
            )
        )
    yield from (row for _, row in sorted(made, key=lambda one: -one[0]))


def table() -> str:
    """The page's table."""
    head = ["pair", "points", "narrowest 95 %", "widest 95 %", "significant", "of 15 pairs", "cases"]
    lines = (head, ["---", *["---:"] * 3, "---", "---", "---:"], *rows())
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the page's table")
    given, made = options.parse_args(), table()
    sys.stdout.write(made)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(re.sub(r"^\| pair \|.*\n(?:\|.*\n)+", made, page, flags=re.MULTILINE), encoding="utf-8")


if __name__ == "__main__":
    main()
