"""A screen on a real pseudo-terminal: what others write is kept for later, and the terminal is given back."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Group, RenderableType
from rich.text import Text

from ragrounds.base.records import Attempt
from ragrounds.evals.engine.progress import ReplayProgress, RunProgress
from ragrounds.evals.store.store import Store
from ragrounds.ui.progress.displays import FullProgress
from ragrounds.ui.progress.screen import OtherOutput, Screen, can_redraw


class Pty:
    """The two ends of a pseudo-terminal; what is written to it is read all the time."""

    def __init__(self, width: int, height: int) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(width, height)
        self.stream = os.fdopen(os.dup(self.slave), "w")
        self._got = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                self._got += os.read(self.master, 65_536)
            except OSError:
                return

    def see(self, text: str) -> str:
        end = time.monotonic() + 10
        while text not in (got := self._got.decode()):
            assert time.monotonic() < end, repr(got[-2000:])
            time.sleep(0.02)
        return got

    def close(self) -> None:
        self.stream.close()
        os.close(self.slave)
        os.close(self.master)


@pytest.fixture
def terminal() -> Iterator[Pty]:
    made = Pty(40, 8)
    yield made
    made.close()


def shown(width: int, height: int, said: Sequence[str]) -> RenderableType:
    return Group(Text(f"{width} x {height}"), *(Text(f"> {line}") for line in said[-3:]))


def test_it_draws_the_size_that_there_is_and_gives_the_screen_back(terminal: Pty) -> None:
    with Screen(terminal.stream, shown):
        terminal.see("40 x 8")
        terminal.resize(60, 20)
        terminal.see("60 x 20")
    got = terminal.see("\x1b[?1049l")
    assert got.count("\x1b[?1049h") == got.count("\x1b[?1049l") == 1
    assert got.rindex("\x1b[?25h") > got.rindex("\x1b[?25l")


def test_what_others_write_is_seen_inside_and_told_after(terminal: Pty) -> None:
    with Screen(terminal.stream, shown, earlier_lines=["before"]):
        terminal.see("> before")
        # By whoever has the descriptor: a library in C, a child.
        os.write(terminal.stream.fileno(), b"\x1b[31mred\x1b[0m and \x1b[2J\n12 %\r99 %\r\nno end")
        got = terminal.see("> no end")
        assert "\x1b[31m" not in got.replace("\x1b[31mred", "")
    told = terminal.see("no end\r\n").rpartition("\x1b[?1049l")[2]
    assert told.replace(" \r", "\r") == "red and\r\n99 %\r\nno end\r\n"


def test_a_picture_that_fails_does_not_end_the_work(terminal: Pty) -> None:
    def broken(width: int, height: int, said: Sequence[str]) -> RenderableType:
        raise ValueError("no such thing")

    with Screen(terminal.stream, broken):
        terminal.see("This screen cannot be shown")
    terminal.see("\x1b[?1049l")


def test_a_flood_is_kept_to_its_end(tmp_path: Path) -> None:
    file = (tmp_path / "out").open("w")
    others = OtherOutput()
    others.take([file.fileno()])
    try:
        # More than a pipe holds, and nobody reads meanwhile.
        code = "for number in range(20_000): print('line', number)"
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    finally:
        others.give_back()
    file.write("after")
    file.close()
    assert others.lines[-1] == "line 19999"
    assert others.dropped + len(others.lines) == 20_000
    assert (tmp_path / "out").read_text() == "after"


def test_a_cursor_that_cannot_be_moved_means_no_screen(
    terminal: Pty, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert can_redraw(terminal.stream)
    monkeypatch.setenv("TERM", "dumb")
    assert not can_redraw(terminal.stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    with (tmp_path / "log").open("w") as file:
        assert not can_redraw(file)


def test_a_run_with_failures_leaves_one_short_line(terminal: Pty, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        progress = ReplayProgress(store, [], {})
    counts = progress.runs["run"] = RunProgress("direct", 2)
    with FullProgress(progress, terminal.stream):
        counts.done = 2
        counts.count(Attempt(run="run", question_id="q/1", epoch=0, status="failed", text=""), ())
        progress.failed.add("no_choices", "the provider's response has no choices")
    terminal.stream.flush()
    got = terminal.see(" failed, ")
    assert got.rpartition("\x1b[?1049l")[2].split("\r\n")[0].endswith("unknown paid")
