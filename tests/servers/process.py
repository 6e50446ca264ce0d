"""Starting a test server in a process of its own, and stopping that process by its id."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.forked import ForkedPython, can_fork_at_once

ROOT = Path(__file__).resolve().parents[2]
ENDS_WITH_PARENT = "import ctypes, sys\nif sys.platform == 'linux': ctypes.CDLL(None).prctl(1, {signal})\n"
"""Python code. The kernel sends this process a signal when the thread that started it ends, however that comes."""


class Account(NamedTuple):
    """What a server was paid for: replies, and the tokens that they named."""

    calls: int
    input: int
    output: int

    def __sub__(self, before: Account) -> Account:
        return Account(*(now - then for now, then in zip(self, before, strict=True)))

    def dollars(self, given: float = 1000.0, written: float = 2000.0) -> float:
        """At prices per million tokens."""
        return (self.input * given + self.output * written) / 1e6


class Running:
    """A server that runs."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            stats: dict[str, Any] = json.load(answer)
            return stats

    def account(self) -> Account:
        """What it was paid for until now."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/account", timeout=10) as answer:
            return Account(**json.load(answer))

    def kills(self, command: Sequence[str], environment: Mapping[str, str], after: int) -> None:
        """Begin a command, and end it with SIGKILL once this server has given so many answers more."""
        before = self.stats()["answered"]
        begun = ForkedPython(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.stats()["answered"] < before + after:
            assert begun.poll() is None
            time.sleep(0.02)
        begun.kill()
        begun.wait()


def openai_server(*arguments: str) -> contextlib.AbstractContextManager[Running]:
    """Run `tests.servers.openai_server` with these arguments until the block ends."""
    return running("openai_server", *arguments)


def alive(pid: int) -> bool:
    """Return whether a process exists that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def gone(*pids: int) -> bool:
    """Return whether all these processes have ended, at the latest in some seconds."""
    until = time.monotonic() + 15
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(alive, pids))


@contextlib.contextmanager
def running(name: str, *arguments: str) -> Iterator[Running]:
    """Run a server, which prints its port, with these arguments until the block ends.

    Args:
        name: A module of `tests.servers`, or the name of a module in `tests` with dots.
        arguments: Words of its command line.
    """
    module = f"tests.{name}" if "." in name else f"tests.servers.{name}"
    code = f"{ENDS_WITH_PARENT.format(signal=9)}import runpy; runpy.run_module('{module}', None, '__main__')"
    start = ForkedPython if can_fork_at_once() else subprocess.Popen
    process = start([sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.strip():
            raise RuntimeError(f"the test server did not start (exit code {process.wait(10)})")
        yield Running(process, int(line))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
