"""Commands that are forked from a process which has loaded the libraries, and what is read of the stores they leave."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import json
import os
import queue
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 300.0
"""Seconds for one command."""


class Sprout:
    """A command that was forked from a seed."""

    def __init__(self, seed: Seed, pid: int, folder: Path, number: int) -> None:
        self._seed, self.pid = seed, pid
        self._out, self._err = folder / f".{number}.out", folder / f".{number}.err"

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.pid in self._seed.codes

    @property
    def code(self) -> int:
        """Its exit code; minus the signal that ended it."""
        return self._seed.codes[self.pid]

    def wait(self, seconds: float) -> None:
        """Wait until it is over."""
        end = time.monotonic() + seconds
        while not self.ended:
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise TimeoutError(f"a command took more than {seconds:g} seconds")
            time.sleep(0.02)

    @property
    def stdout(self) -> str:
        """What it printed."""
        return self._out.read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """What it said."""
        return self._err.read_text(encoding="utf-8", errors="replace")


class Seed:
    """A process of a row's environment that has loaded what all commands load, and is forked for each of them.

    Each command is a process of its own, with its own modules of the system, its own event loop, its own store; only
    loading the libraries, seconds of processor time a command, is done once.
    """

    def __init__(self, python: Path, variables: Mapping[str, str]) -> None:
        self.codes: dict[int, int] = {}
        self._numbers = itertools.count()
        self._begun: queue.Queue[int] = queue.Queue()
        self._process = subprocess.Popen(
            [python, str(Path(__file__))],
            cwd=ROOT,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._hear, daemon=True).start()

    def begun(self, command: Sequence[str | Path], folder: Path, variables: Mapping[str, str]) -> Sprout:
        """Begin a command: ``ragrounds …``, ``bare FILE PLACE QUESTION`` or ``facts HOME``."""
        number = next(self._numbers)
        told = {"command": [str(word) for word in command], "folder": str(folder), "variables": dict(variables)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told | {"number": number}) + "\n")
        self._process.stdin.flush()
        return Sprout(self, self._begun.get(timeout=LIMIT), folder, number)

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()  # nothing is in hand: every command was waited for
        self._process.wait()

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, pid, *code = line.split()
            if word == "begun":
                self._begun.put(int(pid))
            else:
                self.codes[int(pid)] = int(code[0])


def fork_commands() -> None:
    """What a seed does: load, then fork for every line of standard input."""
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        told = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _command_of(told)
        sys.stdout.write(f"begun {pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"ended {pid} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _command_of(told: dict[str, Any]) -> None:
    """Be the command; the process ends here."""
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["variables"])
    for stream, name in ((1, "out"), (2, "err")):
        file = os.open(f".{told['number']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    kind, *words = told["command"]
    code: object = 0
    try:
        if kind == "facts":
            sys.stdout.write(json.dumps(dataclasses.asdict(facts(Path(words[0])))))
        elif kind == "bare":
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
        else:
            sys.argv = [kind, *words]
            importlib.import_module("ragrounds.cli").main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
        code = 1
    with contextlib.suppress(Exception):
        for function in (sys.stdout.flush, sys.stderr.flush):
            function()
    os._exit(int(str(code or 0)))


LOADED = (
    "ragrounds.api.run",
    "ragrounds.cli.run",
    "ragrounds.evals.engine.opening",
    "langchain_openai",
    "langchain.agents",
    "langgraph.prebuilt",
    "llama_index.core",
    "llama_index.llms.openai",
)


@dataclasses.dataclass
class Facts:
    """What a store holds of its newest run, read in the environment of the row."""

    runs: int
    models: int
    """Calls of models in the journal."""
    statuses: dict[str, int]
    reasons: list[str]
    answers: dict[str, str]
    calls: list[int]
    """Of each attempt."""
    unrecorded: int
    cost: float | None
    """Dollars paid; ``None``: unknown."""
    searches: int
    passages: int


def facts(home: Path) -> Facts:
    """Read a store."""
    from collections import Counter

    import msgspec
    import sqlalchemy as sa

    from ragrounds.base.records import Called
    from ragrounds.evals.store import journal, schema
    from ragrounds.evals.store.store import Store

    with Store(home) as store:
        runs = store.runs()
        attempts = [attempt for run in runs[-1:] for attempt in store.attempts(run)]
        with store.engine.connect() as connection:
            kinds = {
                key.hex(): kind for key, kind in connection.execute(sa.select(schema.calls.c.key, schema.calls.c.kind))
            }
    # What a killed process had received and not yet committed lies beside the store; the next one takes it from there.
    for file in (home / "arrivals").rglob("*@*"):
        for arrived in journal._read(file):
            found = "passages" in msgspec.msgpack.decode(arrived.response)
            kinds.setdefault(arrived.key, "search" if found else "model")
    events = [event.call for attempt in attempts for event in attempt.events if isinstance(event, Called)]
    searches = [call for call in events if call.kind == "search"]
    costs = [attempt.cost_paid for attempt in attempts]
    return Facts(
        runs=len(runs),
        models=sum(kind == "model" for kind in kinds.values()),
        statuses=dict(Counter(attempt.status for attempt in attempts)),
        reasons=sorted({attempt.reason[:200] for attempt in attempts if attempt.reason})[:3],
        answers={attempt.question_id: attempt.text for attempt in attempts},
        calls=[one.model_calls + one.searches + one.tool_calls for one in attempts],
        unrecorded=sum(attempt.unrecorded for attempt in attempts),
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        searches=len(searches),
        passages=sum(len(call.passages) for call in searches),
    )


if __name__ == "__main__":
    fork_commands()
