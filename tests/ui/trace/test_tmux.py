"""The viewer in a real terminal, driven through tmux: keys, sizes, colours, a run in another process, a clean end."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.ui.trace.making import attempt, make_run, score, step

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]
_PATIENCE = 120.0
"""Seconds until something that should appear is given up: only a failing test takes them."""


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, folder: Path, width: int = 80, height: int = 24, **environment: str) -> None:
        self._socket = str(folder / "tmux")
        settings = {"RAGROUNDS_HOME": str(folder / "home"), "TERM": "tmux-256color", **environment}
        given = [f"{name}={value}" for name, value in settings.items()]
        # The shell's marks say where a command began and ended.
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height),
                  # A size that the tests' own terminal left behind would stand for that of the window.
                  "env", "-u", "COLUMNS", "-u", "LINES", *given, "PS1=ready> ", "sh", "-i")  # fmt: skip
        self.prompt()

    def tmux(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments], capture_output=True, text=True, timeout=30, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def command(self, *arguments: str) -> None:
        self.tmux("send-keys", "-l", shlex.join([sys.executable, "-m", "ragrounds", *arguments]))
        self.type("Enter")

    def screen(self, codes: bool = False) -> str:
        return self.tmux("capture-pane", "-p", *(["-e"] if codes else []))

    def history(self) -> str:
        """What scrolled out of the window, and what is in it."""
        return self.tmux("capture-pane", "-p", "-S", "-200")

    def see(self, *wanted: str) -> str:
        """Wait until every text is on the screen."""
        return self._wait(lambda shown: all(text in shown for text in wanted), wanted)

    def prompt(self) -> str:
        """Wait until the shell asks for the next command."""
        return self._wait(lambda shown: shown.rstrip().endswith("ready>"), "the prompt")

    def _wait(self, there: Callable[[str], bool], what: object) -> str:
        end = time.monotonic() + _PATIENCE
        while not there(shown := self.screen()):
            assert time.monotonic() < end, f"{what} did not appear:\n{shown}"
            time.sleep(0.1)
        return shown

    def close(self) -> None:
        self.tmux("kill-server")


@pytest.fixture
def terminal(quiz: Path, tmp_path: Path) -> Iterator[Terminal]:
    shutil.copytree(quiz, tmp_path / "home")
    made = Terminal(tmp_path)
    yield made
    made.close()


def test_keys_sizes_and_a_clean_end(terminal: Terminal) -> None:
    terminal.command("trace")
    terminal.see("quiz · 6 questions", "space Pick")
    terminal.type("1")
    terminal.see("1 of 12", "quiz/000, plain", "/ Find")
    terminal.type("w")
    terminal.see("2 of 12", "quiz/001, plain")
    terminal.type("?")
    terminal.see("Page down", "✓ right")
    terminal.type("?")
    terminal.see("2 of 12", "quiz/001, plain")  # the help is gone
    terminal.tmux("resize-window", "-x", "200", "-y", "50")
    assert "│" in terminal.see("q Quit", "full price")
    terminal.type("f")
    terminal.tmux("send-keys", "-l", "wrong and agent:plain")
    terminal.see("3 of 12 attempts")
    terminal.type("Enter")
    terminal.see("1 of 3 (all: 12)", "wrong and agent:plain")
    terminal.type("Escape")
    terminal.see("2 of 12")
    terminal.type("c")
    terminal.see("two answers", "plain | seeker[rounds=3]", "✗ plain: B")
    terminal.type("Escape")
    terminal.see("2 of 12")
    terminal.type("q")
    shown = terminal.prompt()
    assert "quiz/001, plain" not in shown  # the screen from before is back


@pytest.mark.skipif(shutil.which("less") is None, reason="needs less")
def test_what_is_longer_than_the_terminal_is_paged(terminal: Terminal) -> None:
    """As git does; a pager of one's own is asked for by its variable."""
    terminal.command("show", "seeker", "quiz/000", "--full")
    assert "quiz/000 A ✓" in terminal.see("outcome")
    terminal.type("G")
    terminal.see("(END)")
    terminal.type("q")
    terminal.prompt()
    terminal.type("export PAGER=cat", "Enter")
    terminal.command("show", "plain", "001", "--against", "seeker")
    terminal.type("echo en''ded", "Enter")  # a prompt may be that of the command before
    terminal.see("ended")
    shown = terminal.history()
    assert re.search(r"✗ plain: B +│ ✓ seeker\[rounds=3\]: A", shown)


@pytest.mark.slow
def test_it_follows_a_run_of_another_process(terminal: Terminal, tmp_path: Path) -> None:
    with Store(tmp_path / "home") as store:
        run = make_run(store, "later", 5)
        terminal.command("trace", "later")
        terminal.see("1 of 5", "Not run yet.")
        store.add_attempts(run, [attempt(run, 0, step(0, "thinking"))], [score(0, True)])
        terminal.see("1 of 5", "thinking", "quiz/000 A ✓")
    terminal.type("q")
    terminal.prompt()
