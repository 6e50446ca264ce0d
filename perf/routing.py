"""Is routing called a gain where there is none, and found where there is one? Simulated agents of known chances.

    python perf/routing.py [--repetitions 1000] [--write] [--only 0 1 2]

*alike*: agents of the same chance to be right whatever the question: no policy can gain or lose. *skilled*: two agents,
one right in 85 of 100 questions of one kind and 45 of the other, the other one the other way round, and a feature
that says the kind in 9 of 10 questions: the best policy on that feature gains (.85 − .45) × (.9 − .5) = 16 points.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)
from ragrounds.base.records import Question  # noqa: E402
from ragrounds.evals.analyses.analysis import AnalysisOptions  # noqa: E402
from ragrounds.extensions.routing.analyses.routing import Routing, RoutingData, routed  # noqa: E402
from ragrounds.extensions.routing.policies import Outcomes  # noqa: E402

PAGE = ROOT / "perf" / "routing.md"
TRUE_GAIN = 0.16
SETTINGS = (
    ("three alike, 500 questions", 500, 3, 8),
    ("five alike, 500 questions", 500, 5, 8),
    ("five alike, 100 questions, 20 features of noise", 100, 5, 20),
    ("two skilled, 500 questions: 16 points are true", 500, 0, 8),
)
"""Name, number of questions, of agents that are alike (0: two that are skilled), and of features that say nothing."""


def made(seed: int, setting: int) -> Routing:
    """One repetition."""
    _, count, alike, features = SETTINGS[setting]
    generator = np.random.default_rng(seed)
    kind = generator.random(count) < 0.5
    if alike:
        chances = np.full((count, alike), 0.65)
    else:
        chances = np.stack([np.where(kind, 0.85, 0.45), np.where(kind, 0.45, 0.85)], axis=1)
    seen = np.where(generator.random(count) < 0.9, kind, ~kind).astype(float)
    noise = generator.normal(size=(count, features))
    scores = (generator.random((*chances.shape, 1)) < chances[:, :, None]).astype(float)
    names = [f"q{place}" for place in range(count)]
    outcomes = Outcomes(
        scores=scores,
        costs=np.tile(np.arange(1.0, chances.shape[1] + 1), (count, 1)),
        prior_features=np.column_stack([seen, noise]),
        seen=generator.normal(size=(count, 4)),
        texts=("",) * count,
        clusters=tuple(names),
        strata=("b",) * count,
    )
    questions = [Question(id=name, benchmark="b", text=name, options={"A": "a", "B": "b"}) for name in names]
    agents = [f"agent {place}" for place in range(chances.shape[1])]
    data = RoutingData(outcomes=outcomes, arms=tuple(agents), questions=questions, measure="cost_uncached")
    return routed(data, AnalysisOptions(scorer="robust", seed=seed))


def repetition(task: tuple[int, int]) -> tuple[bool, bool, bool, bool, float, float, float]:
    """Whether a gain was called, by the control too, the router called worse, its interval covers the truth; gains."""
    found = made(*task)
    gain, control = found.router.gain, found.control.gain
    truth = 0.0 if SETTINGS[task[1]][2] else TRUE_GAIN
    covers = gain.low is not None and gain.high is not None and gain.low <= truth <= gain.high
    called = bool(found.gains), (control.low or 0.0) > 0, (gain.high or 0.0) < 0
    return (*called, covers, gain.difference or 0.0, control.difference or 0.0, found.oracle.gain.difference or 0.0)


def main() -> None:
    """Repeat both, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--only", type=int, nargs="*", default=range(len(SETTINGS)), help="places in SETTINGS")
    parser.add_argument("--write", action="store_true", help="write perf/routing.md")
    options = parser.parse_args()
    lines = [
        "# Routing where the truth is known",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}. `python perf/routing.py --repetitions {options.repetitions} --write`: "
        "one epoch.",
        "",
        "| agents | a gain is called | by the control | the router is called worse | its interval covers the truth | "
        "its gain, mean | the control's | the oracle's |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    began = time.monotonic()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for setting in options.only:
            tasks = [(seed, setting) for seed in range(options.repetitions)]
            rows = np.array(list(pool.map(repetition, tasks, chunksize=10)))
            means = rows.mean(axis=0)
            shares = " | ".join(f"{100 * share:.1f} %" for share in means[:4])
            lines.append(
                f"| {SETTINGS[setting][0]} | {shares} | "
                + " | ".join(f"{100 * gain:+.1f}" for gain in means[4:])
                + " |"
            )
    picked = "Policies are compared with the agent that is best on the other folds."
    lines += ["", f"{time.monotonic() - began:.0f} s. The oracle of one epoch takes luck for skill. {picked}", ""]
    text = "\n".join(lines)
    sys.stdout.write(text)
    if options.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
