"""Finding what is done among 10,000 attempts: processor time of what a run asks the store before its first question.

    python perf/engine_resume.py [--questions N]
    python perf/engine_resume.py --whole [--questions 20000]

`--whole` makes a run of `direct` and `direct_cot` against a loopback server, gives the same command again, and compares
the two runs: processor seconds of each process, medians of three, beside those of a fixed piece of work in the same
run, for other work on the machine makes all of them longer. Bytecode is kept, as it is of an installed package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from perf.engine_peers import measured, server
from ragrounds.evals.engine.replayed_runs import ReplayedRuns
from ragrounds.evals.engine.scheduler import WorkQueue, replay
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from tests.engine.conftest import planned
from tests.engine.doubles import ScriptedModel, questions


async def fill(store: Store, count: int) -> None:
    items, golds = questions(count)
    journal = StoreJournal(store, "reuse")
    await replay(
        ReplayedRuns(store, journal, [planned(store, "direct", items, golds)], scorers_for),
        items,
        golds,
        concurrency=64,
    )
    journal.close()


YARDSTICK = "import json; [json.loads(json.dumps({str(i): [i, i / 7] for i in range(1000)})) for _ in range(700)]"
"""About a second of processor time, by which two runs on a busy machine can be set beside each other."""


def whole(count: int, folder: Path) -> None:
    """Print what a finished run given again takes, and what does the same work or less."""
    file = folder / "cases.jsonl"
    with file.open("w") as out:
        for number in range(count):
            line = {
                "id": f"q{number}",
                "question": f"Case {number}. Which vitamin prevents scurvy in patient {number}?",
            }
            line |= {"options": {"A": "vitamin A", "B": "vitamin C"}, "answer": "AB"[number % 2]}
            out.write(json.dumps(line) + "\n")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    kept = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    kept["RAGROUNDS_HOME"] = str(folder / "home")
    ours = [sys.executable, "-m", "ragrounds"]
    with server(0.05, 0.05) as url:
        run = [*ours, "run", "--benchmark", f"jsonl:{file}", "--agent", "direct", "--agent", "direct_cot"]
        run += ["--model", "openai:perf[alias=perf]", "--base-url", url, "--display", "none", "--workers", "1"]
        run += ["--concurrency", "256"]
        first = measured(run, kept)
        print(f"{'made':28} {first.processor:7.2f} s", flush=True)
        commands = {
            "a fixed piece of work": [sys.executable, "-c", YARDSTICK],
            "given again": run,
            "given again, --json": [*run, "--json"],
            "compare": [*ours, "compare", "direct", "direct_cot"],
            "runs ls": [*ours, "runs", "ls"],
            "run --help": [*ours, "run", "--help"],
            "--help": [*ours, "--help"],
        }
        for name, command in commands.items():
            taken = [measured(command, kept) for _ in range(4)][1:]  # the first writes bytecode
            seconds = [one.processor for one in taken]
            print(f"{name:28} {statistics.median(seconds):7.2f} s  {[round(one, 2) for one in seconds]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--whole", action="store_true", help="a whole run, given again")
    given = parser.parse_args()
    count = given.questions
    if given.whole:
        with tempfile.TemporaryDirectory(prefix="ragrounds-again-") as folder:
            whole(count, Path(folder))
        return
    with tempfile.TemporaryDirectory(prefix="ragrounds-resume-") as home:
        with Store(Path(home)) as store:
            asyncio.run(fill(store, count))
        items, golds = questions(count)
        model = ScriptedModel()
        taken = []
        for _ in range(5):
            with Store(Path(home)) as store:
                one = planned(store, "direct", items, golds, model)
                runs = ReplayedRuns(store, StoreJournal(store), [one], scorers_for)
                begun = time.process_time()
                left = WorkQueue(runs, items, golds, [], lambda finished: None).take()
                taken.append(time.process_time() - begun)
                assert left is None
        assert not model.asked
    milliseconds = [round(seconds * 1000, 1) for seconds in taken]
    print(json.dumps({"questions": count, "processor_ms": milliseconds, "calls": len(model.asked)}))


if __name__ == "__main__":
    main()
