"""Commands at work: started, waited for until a server has been asked, interrupted, and beside themselves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.conftest import Cli
from tests.forked import ForkedLeader, ForkedPython
from tests.servers.process import Running

Start = Callable[..., "subprocess.Popen[str]"]
"""Starts a run of :func:`starting`: takes its server and further options."""


def questions_twice(folder: Path, count: int) -> Path:
    """A file of so many questions: each stands in it twice, one after the other, and so in flight together."""
    options = {"A": "one", "B": "two", "C": "three", "D": "four"}
    lines = [{"id": f"q{n}", "question": f"Case {n // 2}?", "options": options, "answer": "A"} for n in range(count)]
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@contextlib.contextmanager
def starting(questions: Path, folder: Path) -> Iterator[Start]:
    """Start runs of two agents on these questions, with their homes in a folder; the rest is ended at the end."""
    begun: list[subprocess.Popen[str]] = []

    def start(
        server: Running,
        *more: str,
        program: Sequence[str] = ("-m", "ragrounds"),
        home: str = "home",
        is_forked: bool = True,
    ) -> subprocess.Popen[str]:
        words = ["run", "--benchmark", f"jsonl:{questions}", "--agent", "direct", "--agent", "direct_cot"]
        words += ["--model", "openai:plain", "--base-url", server.url, "--display", "none", "--json", *more]
        environment = {**os.environ, "RAGROUNDS_HOME": str(folder / home)}
        pipe = subprocess.PIPE
        command = [sys.executable, *program, *words]
        popen = ForkedLeader if is_forked else subprocess.Popen
        begun.append(popen(command, env=environment, stdout=pipe, stderr=pipe, text=True))
        return begun[-1]

    try:
        yield start
    finally:
        for process in begun:
            if process.poll() is None:
                process.kill()
                process.communicate()


def until_asked(process: subprocess.Popen[str] | subprocess.Popen[bytes], server: Running, count: int) -> None:
    """Wait until the server has been asked so often; the process must not end before."""
    while server.stats()["asked"] < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def interrupted(
    process: subprocess.Popen[str], times: int, pause: float = 0.1, how: signal.Signals = signal.SIGINT
) -> str:
    """Press Ctrl-C so often, or send another signal; what the command says on stderr until it has ended as one that was
    interrupted."""
    for _ in range(times):
        process.send_signal(how)
        time.sleep(pause)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + how, told
    assert "Traceback" not in told
    return told


def refused_beside_itself(cli: Cli, server: Running, options: Sequence[str], folder: Path) -> None:
    """The same command, four calls at once, while it is at work already: refused in one line, and nothing is asked."""
    first = ForkedPython([sys.executable, "-m", "ragrounds", *options], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        until_asked(first, server, 4)
        second = cli(*options)
        asked = server.stats()["asked"]
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 2, second.stderr
    assert f"is being made by process {first.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert asked == 4
