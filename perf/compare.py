"""`rr.compare` and the report of many runs: seconds, memory, and how both grow with the number of runs.

    python perf/compare.py [HOME] [RUNS,…] > perf/compare.md

HOME is a folder for the stores (by default a temporary one). Runs are made up, written by the store's own writer: 200
questions of four datasets, each answered by a writer of its own accuracy and price. Every measurement is one process.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

QUESTIONS, DATASETS = 200, 4
JOBS = {
    "compare --baseline": "rr.compare(rr.runs(), baseline=rr.runs().ids[0])",
    "report --baseline": "rr.report(rr.runs(), HOME / 'report.html', baseline=rr.runs().ids[0], force=True)",
    "report --baseline --no-attempts": (
        "rr.report(rr.runs(), HOME / 'short.html', baseline=rr.runs().ids[0], attempts=False, force=True)"
    ),
}


def stage(home: Path, count: int) -> None:
    """A store of `count` runs."""
    from ragrounds.base.records import Attempt, Gold, Question, Run, Usage
    from ragrounds.evals.scorers import score_by, scorers_for
    from ragrounds.evals.store.store import Store

    draw = np.random.default_rng(0)
    questions = [
        Question(
            id=f"set{n % DATASETS}/{n}",
            benchmark=f"set{n % DATASETS}",
            text=f"Which of these is number {n}?",
            kind="choice",
            options={letter: f"{letter} of {n}" for letter in "ABCD"},
        )
        for n in range(QUESTIONS)
    ]
    golds = {one.id: Gold(question_id=one.id, answer="ABCD"[n % 4]) for n, one in enumerate(questions)}
    scorers = scorers_for(questions[0])
    hard = draw.random(QUESTIONS)
    with Store(home) as store:
        for number in range(count):
            agent = f"vanilla_rag[top_k={number + 1}]"
            run = Run(
                id=f"vanilla_rag-{number:03}",
                agent=agent,
                benchmark="made/up",
                questions="the same",
                count=QUESTIONS,
                epochs=1,
                fingerprint=f"{number:064x}",
                identity={"models": {"model": "openai:made-up"}},
                created=float(number),
            )
            store.add_run(run, questions, golds)
            right = draw.random(QUESTIONS) + 0.3 * (number / count) > 0.2 + 0.6 * hard
            attempts = [
                Attempt(
                    run=run.id,
                    question_id=one.id,
                    epoch=0,
                    status="completed",
                    text=json.dumps({"answer_choice": golds[one.id].answer if right[n] else "ABCD"[(n + 1) % 4]}),
                    usage=Usage(100 + number, 20),
                    cost_paid=1e-5 * (100 + number),
                    cost_uncached=1e-5 * (100 + number),
                    seconds=1.0,
                    model_calls=1,
                )
                for n, one in enumerate(questions)
            ]
            scores = [
                score_by(scorer, attempt, one, golds[one.id])
                for one, attempt in zip(questions, attempts, strict=True)
                for scorer in scorers
            ]
            store.add_attempts(run, attempts, scores)


def measure(home: Path, job: str) -> dict[str, float]:
    """Wall seconds, processor seconds and megabytes of a job in a process of its own."""
    code = f"import ragrounds as rr; from pathlib import Path; HOME = Path({str(home)!r}); {job}"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "RAGROUNDS_HOME": str(home)}, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{job}: exit status {status}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - start,
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


def main() -> None:
    """Measure, and print the page."""
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    counts = [int(one) for one in (sys.argv[2] if len(sys.argv) > 2 else "20,100,200").split(",")]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in JOBS}
    for count in counts:
        folder = home / str(count)
        if not folder.exists():
            stage(folder, count)
        for name, job in JOBS.items():
            found[name].append(measure(folder, job))
            print(name, count, found[name][-1], file=sys.stderr, flush=True)
    print(f"# Many runs against each other\n\n`python perf/compare.py`, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, on "
          f"two shared cores under load: made-up runs of {QUESTIONS} questions of {DATASETS} datasets.\n")  # fmt: skip
    print("| | " + " | ".join(f"{count} runs" for count in counts) + f" | slope from {counts[0]} to {counts[-1]} |")
    print("|---" * (len(counts) + 2) + "|")
    for name, values in found.items():
        cells = [f"{one['processor']:.1f} s ({one['seconds']:.1f} s wall, {one['megabytes']:.0f} MB)" for one in values]
        slope = (values[-1]["processor"] - values[0]["processor"]) / (counts[-1] - counts[0])
        print(f"| `{name}` | {' | '.join(cells)} | {1000 * slope:.0f} ms a run |")


if __name__ == "__main__":
    main()
