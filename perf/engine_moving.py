"""Memory and time of `export store`, `import store` and `runs gc`, at a size and at a hundred times that size.

python perf/engine_moving.py --attempts 1000 100000
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ragrounds.contracts import Request
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import attempt_rows, blob_rows, pack, score_rows
from ragrounds.evals.store.journal import attempt_payer
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Call, Called, Entered, Gold, Left, Message, Question, Reply, Run, Score, Usage

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, nargs="+", default=[1000, 100_000])
    options = parser.parse_args()
    found = {}
    for count in options.attempts:
        with tempfile.TemporaryDirectory(prefix="ragrounds-moving-") as folder:
            found[count] = measure(Path(folder), count)
    print(json.dumps(found, indent=2))


def measure(folder: Path, count: int) -> dict[str, Any]:
    """Each command in a process of its own."""
    fill(folder / "one", count)
    file = folder / "runs.ragrounds"
    measured = {
        "export": command(folder / "one", "export", "store", "--out", str(file)),
        "import": command(folder / "two", "import", "store", str(file)),
        "import again": command(folder / "two", "import", "store", str(file)),
    }
    command(folder / "two", "runs", "rm", "direct")
    measured["gc"] = command(folder / "two", "runs", "gc", "--older-than", "0", "--yes")
    sizes = {"store": (folder / "one" / "store.sqlite").stat().st_size, "file": file.stat().st_size}
    left = (folder / "two" / "store.sqlite").stat().st_size
    return {**measured, "megabytes": {name: round(size / 1e6, 1) for name, size in sizes.items()}, "left": left}


def command(home: Path, *words: str) -> dict[str, float]:
    """Peak memory and processor time of a command."""
    code = (
        "import json, resource, sys\nfrom ragrounds.cli import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        # Not ru_maxrss: that counts what the process was forked from, too.
        "peak = int(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0]) / 1024\n"
        "print(json.dumps([peak, used.ru_utime + used.ru_stime]), file=sys.stderr)\n"
    )
    environment = {**os.environ, "RAGROUNDS_HOME": str(home), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    memory, seconds = json.loads(done.stderr.splitlines()[-1])
    return {"peak MB": round(memory, 1), "processor s": round(seconds, 2)}


def fill(home: Path, count: int) -> None:
    """A store with one run: a call an attempt, prompts of 2 kB, replies of 700 letters, none alike."""
    questions = [Question(id=f"q/{i:06d}", benchmark="q", text=f"Question {i}?", kind="long") for i in range(count)]
    golds = {question.id: Gold(question_id=question.id, answer="x") for question in questions}
    run = Run(
        id="direct-000000", agent="direct", benchmark="q", questions="f" * 64, count=count, epochs=1,
        fingerprint="e" * 64, identity={}, created=1.0,
    )  # fmt: skip
    with Store(home) as store:
        store.add_run(run, questions, golds)
        number, rows = store.number(run), []
        for row in every_row(run, questions, number):
            rows.append(row)
            if len(rows) >= 5000:
                store._write(rows)
                rows = []
        store._write(rows)


def every_row(run: Run, questions: list[Question], number: int) -> Iterator[Any]:
    for i, question in enumerate(questions):
        draw, key = random.Random(i), f"{i:064x}"
        prompt, said = draw.randbytes(1000).hex(), draw.randbytes(350).hex()
        request = Request(messages=(Message("user", prompt),))
        reply = Reply(text=said, usage=Usage(500, 150))
        (asked, apart), (answer, more) = pack(request), pack(reply)
        yield from blob_rows(apart | more)
        row = {"key": bytes.fromhex(key), "kind": "model", "actor": "m", "at": 1.0, "seconds": 1.0}
        yield schema.calls, {**row, "request": asked, "response": answer, "payer": attempt_payer(run, question.id, 0)}
        call = Call(
            key=key, kind="model", role="answering", node="answer", actor="m", at=1.0, seconds=1.0, cost_uncached=0.1
        )
        events = (Entered(step=0, node="answer", at=1.0), Called(step=0, call=call), Left(step=0, seconds=1.0))
        attempt = Attempt(
            run=run.id, question_id=question.id, epoch=0, status="completed", text=said, usage=Usage(500, 150),
            cost_paid=0.1, cost_uncached=0.1, seconds=1.0, at=1.0, calls=1, events=events,
        )  # fmt: skip
        yield from attempt_rows(attempt, number)
        score = Score(question_id=question.id, epoch=0, scorer="facts", value=1.0, answer_status="answered")
        yield from score_rows([score], number)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
