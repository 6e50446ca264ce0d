"""A process that was asked to end does end: soon after a second SIGTERM, or a minute after the first."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from tests.conftest import Cli

CODE = """
import signal, sys, time
from ragrounds.base.process_end import ProcessEnd
from ragrounds.cli import entry

ProcessEnd.after_first, ProcessEnd.after_second = {first}, 2
asked = []

def ask(*_):
    asked.append(True)
    print("asked to stop", flush=True)

signal.signal(signal.SIGINT, ask)
with entry._sigterm_as_ctrl_c():
    print("ready", flush=True)
    while not (asked and {stops}):
        time.sleep(0.05)
time.sleep(1)
"""


@pytest.mark.parametrize(("first", "signals"), [(60, 2), (0.3, 1)])
def test_a_process_that_does_not_stop_is_ended(first, signals):
    process = subprocess.Popen(
        [sys.executable, "-c", CODE.format(first=first, stops=False)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "asked to stop\n"
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
    assert rest == ("" if signals == 2 else "asked to stop\n")  # after the first period, calls in flight are stopped


def test_a_process_that_stops_is_not_ended():
    code = CODE.format(first=0.3, stops=True)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_home_that_was_removed_is_not_called_damaged(
    command: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(**_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("unable to open database file"))

    monkeypatch.setattr("ragrounds.cli.entry.command_line", lambda: removed)
    ended = command()
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"ragrounds: The store {home}/store.sqlite was removed while this command worked.")
    home.mkdir()
    (home / "store.sqlite").touch()
    assert "The store cannot be read: unable to open database file" in command().stderr
