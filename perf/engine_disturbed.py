"""Runs that are killed, asked to end, stopped, or lose their database, beside one that nobody disturbs.

One table: `kill -9`, SIGTERM, SIGSTOP of one of three workers, and restarts of PostgreSQL, each at moments drawn at
random. Results have to be equal to those of the undisturbed run, and the server, which counts each distinct request,
may have answered only those twice that were in flight at that moment: none that the journal held.

    python perf/engine_disturbed.py

Needs PostgreSQL's server programs; the cluster is the script's own, in a temporary folder.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine_kill import PRICE, ROOT, recorded, results, write_benchmark

from tests.servers.postgresql import Restartable, binaries, restartable
from tests.servers.process import openai_server

AGENTS = ("direct", "direct_cot")
FAULTS = ("--faults", "0.04", "--mix", "429-retry-after=2,500=1,cut=1")
WORKER_TIMEOUT = "3"
"""Seconds after which a silent worker is ended here; 20 by default."""


@dataclass
class Row:
    """What came of one kind of disturbance."""

    name: str
    disturbed: int = 0
    attempts: int = 0
    equal: bool = True
    answers: int = 0
    distinct: int = 0
    repeated: int = 0
    repeated_journaled: int = 0
    said: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Command:
    """One home, one command, as often as it takes."""

    def __init__(self, options: argparse.Namespace, folder: Path, benchmark: Path, server: str, **more: Any) -> None:
        folder.mkdir()
        self.home, self.log, self.url = folder / "home", folder / "answers.log", more.get("url")
        words = ["run", "--benchmark", f"mirage:{benchmark}", "--display", "none", "--yes", "--base-url", server]
        words += [word for agent in AGENTS for word in ("--agent", agent)]
        words += ["--model", f"openai:plain[alias=server,tries=12,{PRICE}]", "--concurrency", str(options.concurrency)]
        self.command = [sys.executable, "-m", "ragrounds", *words, *more.get("words", ())]
        self.environment = {**os.environ, "RAGROUNDS_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        self.environment |= {"RAGROUNDS_WORKER_TIMEOUT": WORKER_TIMEOUT}
        if self.url:
            self.environment["RAGROUNDS_STORE"] = self.url
        self.held: list[tuple[set[str], int]] = []
        """At each disturbance: what the journal held, and how many answers the server had given."""

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home.parent,
        )

    def until(self, answers: int, process: subprocess.Popen[str], draw: random.Random) -> None:
        """Wait until the server has answered so often, and a moment longer."""
        while self.answers() < answers and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is not None:
            raise SystemExit(f"the run ended before its time with {process.returncode}:\n{process.communicate()[1]}")
        time.sleep(draw.random() * 0.2)

    def answers(self) -> int:
        """What the server has answered, by its log of digests of 16 letters."""
        return self.log.stat().st_size // 17 if self.log.exists() else 0

    def note(self) -> None:
        """Note what the journal holds now."""
        self.held.append((recorded(self.home, self.url), self.answers()))

    def finish(self, process: subprocess.Popen[str]) -> str:
        _, told = process.communicate(timeout=240)
        if process.returncode != 0:
            raise SystemExit(f"the run ended with {process.returncode}:\n{told}")
        return told

    def read(self, row: Row, undisturbed: dict[str, Any] | None) -> dict[str, Any]:
        """Add what came of it to a row."""
        found, log = results(self.home, self.url), self.log.read_text().split()
        counts = Counter(log)
        row.attempts += len(found["attempts"])
        row.answers += len(log)
        row.distinct += len(counts)
        row.repeated += sum(count - 1 for count in counts.values())
        row.repeated_journaled += sum(len(held & set(log[answers:])) for held, answers in self.held)
        if undisturbed is not None:
            row.equal &= all(found[key] == undisturbed[key] for key in ("attempts", "calls"))
            row.equal &= abs(found["cost_paid"] - undisturbed["cost_paid"]) < 1e-9
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=15)
    parser.add_argument("--latency", type=float, default=0.15, help="seconds of an answer, and as many more at random")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--terminations", type=int, default=10)
    parser.add_argument("--stops", type=int, default=5)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    programs = binaries()
    if programs is None:
        raise SystemExit("needs PostgreSQL's server programs (Debian: postgresql)")
    with tempfile.TemporaryDirectory(prefix="ragrounds-disturbed-") as name, restartable(programs) as database:
        rows = measure(options, Path(name), database)
    print(table(rows, options))
    if not all(row.equal and not row.repeated_journaled for row in rows):
        sys.exit(1)


def measure(options: argparse.Namespace, folder: Path, database: Restartable) -> list[Row]:
    """A row for each kind of disturbance."""
    folder.chmod(0o755)
    benchmark = write_benchmark(folder, options.questions)
    draw = random.Random(options.seed)
    rows: list[Row] = []
    undisturbed: dict[str, Any] | None = None

    def carry_out(
        name: str, times: int, disturb: Callable[[Command, Row, int], None], runs: int = 1, **more: Any
    ) -> None:
        nonlocal undisturbed
        row, started = Row(name), time.monotonic()
        for number in range(runs):
            place = folder / f"{len(rows)}-{number}"
            words = ["--latency", str(options.latency), "--jitter", str(options.latency), "--seed", str(number)]
            with openai_server(*words, *FAULTS, "--log", str(folder / f"{place.name}.log")) as server:
                command = Command(options, place, benchmark, server.url, **more)
                command.log = folder / f"{place.name}.log"
                disturb(command, row, times)
                found = command.read(row, undisturbed)
        undisturbed = undisturbed or found
        row.seconds = time.monotonic() - started
        rows.append(row)
        print(row, file=sys.stderr, flush=True)

    def goals(times: int) -> list[int]:
        expected = options.questions * len(AGENTS)
        return sorted(draw.randrange(20, int(expected * 0.95)) for _ in range(times))

    def nothing(command: Command, row: Row, times: int) -> None:
        command.finish(command.start())

    def signalled(how: signal.Signals) -> Callable[[Command, Row, int], None]:
        def disturb(command: Command, row: Row, times: int) -> None:
            for goal in goals(times):
                process = command.start()
                command.until(goal, process, draw)
                process.send_signal(how)
                process.communicate(timeout=60)
                row.disturbed += process.returncode in (-how, 128 + how)
                time.sleep(2 * options.latency + 0.2)  # what the server still had in hand
                command.note()
            command.finish(command.start())

        return disturb

    def stopped(command: Command, row: Row, times: int) -> None:
        [goal] = goals(1)
        process = command.start()
        command.until(min(goal, options.questions), process, draw)
        worker = draw.choice(workers(process.pid))
        os.kill(worker, signal.SIGSTOP)
        command.note()
        told = command.finish(process)
        row.disturbed += f"(process {worker}, which is stopped) and was ended" in told

    def restarted(command: Command, row: Row, times: int) -> None:
        process = command.start()
        for number, goal in enumerate(goals(times)):
            command.until(goal, process, draw)
            command.note()
            database.stop("fast" if number % 2 else "immediate")
            time.sleep(draw.random())
            database.start()
            row.disturbed += 1
        command.finish(process)

    carry_out("undisturbed", 0, nothing)
    carry_out("kill -9", options.kills, signalled(signal.SIGKILL))
    carry_out("SIGTERM", options.terminations, signalled(signal.SIGTERM))
    carry_out("SIGSTOP of one of three workers", 1, stopped, runs=options.stops, words=["--workers", "3"])
    carry_out("PostgreSQL restarted", options.restarts, restarted, url=database.url)
    return rows


def workers(leader: int) -> list[int]:
    """The process ids of a command's workers."""
    children = [
        int(pid)
        for thread in Path(f"/proc/{leader}/task").iterdir()
        for pid in (thread / "children").read_text().split()
    ]
    return [pid for pid in children if b"extensions.cluster" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def table(rows: list[Row], options: argparse.Namespace) -> str:
    """The table in Markdown."""
    what = f"{options.questions} questions × {len(AGENTS)} agents, {options.concurrency} attempts in flight"
    slow = f"answers after {options.latency:g} to {2 * options.latency:g} s, 4 % of the requests meet a fault"
    heads = ["", "times", "attempts", "equal to the undisturbed run", "answers of the server", "distinct requests"]
    heads += ["answered again", "of these in the journal", "seconds"]
    lines = [f"{datetime.date.today()}, load {os.getloadavg()[1]:.1f}: {what}, {slow}.", ""]
    lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        same = "-" if row.name == "undisturbed" else "yes" if row.equal else "**no**"
        lines.append(
            f"| {row.name} | {row.disturbed or '-'} | {row.attempts:,} | {same} | {row.answers:,} | {row.distinct:,} | "
            f"{row.repeated} | {row.repeated_journaled} | {row.seconds:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
