"""Sequential stopping, simulated: how often agents are separated that do not differ, and how soon those that do.

    python perf/engine_until.py [--simulations 2000] [--json FILE]

Two agents answer the same questions. A question has a difficulty that both meet (normal, standard deviation 2.2 on the
logit scale) and each answers by itself given that: correlated right-or-wrong answers, 65 % right, a quarter of the
questions with exactly one of the two right where they do not differ. (GPT-3.5 with and without 32 passages on MedQA,
from MIRAGE's published predictions: 65 % and 66 % right, 23 % of the questions with one right alone.)

After every question it is asked whether the confidence sequence of `ragrounds run --until 'separated(A, B) @ 95%'`
leaves 0 out (`ragrounds.evals.stats.sequential`). The peer of the same run is what a user does without it: the
exact McNemar test for a fixed number of questions, looked at after every question, and once at the end. `fixed n` is
the size of the paired test that has 80 % power for the difference (Connor 1987).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtr, expit

from ragrounds.evals.stats import minimum_detectable_effect
from ragrounds.evals.stats.sequential import log_capital

SPREAD = 2.2
ACCURACY = 0.65
POINTS = (0, 3, 5, 10)
LONGEST = {0: 4_000}
"""Questions that agents without a difference are followed for; the others for twice the fixed n."""
_AT_ONCE = 50


def abilities(difference: float) -> tuple[float, float, float]:
    """Both agents' logits for a question of mean difficulty, and the share of questions where one alone is right."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    weights = weights / weights.sum()

    def right(ability: float) -> float:
        return float(weights @ expit(ability + SPREAD * nodes))

    first, second = (brentq(lambda a, s=s: right(a) - s, -9, 9) for s in (ACCURACY, ACCURACY + difference))
    one, other = expit(first + SPREAD * nodes), expit(second + SPREAD * nodes)
    return first, second, float(weights @ (one * (1 - other) + other * (1 - one)))


def fixed_size(differing: float, difference: float) -> int:
    """Questions of the paired test with 80 % power at 5 %."""
    low, high = 1, 1_000_000
    while low < high:
        middle = (low + high) // 2
        seen = minimum_detectable_effect(middle, differing)
        low, high = (low, middle) if seen is not None and seen <= difference else (middle + 1, high)
    return low


def play(first: float, second: float, simulations: int, questions: int, generator: np.random.Generator):
    """Cumulated counts (simulations, questions): only the second right, only the first right."""
    difficulty = generator.normal(0, SPREAD, (simulations, questions))
    one = generator.random((simulations, questions)) < expit(first + difficulty)
    other = generator.random((simulations, questions)) < expit(second + difficulty)
    return np.cumsum(other & ~one, axis=1), np.cumsum(one & ~other, axis=1)


def separated(up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """(simulations, questions): the capital against "no difference" has reached 20."""
    total = np.arange(1, up.shape[1] + 1)
    counts = np.stack([down, total - up - down, up], axis=-1).astype(float)
    return log_capital(np.array([0.0, 0.5, 1.0]), counts, 0.5) >= math.log(20)


def tested(up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """(simulations, questions): the exact McNemar test for a fixed number of questions is below 5 %."""
    return 2 * bdtr(np.minimum(up, down), up + down, 0.5) <= 0.05


def simulate(points: int, simulations: int, seed: int) -> dict[str, float]:
    difference = points / 100
    first, second, differing = abilities(difference)
    fixed = fixed_size(differing, difference) if points else 0
    questions = LONGEST.get(points, 2 * fixed)
    generator = np.random.default_rng([seed, points])
    ends, wrong, looked, once = [], 0, 0, 0
    for start in range(0, simulations, _AT_ONCE):
        up, down = play(first, second, min(_AT_ONCE, simulations - start), questions, generator)
        apart = separated(up, down)
        ever = apart.any(axis=1)
        at = np.where(ever, apart.argmax(axis=1), questions - 1)
        ends += list(np.where(ever, at + 1, np.inf))
        rows = np.arange(len(at))
        wrong += int((ever & (up[rows, at] <= down[rows, at])).sum()) if points else int(ever.sum())
        by_test = tested(up, down)
        looked += int(by_test.any(axis=1).sum())
        once += int(by_test[:, (fixed or questions) - 1].sum())
    stops = np.array(ends)
    return {
        "difference": difference,
        "differing": differing,
        "fixed n": fixed,
        "followed": questions,
        "separated": float(np.isfinite(stops).mean()),
        "separated within fixed n": float((stops <= fixed).mean()) if fixed else math.nan,
        "wrong way": wrong / simulations,
        "median questions": float(np.median(np.where(np.isfinite(stops), stops, questions))),
        "McNemar at every question": looked / simulations,
        "McNemar once": once / simulations,
    }


def finite(size: int, simulations: int, seed: int) -> float:
    """Separations within a benchmark of `size` questions on which the agents do not differ at all, drawn without
    replacement to its end: the same answers in ever new orders."""
    differing = abilities(0.0)[2]
    each = round(size * differing / 2)
    answers = np.repeat([1, -1, 0], [each, each, size - 2 * each])
    generator = np.random.default_rng([seed, size])
    found = 0
    for start in range(0, simulations, _AT_ONCE):
        drawn = generator.permuted(np.tile(answers, (min(_AT_ONCE, simulations - start), 1)), axis=1)
        found += int(separated(np.cumsum(drawn == 1, axis=1), np.cumsum(drawn == -1, axis=1)).any(axis=1).sum())
    return found / simulations


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--simulations", type=int, default=2_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    start = time.process_time()
    found = [simulate(points, chosen.simulations, chosen.seed) for points in POINTS]
    for row in found:
        print("  ".join(f"{name} {value:.4g}" for name, value in row.items()))
    for size in (200, 1_000):
        share = finite(size, chosen.simulations, chosen.seed)
        print(f"benchmark of {size:,} questions without a difference, drawn to its end: separated {share:.4g}")
    print(f"{chosen.simulations:,} simulations each, {time.process_time() - start:.0f} s of processor time")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found[0]["separated"] <= 0.05
    assert found[-1]["separated"] >= 0.80


if __name__ == "__main__":
    main()
