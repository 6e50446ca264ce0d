"""Nothing is left of a session of tests, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragrounds.base.processes import process
from tests.servers.process import ROOT

STARTS = """
import time
from tests.servers.process import openai_server
with openai_server() as running:
    print(running.process.pid, flush=True)
    time.sleep(60)
"""
TESTS = """
import pathlib

def test_first(command, server, tmp_path):
    pathlib.Path(__file__).with_name("server").write_text(str(server.process.pid))
    (tmp_path / "mine.py").write_text("import os, signal\\ndef ask(q): os.kill(os.getpid(), signal.SIGTERM)")
    command("run", "--agent", "./mine.py:ask", "--in-process", "--limit", "1", "--display", "none")

def test_second():
    pathlib.Path(__file__).with_name("second").touch()
"""


def on_signal(number: int, frame: object) -> None:
    """Stand for the handler of a session."""


def wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 20
    while process(pid) is not None:
        assert time.monotonic() < until, "it is left"
        time.sleep(0.01)


def test_a_server_ends_with_its_killed_parent() -> None:
    parent = subprocess.Popen([sys.executable, "-c", STARTS], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert process(pid) is not None
    parent.kill()
    parent.communicate()
    wait_until_gone(pid)


@pytest.mark.slow
def test_one_sigterm_ends_a_session_whose_command_runs(tmp_path: Path) -> None:
    path = tmp_path / "test_two.py"
    path.write_text(TESTS)
    plugins = ["-p", "tests.conftest", "-p", "no:xdist", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
    assert "SIGTERM" in done.stdout
    assert not (tmp_path / "second").exists()
    wait_until_gone(int((tmp_path / "server").read_text()))


def test_a_command_in_this_process_leaves_sigterm_to_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from ragrounds.cli import entry

    handlers: list[object] = []
    monkeypatch.setattr(entry, "command_line", lambda: lambda **_: handlers.append(signal.getsignal(signal.SIGTERM)))
    previous = signal.signal(signal.SIGTERM, on_signal)
    try:
        entry.main(own_process=False)
    finally:
        signal.signal(signal.SIGTERM, previous)
    assert handlers == [on_signal]
