"""Processor seconds and memory of a run's frames, by its number of attempts: ten times the attempts, ten times as long.

    python perf/frames.py [--attempts N ...]

The store is made up: an attempt of one call, with an answer of 700 characters.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import ragrounds as rr
from ragrounds.base.records import Attempt, Call, Called, Entered, Gold, Left, Question, Run, Usage
from ragrounds.evals.store.store import Store

_PART = 5000


def stage(home: Path, count: int) -> None:
    """A store with a run of so many attempts."""
    questions = [
        Question(id=f"q{n}", benchmark="b", text=f"number {n}?" + " x" * 100, kind="long") for n in range(count)
    ]
    golds = {one.id: Gold(question_id=one.id, answer="A") for one in questions}
    run = Run(
        id="r",
        agent="a",
        benchmark="b",
        questions="s",
        count=count,
        epochs=1,
        fingerprint="f",
        identity={},
        created=1.0,
    )
    with Store(home) as store:
        store.add_run(run, questions, golds)
        for start in range(0, count, _PART):
            store.add_attempts(run, [attempt(one, start + n) for n, one in enumerate(questions[start : start + _PART])])


def attempt(question: Question, number: int) -> Attempt:
    """An attempt with one call."""
    call = Call(
        key=f"{number:032x}", kind="model", role="answering", node="n", actor="m", at=1.0, seconds=1.0,
        usage=Usage(100, 20),
    )  # fmt: skip
    events = (Entered(step=0, node="n", at=1.0), Called(step=0, call=call), Left(step=0, seconds=1.0))
    return Attempt(
        run="r", question_id=question.id, epoch=0, status="completed", text="y" * 700, usage=Usage(100, 20),
        cost_paid=0.001, cost_uncached=0.001, seconds=1.0, at=1e9, model_calls=1, events=events,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, nargs="*", default=[10_000, 100_000])
    found = {}
    for count in parser.parse_args().attempts:
        with tempfile.TemporaryDirectory() as folder:
            stage(Path(folder), count)
            run = rr.load("r", home=folder)
            for frame in ("attempts", "calls", "runs"):
                before = time.process_time()
                rows = len(run.to_pandas(frame))
                name = f"{count:,} attempts: to_pandas({frame!r}), {rows:,} rows"
                found[name] = round(time.process_time() - before, 2)
    found["peak memory, MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
