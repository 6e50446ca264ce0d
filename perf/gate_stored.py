"""The release gate on stored runs, simulated: errors of a single test, uneven clusters, policies tried until one fits.

    python perf/gate_stored.py [--simulations 1000] [--write]

Every truth is at the limit of its rule, so every GO is wrong. Stored answers are tested once, by the intervals of the
tables (`ragrounds.extensions.gate.policy.FollowedGate.test`). Tried policies are counted, and test n has a share of the
error (`ragrounds.extensions.gate.counted_tests.error_share`). Next to it: every test at the whole error, and Holm's
procedure over the tests so far, whose earlier GO stay.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
from scipy.stats import binom

from ragrounds.base.records import Question
from ragrounds.evals.stats import combined_mean, holm
from ragrounds.evals.stats.sequential import bets_on, log_mean_exp
from ragrounds.extensions.gate.counted_tests import error_share
from ragrounds.extensions.gate.one_sided import reach
from ragrounds.extensions.gate.policy import FollowedGate, read_policy

PAGE = Path(__file__).parent / "gate_stored.md"
ERROR, TRUTH = 0.05, 0.6
Generator = np.random.Generator


def lower_end(values: Sequence[float], error: float, attempts: int = 1) -> float:
    """Return the lower end by which the gate decides that an accuracy holds, at this error."""
    estimate = combined_mean([values], [1.0], [""] * len(values), attempts=attempts, level=1 - 2 * error)
    return -math.inf if estimate.low is None else estimate.low - 1 / (2 * len(values))


def smallest_error(values: Sequence[float], limit: float, attempts: int = 1) -> float:
    """Return the p value of a rule `accuracy > limit`: the smallest error at which it holds."""
    low, high = 0.0, 0.5
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if lower_end(values, middle, attempts) > limit else (middle, high)
    return high


@cache
def p_value(right: int, count: int, limit: float) -> float:
    """Return the p value of this number of right answers."""
    return smallest_error([1.0] * right + [0.0] * (count - right), limit)


def assert_level(wrong: int, simulations: int) -> None:
    """Check that so many wrong verdicts are no evidence against the level, as one of some ten tests of it."""
    assert binom.sf(wrong - 1, simulations, ERROR) > 0.005, (wrong, simulations)


def single_errors() -> Iterator[str]:
    """Yield the chance of a wrong GO of one test of a share, by enumeration."""
    limits = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)
    yield "| questions | error of the test | " + " | ".join(f"limit {100 * limit:.0f} %" for limit in limits) + " |"
    yield "|---:|---:|" + "---:|" * len(limits)
    for count in (20, 50, 100, 200, 400):
        for number in (1, 2):
            error = ERROR * error_share(number)
            wrong = []
            for limit in limits:
                smallest = next(
                    (
                        right
                        for right in range(int(limit * count), count + 1)
                        if lower_end([1.0] * right + [0.0] * (count - right), error) > limit
                    ),
                    count + 1,
                )
                wrong.append(float(binom.sf(smallest - 1, count, limit)))
            assert max(wrong) <= 1.3 * error
            yield f"| {count} | {100 * error:g} % | " + " | ".join(f"{100 * share:.2f}" for share in wrong) + " |"


def tested(claim: str, questions: Sequence[Question], values: dict[tuple[str, str], float]) -> str:
    """Return the verdict of a gate with this rule on these answers."""
    policy = read_policy(f"[runs]\nnew = 'new'\nold = 'old'\n[critical]\nx = '{claim}'\n", "p")
    gate = FollowedGate(policy, {"new": "new", "old": "old"}, ERROR * error_share(1))
    gate.test(questions, lambda _, run, question: values[run, question], "robust", 1)
    return gate.verdict


def alone(count: int) -> list[Question]:
    """Return questions without clusters."""
    return [Question(id=str(index), benchmark="d", text="", options={}, kind="choice") for index in range(count)]


def sampled_clusters(generator: Generator) -> list[tuple[int, int]]:
    """Return size and right answers of 120 clusters, of which a tenth has 20 questions and is mostly wrong."""
    sizes = np.where(generator.random(120) < 0.1, 20, 1)
    return [(int(size), int(generator.binomial(size, 0.3 if size > 1 else 0.9))) for size in sizes]


def giant_cluster(generator: Generator) -> list[tuple[int, int]]:
    """Return 300 questions alone, of which 80 % are right, and a case of 150 that is right as a whole in 80 %."""
    return [(1, int(right)) for right in generator.random(300) < 0.8] + [(150, 150 * int(generator.random() < 0.8))]


POPULATIONS: dict[str, tuple[Callable[[Generator], list[tuple[int, int]]], float, int]] = {
    "120 clusters, a tenth of 20 questions and mostly wrong": (
        sampled_clusters,
        (0.9 * 0.9 + 0.1 * 20 * 0.3) / (0.9 + 0.1 * 20),
        20,
    ),
    "300 questions alone and one case of 150": (giant_cluster, 0.8, 150),
}


def wrong_single(simulations: int, generator: Generator) -> Iterator[str]:
    """Yield how often one test of stored answers is wrong: differences, clusters."""
    yield "| stored answers | wrong GO, of 100 | wrong NO-GO, of 100 |"
    yield "|---|---:|---:|"
    for count in (50, 100, 300):
        verdicts = []
        for _ in range(simulations):
            # A quarter of the questions differ, and the new agent is 5 points worse, as its rule just forbids.
            outcomes = generator.choice(4, size=count, p=[0.5, 0.25, 0.1, 0.15])
            answers = {
                (run, str(index)): float(outcome == 0 or outcome == which)
                for index, outcome in enumerate(outcomes)
                for run, which in (("new", 2), ("old", 3))
            }
            verdicts.append(tested("accuracy(new) - accuracy(old) > -5%", alone(count), answers))
        yield row_of(f"two agents on {count} questions, rule on their difference", verdicts)
    for name, (sample, limit, _) in POPULATIONS.items():
        verdicts = []
        for _ in range(simulations):
            questions, answers = [], {}
            for number, (size, right) in enumerate(sample(generator)):
                for index in range(size):
                    cluster = f"case {number}" if size > 1 else ""
                    questions.append(
                        Question(
                            id=f"{number}/{index}", benchmark="d", text="", options={}, kind="choice", cluster=cluster
                        )
                    )
                    answers["new", questions[-1].id] = float(index < right)
            verdicts.append(tested(f"accuracy(new) > {limit!r}", questions, answers))
        yield row_of(name, verdicts)


def row_of(name: str, verdicts: Sequence[str]) -> str:
    """Return a row with the shares of both wrong verdicts."""
    shares = [verdicts.count(verdict) / len(verdicts) for verdict in ("GO", "NO-GO")]
    assert_level(int(max(shares) * len(verdicts)), len(verdicts))
    line = f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in shares) + " |"
    print(line, flush=True)
    return line


def wrong_followed(simulations: int, generator: Generator) -> Iterator[str]:
    """Yield how often a test after every cluster is wrong, with the weights of the tables and by means of clusters."""
    yield "| looked at after every cluster | wrong GO | wrong NO-GO | wrong with means of clusters: GO | NO-GO |"
    yield "|---|---:|---:|---:|---:|"
    for name, (sample, limit, largest) in POPULATIONS.items():
        counts = np.zeros((2, 2))
        for _ in range(simulations):
            sizes, right = generator.permutation(np.array(sample(generator), dtype=float)).T
            for way, (values, weights) in enumerate(
                ((right / largest, sizes / largest), (right / sizes, np.ones(len(sizes))))
            ):
                for side, bets in enumerate(
                    (bets_on(values, limit, weights), bets_on(weights - values, 1 - limit, weights))
                ):
                    counts[way, side] += bool((log_mean_exp(np.cumsum(bets, axis=0)) >= reach(ERROR)).any())
        shares = [f"{100 * count / simulations:.1f}" for count in counts.ravel()]
        assert_level(int(counts[0].max()), simulations)
        line = f"| {name} | " + " | ".join(shares) + " |"
        print(line, flush=True)
        yield line


def of_datasets(generator: Generator) -> list[float]:
    """Return p values of a policy for each of ten datasets of 60 questions."""
    return [p_value(int(right), 60, TRUTH) for right in generator.binomial(60, TRUTH, 10)]


def of_limits(generator: Generator) -> list[float]:
    """Return p values of rules with ten limits, 60 to 64.5 %, on 300 answers."""
    right = int(generator.binomial(300, TRUTH))
    return [p_value(right, 300, round(TRUTH + step / 200, 3)) for step in range(10)]


def of_sizes(generator: Generator) -> list[float]:
    """Return p values of ten looks, after 50, 100, … 500 answers."""
    right = np.cumsum(generator.binomial(50, TRUTH, 10))
    return [p_value(int(total), 50 * (look + 1), TRUTH) for look, total in enumerate(right)]


def of_epochs(generator: Generator) -> list[float]:
    """Return p values of the first epoch, the first two, … the first six, of 100 questions of unequal difficulty."""
    chances = generator.beta(1.5, 1.0, 100)
    right = np.cumsum(generator.random((6, 100)) < chances, axis=0)
    return [smallest_error(list(row / (epoch + 1)), TRUTH, epoch + 1) for epoch, row in enumerate(right)]


def of_subsets(generator: Generator) -> list[float]:
    """Return p values of twenty random halves of 300 answers."""
    right = generator.random(300) < TRUTH
    return [p_value(int(right[generator.permutation(300)[:150]].sum()), 150, TRUTH) for _ in range(20)]


def of_seeds(generator: Generator) -> list[float]:
    """Return the p value of 300 answers: a seed changes nothing, so fifty seeds are one test."""
    return [p_value(int(generator.binomial(300, TRUTH)), 300, TRUTH)]


def hunted_seeds(simulations: int, generator: Generator) -> float:
    """Return how often some of fifty orders of 300 answers gives GO, if each is looked at after every answer."""
    wrong = 0
    for _ in range(simulations):
        right = (generator.random(300) < TRUTH).astype(int)
        up, down = (bets_on(np.array(pair), limit) for pair, limit in (((0.0, 1.0), TRUTH), ((1.0, 0.0), 1 - TRUTH)))
        for _ in range(50):
            order = generator.permutation(right)
            holds, fails = (log_mean_exp(np.cumsum(table[order], axis=0)) >= reach(ERROR) for table in (up, down))
            if holds.any() and not fails[: holds.argmax()].any():
                wrong += 1
                break
    return wrong / simulations


def repeated(simulations: int, generator: Generator) -> Iterator[str]:
    """Yield how often some policy of several gives a wrong GO."""
    yield "| what is tried on answers of which 60 % are right: `accuracy > 60 %` | each at 5 % | Holm so far | gate |"
    yield "|---|---:|---:|---:|"
    for name, sample, most in (
        ("50 seeds of one policy, 300 answers", of_seeds, simulations),
        ("10 datasets of 60 questions, a policy for each", of_datasets, simulations),
        ("10 limits, 60 to 64.5 %, 300 answers", of_limits, simulations),
        ("20 random halves of 300 answers", of_subsets, simulations),
        ("10 looks, after 50, 100, … 500 answers", of_sizes, simulations),
        ("1 to 6 epochs of 100 questions", of_epochs, simulations),
    ):
        wrong = np.zeros(3)
        for _ in range(most):
            found = sample(generator)
            wrong += [
                min(found) <= ERROR,
                any(holm(found[: number + 1])[number] <= ERROR for number in range(len(found))),
                any(p <= ERROR * error_share(number + 1) for number, p in enumerate(found)),
            ]
        assert_level(int(wrong[2]), most)
        line = f"| {name} | " + " | ".join(f"{100 * count / most:.1f}" for count in wrong) + " |"
        print(line, flush=True)
        yield line


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--simulations", type=int, default=1_000)
    options.add_argument("--write", action="store_true", help="write perf/gate_stored.md")
    arguments = options.parse_args()
    start, generator = time.process_time(), np.random.default_rng(0)
    count = arguments.simulations
    seeds = hunted_seeds(min(count, 100), generator)
    sections = [list(section(count, generator)) for section in (wrong_single, wrong_followed, repeated)]
    once = list(single_errors())
    page = [
        "# The release gate on stored runs, simulated",
        "",
        f"`python perf/gate_stored.py --simulations {count} --write`, {datetime.now(UTC):%Y-%m-%d}, "
        f"{time.process_time() - start:.0f} s of processor time. What is simulated is said at the head of the file.",
        "",
        "## One test",
        "",
        "A wrong GO of the rule `accuracy > limit` whose truth is the limit, of 100, by enumeration.",
        "",
        *once,
        "",
        *sections[0],
        "",
        f"Each of {count:,} simulations of a first test, whose error is 4 %.",
        "",
        "## Uneven clusters, looked at after every one",
        "",
        *sections[1],
        "",
        f"Each of {count:,} simulations at an error of 5 %, in a random order, of 100. A mean of clusters is about "
        "another figure than the tables.",
        "",
        "## Policies tried until one says GO",
        "",
        *sections[2],
        "",
        f"Some wrong GO, of 100, in {count:,} simulations. Fifty seeds of a test after every "
        f"answer, as before stored runs were tested once: {100 * seeds:.0f} of 100.",
    ]
    if arguments.write:
        PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
