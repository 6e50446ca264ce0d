"""The release gate, simulated: how often it is wrong with a look after every question, and how soon it decides.

    python perf/gate.py [--simulations 2000] [--write]

Two agents answer the same questions as in perf/engine_until.py: difficulties that both meet (normal, standard deviation
2.2 on the logit scale), the old one 65 % right, about a quarter of the questions with exactly one of the two right.
Tests are those of `ragrounds.extensions.gate.one_sided`, on counts of the three values that a difference has; the first
simulations are followed by `ragrounds.extensions.gate.policy.FollowedGate`, too, which must end at the same question.
"""

from __future__ import annotations

import argparse
import math
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from ragrounds.base.records import Question
from ragrounds.evals.engine.question_order import QuestionRound
from ragrounds.extensions.gate.one_sided import bets_on, log_mean_exp, reach
from ragrounds.extensions.gate.policy import FollowedGate, read_policy

PAGE = Path(__file__).parent / "gate.md"
SPREAD, ACCURACY, ERROR, MARGIN = 2.2, 0.65, 0.05, 0.05
LONGEST = 2_000
EFFECTS = (0.05, 0.08, 0.10, 0.15)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(101)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def ability(share: float) -> float:
    return float(brentq(lambda a: float(WEIGHTS @ expit(a + SPREAD * NODES)) - share, -9, 9))


def differences(truth: float, simulations: int, questions: int, generator: np.random.Generator) -> np.ndarray:
    """(simulations, questions): right less right, -1, 0 or 1, of agents that differ by `truth`."""
    difficulty = generator.normal(0, SPREAD, (simulations, questions))
    shape = (simulations, questions)
    right = [generator.random(shape) < expit(ability(share) + difficulty) for share in (ACCURACY, ACCURACY + truth)]
    return right[1].astype(np.int8) - right[0]


def crossed(found: np.ndarray, up: bool, error: float, margin: float = MARGIN) -> np.ndarray:
    """(simulations,): after how many questions it is shown that the mean is above (or below) -margin; inf: never."""
    limit = (1 - margin) / 2 if up else (1 + margin) / 2
    levels = np.unique(found)
    shares = (1 + levels) / 2 if up else (1 - levels) / 2
    counts = np.stack([np.cumsum(found == one, axis=1) for one in levels], axis=-1).astype(float)
    reached = log_mean_exp(counts @ bets_on(shares, limit)) >= reach(error)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)


def verdicts(truths, simulations, generator, supporting=(), longest=LONGEST):
    """(GO at, NO-GO at) of a gate with a critical rule for each of these true differences, one look a question."""
    rules = [*truths, *supporting]
    go, no = [], []
    for start in range(0, simulations, 50):
        many = min(50, simulations - start)
        made = [differences(truth, many, longest, generator) for truth in rules]
        holds = [crossed(one, True, ERROR) for one in made[: len(truths)]]
        fails = [crossed(one, False, ERROR / len(rules)) for one in made]
        go.append(np.max(holds, axis=0))
        others = np.sort(np.array(fails[len(truths) :]), axis=0)
        more = others[len(supporting) // 2] if supporting else np.full(many, np.inf)
        no.append(np.minimum(np.min(fails[: len(truths)], axis=0), more))
    return np.concatenate(go), np.concatenate(no)


def as_the_gate_does(simulations: int, generator: np.random.Generator) -> int:
    """How many of these simulations the gate itself ends at the same question as the arrays do."""
    text = '[runs]\nnew = "a"\nold = "b"\n[critical]\nx = "accuracy(new) - accuracy(old) > -5%"\n'
    alike = 0
    for truth in (-MARGIN, 0.05) * (simulations // 2):
        made = differences(truth, 1, 300, generator)
        ends = min(float(crossed(made, up, ERROR)[0]) for up in (True, False))
        gate = FollowedGate(read_policy(text, "p"), {"new": "new", "old": "old"})
        for place, one in enumerate(made[0]):
            question = Question(id=str(place), benchmark="d", text="", options={}, kind="choice")
            gate.add(QuestionRound(((question,),)), lambda _, run, __, one=one: max(0, one if run == "new" else -one))
            if gate.verdict != "UNDECIDED":
                break
        alike += (gate.questions if gate.verdict != "UNDECIDED" else math.inf) == ends
    return alike


def fixed(effect: float, simulations: int, generator: np.random.Generator) -> tuple[int, float]:
    """Questions of the one-sided paired z test with 80 % power for a truth this far beyond the margin, and its power in
    simulation: looked at once."""
    probe = differences(effect - MARGIN, 1, 400_000, generator)
    size = math.ceil(((1.6449 + 0.8416) / effect) ** 2 * float(probe.var()))
    found = differences(effect - MARGIN, simulations, size, generator)
    z = (found.mean(axis=1) + MARGIN) / (found.std(axis=1, ddof=1) / math.sqrt(size))
    return size, float((z > 1.6449).mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--simulations", type=int, default=2_000)
    options.add_argument("--write", action="store_true", help="write perf/gate.md")
    given = options.parse_args()
    start, many = time.process_time(), given.simulations
    generator = np.random.default_rng(0)
    lines = [f"The gate itself ends where the arrays do: {as_the_gate_does(100, generator)} of 100 simulations.", ""]
    lines += [
        "| what is true of the critical rules (margin -5 points) | wrong verdict | wrong, of 100 |",
        "|---|---|---:|",
    ]
    at, well = -MARGIN, 0.10
    worst = 0.0
    for said, truths, supporting, wrong in (
        ("one rule, at its limit", [at], [], "GO"),
        ("one rule, at its limit", [at], [], "NO-GO"),
        ("three rules, one at its limit, two hold", [at, well, well], [], "GO"),
        ("three rules, all at their limits", [at] * 3, [], "GO"),
        ("three rules, all at their limits", [at] * 3, [], "NO-GO"),
        ("three rules and three supporting, all at their limits", [at] * 3, [at] * 3, "NO-GO"),
        ("one rule fails by 3 points", [at - 0.03], [], "GO"),
        ("one rule holds by 3 points", [at + 0.03], [], "NO-GO"),
    ):
        go, no = verdicts(truths, many, generator, supporting)
        share = float(((go < no) if wrong == "GO" else (no < go)).mean())
        worst = max(worst, share)
        lines.append(f"| {said} | {wrong} | {100 * share:.2f} |")
        print(lines[-1], flush=True)
    lines += [
        "",
        f"Each of {many:,} simulations, {LONGEST:,} questions long, with a look after every one.",
        "",
        "| beyond the margin by | fixed design: questions | its power | gate: median questions | 90th percentile | "
        "GO within the fixed design's questions | GO at last |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for effect in EFFECTS:
        size, power = fixed(effect, many, generator)
        go, no = verdicts([effect - MARGIN], many, generator, longest=4 * size)
        ends = np.minimum(np.minimum(go, no), 4 * size)
        lines.append(
            f"| {100 * effect:.0f} points | {size:,} | {100 * power:.1f} % | {np.median(ends):,.0f} | "
            f"{np.quantile(ends, 0.9):,.0f} | {100 * (go <= size).mean():.1f} % | {100 * (go < no).mean():.1f} % |"
        )
        print(lines[-1], flush=True)
    took = time.process_time() - start
    page = [
        "# The release gate, simulated",
        "",
        f"`python perf/gate.py --simulations {many} --write`, {datetime.now(UTC):%Y-%m-%d}, {took:.0f} s of processor "
        "time. What is simulated is said at the head of the file.",
        "",
        *lines,
        "",
        "The gate is followed to four times the fixed design's questions. The fixed design is looked at once, at its "
        "end; the gate after every question.",
    ]
    if given.write:
        PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")
    print("\n".join(page))
    assert worst <= 0.05


if __name__ == "__main__":
    main()
