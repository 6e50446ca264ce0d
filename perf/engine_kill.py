"""`kill -9` at random moments of a large run on a faulty server: equal results, and nothing asked twice.

The client notes every complete response in a file at the moment it has been read, before anything else happens to it
(a write to a file survives the process). So for every call that the server answered twice it is known whether the
first answer had arrived when the process died, or was still on its way.

    python perf/engine_kill.py --questions 2000 --kills 20
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
AGENTS = ("direct", "direct_cot", "cot_refine", "vanilla_rag[top_k=4]")
MIX = "429-retry-after=5,500=2,cut=1,hang=1,malformed=1"
RATE = 0.10
"""Share of requests that meet a fault: the sum of MIX in percent."""
PRICE = "price_input=1.0,price_output=2.0"
"""Dollars per million tokens, so that what was spent can be compared."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--latency", type=float, default=0.15, help="seconds of an answer, and as many more at random")
    parser.add_argument("--timeout", type=float, default=4.0, help="ends a hanging call")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ragrounds-kill-") as folder:
        report = measure(options, Path(folder))
    print(json.dumps(report, indent=2))
    if not report["equal"] or report["answered_twice_after_commit"]:
        sys.exit(1)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Both runs, set against each other."""
    benchmark = write_benchmark(folder, options.questions)
    with server(folder / "killed.log", options) as url:
        killed = Runner(options, folder, "killed", benchmark, url)
        kills = kill_again_and_again(killed, options)
        started = time.monotonic()
        killed.finish()
        seconds_last = time.monotonic() - started
    with server(folder / "clean.log", options) as url:
        clean = Runner(options, folder, "clean", benchmark, url)
        clean.finish()
    one, other = results(folder / "killed"), results(folder / "clean")
    log, undisturbed = ((folder / f"{name}.log").read_text().split() for name in ("killed", "clean"))
    twice = {digest for digest, count in Counter(log).items() if count > 1}
    arrived: set[str] = set()
    used: set[str] = set()
    for death in killed.deaths:
        again = death.received & set(log[death.answers :])
        arrived |= again
        used |= again & death.committed
    return {
        "questions": options.questions,
        "strategies": len(AGENTS),
        "attempts": len(one["attempts"]),
        "concurrency": options.concurrency,
        "workers": options.workers,
        "kills": kills,
        "equal": one["attempts"] == other["attempts"],
        "statuses": dict(Counter(status for status, *_ in one["attempts"].values())),
        "cost_paid": [round(one["cost_paid"], 6), round(other["cost_paid"], 6)],
        "cost_uncached": [round(one["cost_uncached"], 6), round(other["cost_uncached"], 6)],
        "recorded_calls": [one["calls"], other["calls"]],
        "answers": [len(log), len(undisturbed)],
        "answered_twice": len(twice),
        "answered_twice_on_the_wire": len(twice - arrived),
        "answered_twice_arrived_not_committed": len(arrived - used),
        "answered_twice_after_commit": len(used),
        "seconds_after_the_last_kill": round(seconds_last, 1),
    }


class Death(NamedTuple):
    """How things stood when a process had been killed, and the server was done with what it had in hand."""

    received: set[str]
    """Complete responses that had arrived."""
    committed: set[str]
    """Of all, those in the journal."""
    answers: int
    """Answers that the server had given."""


class Runner:
    """One home, one command, as often as it takes."""

    def __init__(self, options: argparse.Namespace, folder: Path, name: str, benchmark: Path, url: str) -> None:
        self.home, self.log = folder / name, folder / f"{name}.log"
        self.received = folder / f"{name}.received"
        self.deaths: list[Death] = []
        self.settling = 2 * options.latency + 0.5
        words = ["run", "--benchmark", f"mirage:{benchmark}", "--corpus", "sample", "--display", "none", "--yes"]
        words += [word for agent in AGENTS for word in ("--agent", agent)]
        words += ["--model", f"openai:plain[alias=server,tries=12,{PRICE}]", "--base-url", url]
        words += ["--timeout", str(options.timeout), "--concurrency", str(options.concurrency)]
        words += ["--workers", str(options.workers)]
        self.command = [sys.executable, str(Path(__file__)), "--child", str(self.received), *words]
        self.environment = {**os.environ, "RAGROUNDS_HOME": str(self.home), "PYTHONPATH": str(ROOT)}

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.home.parent
        )

    def answers(self) -> int:
        """What the server has answered, by its log of digests of 16 letters."""
        return self.log.stat().st_size // 17 if self.log.exists() else 0

    def note_death(self) -> None:
        time.sleep(self.settling)
        received = set(self.received.read_text().split()) if self.received.exists() else set()
        self.deaths.append(Death(received, recorded(self.home), self.answers()))

    def finish(self) -> None:
        process = self.start()
        _, told = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"the run ended with {process.returncode}:\n{told.decode()}")


def kill_again_and_again(runner: Runner, options: argparse.Namespace) -> int:
    """Kill the run when the server has given so many answers, drawn at random, plus a moment drawn at random."""
    draw = random.Random(options.seed)
    expected = options.questions * len(AGENTS)  # CoT is shared, and refined in a call of its own
    goals = sorted(draw.randrange(20, int(expected * 0.97)) for _ in range(options.kills))
    kills = 0
    for goal in goals:
        process = runner.start()
        try:
            while runner.answers() < goal and process.poll() is None:
                time.sleep(0.005)
            time.sleep(draw.random() * 0.3)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        kills += process.returncode == -signal.SIGKILL
        runner.note_death()
    return kills


def child(received: Path, words: list[str]) -> None:
    """The command line, with a note of every complete response at the moment it is there."""
    from ragrounds.cli import main as command
    from ragrounds.models import transport

    file = os.open(received, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    post = transport.Transport.post

    async def noting(self: Any, path: str, body: Any, *more: Any) -> Any:
        answered = await post(self, path, body, *more)
        if answered.status == 200:
            with contextlib.suppress(ValueError):
                if "choices" in json.loads(answered.body):
                    os.write(file, f"{digest(body['messages'], body['model'])}\n".encode())
        return answered

    transport.Transport.post = noting  # type: ignore[method-assign]
    sys.argv = ["ragrounds", *words]
    command()


def digest(messages: Any, model: str) -> str:
    """As the test server names a request."""
    return hashlib.sha256(json.dumps([messages, model]).encode()).hexdigest()[:16]


def recorded(home: Path, url: str | None = None) -> set[str]:
    """Digests of the model calls that the journal holds, of the store at `url` or in the folder."""
    import sqlalchemy as sa

    from ragrounds.base.contracts import Request
    from ragrounds.evals.store import schema
    from ragrounds.evals.store.codec import unpack
    from ragrounds.evals.store.store import Store

    with Store(home, url) as store, store.engine.connect() as connection:
        rows = connection.execute(sa.select(schema.calls.c.request).where(schema.calls.c.kind == "model"))
        requests = [unpack(row.request, Request, store.texts) for row in rows]
    plain = ([{"role": m.role, "content": m.content} for m in request.messages] for request in requests)
    return {digest(messages, "plain") for messages in plain}


def results(home: Path, url: str | None = None) -> dict[str, Any]:
    """What a run came to: status, answer and scores of every attempt; the ledger's sums; calls."""
    import sqlalchemy as sa

    from ragrounds.evals.store import schema
    from ragrounds.evals.store.store import Store

    attempts: dict[str, Any] = {}
    cost_paid = cost_uncached = 0.0
    with Store(home, url) as store:
        for run in store.runs():
            scores: dict[str, list[Any]] = {}
            for score in store.scores(run):
                scores.setdefault(score.question_id, []).append((score.scorer, score.value, score.prediction))
            for attempt in store.attempts(run):
                id = attempt.question_id
                attempts[f"{run.agent} {id}"] = (attempt.status, attempt.text, sorted(scores[id]))
                cost_paid += attempt.cost_paid or 0.0
                cost_uncached += attempt.cost_uncached or 0.0
        with store.engine.connect() as connection:
            counted = sa.select(sa.func.count()).select_from(schema.calls).where(schema.calls.c.kind == "model")
            calls = connection.execute(counted).scalar_one()
    return {"attempts": attempts, "cost_paid": cost_paid, "cost_uncached": cost_uncached, "calls": calls}


def write_benchmark(folder: Path, count: int) -> Path:
    """So many questions about the built-in sample's kind of matter, each of its own."""
    organs = ("heart", "liver", "kidney", "lung", "spleen", "brain", "stomach", "skin", "eye", "bone")
    questions = {
        f"anatomy-{i:05d}": {
            "question": f"Patient {i} has a finding in the {organs[i % 10]}. Which of these fits best with it?",
            "options": {"A": f"finding {i}", "B": f"finding {i + 1}", "C": f"finding {i + 2}", "D": "none of them"},
            "answer": "ABCD"[i % 4],
        }
        for i in range(count)
    }
    path = folder / "benchmark.json"
    path.write_text(json.dumps({"mmlu": questions}), encoding="utf-8")
    return path


@contextlib.contextmanager
def server(log: Path, options: argparse.Namespace) -> Iterator[str]:
    """The faulty server, in a process of its own; gives its address."""
    from tests.servers.process import openai_server

    words = ["--latency", str(options.latency), "--jitter", str(options.latency), "--log", str(log)]
    words += ["--faults", str(RATE), "--mix", MIX, "--seed", str(options.seed)]
    with openai_server(*words) as running:
        yield running.url


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
