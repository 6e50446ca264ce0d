"""The screen of `ragrounds run` in a real terminal (tmux), with 64 attempts in flight at a real server on loopback: its
numbers are those of the store, resizing leaves no ghost, nobody writes over it, an interrupted run says what it waits
for, and the resumed one goes on from there."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from tests.servers.process import Running, openai_server
from tests.ui.trace.test_tmux import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]

NOISY = """
import os, subprocess, sys, warnings

def ask(question, *, model=None):
    print("NOISE of a print")
    os.write(2, b"NOISE of a library\\n")
    subprocess.run(["sh", "-c", "echo NOISE of a child"], check=False)
    return "A"
"""
_TOTAL = re.compile(r"(\d+) of (\d+) attempts")
_FLYING = re.compile(r"in flight +(\d+)\b")
_LINES = (
    r"| ragrounds run .*",
    r"[━╸╺ ]*\d+ of \d+ attempts \(\d+ %\)  .*",
    r"[a-z]+, percent so far; .*",
    r"agent +.*done.*",
    r"\S.*\d+/\d+.*",
    r"and \d+ more agents?: .*",
    r"(failed|tried again|server|in flight|cost|journal) +.*",
    r" +full",
    r"── (so far|last results|other output).*─",
    r"[✓✗½!x^~?0-] .*",
    r"percent right by .*",
    r" +\d* [┤│].*",
    r" +└[─┬]+",
    r" +[$\d▄⣤►].*",
    r"Ctrl-C .*|Stopping.*",
)
"""What a line of the screen looks like."""
_LINE = re.compile("|".join(f"(?:{line})" for line in _LINES))


@pytest.fixture(scope="module")
def slow_server() -> Iterator[Running]:
    """A server whose answers take between a half and three seconds; some requests are refused."""
    with openai_server("--latency", "0.5", "--jitter", "2.5", "--faults", "0.08", "--mix", "400=1,context=1") as made:
        yield made


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, 120, 40)
    yield made
    made.close()


def counts(home: Path) -> Counter[str]:
    """Attempts of all runs of the store by status."""
    with Store(home) as store:
        return Counter(one.status for run in store.runs() for one in store.summaries(run) if one.status != "not_run")


def frame(terminal: Terminal, width: int, height: int) -> list[str]:
    """The lines of a whole frame of this size, each of which is what it should be."""
    end = time.monotonic() + 120
    while True:
        lines = terminal.screen().removesuffix("\n").split("\n")
        whole = (
            len(lines) == height and lines[0].startswith(" ragrounds run") and lines[-1].startswith(("Ctrl-C", "Stop"))
        )
        if whole and (len(lines[0].rstrip()) == width):
            break
        assert time.monotonic() < end, "\n".join(lines)
        time.sleep(0.05)
    said = next((place for place, line in enumerate(lines) if line.startswith("── other output")), len(lines))
    for place, line in enumerate(lines[:-1]):
        assert place > said or _LINE.fullmatch(line.rstrip()), f"no line of ours: {line!r} in\n" + "\n".join(lines)
        assert place > said or "NOISE" not in line, "\n".join(lines)
    for once in (" ragrounds run", "in flight", "Ctrl-C", "agent  "):
        assert sum(line.startswith(once) for line in lines) <= 1, f"{once} twice:\n" + "\n".join(lines)
    return lines


def test_the_frames_of_a_run_are_true(terminal: Terminal, slow_server: Running, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "noisy.py").write_text(NOISY)
    agents = ["--agent", "direct", "--agent", "direct_cot", "--agent", f"{tmp_path / 'noisy.py'}:ask as Noisy"]
    server = ["--model", "openai:slow", "--base-url", slow_server.url, "--yes"]
    # Slow enough that the run is interrupted before its end on a busy machine too.
    terminal.command("run", *agents, *server, "--limit", "90", "--concurrency", "4")
    terminal.see("in flight   ", "of 270 attempts")
    for width, height in ((80, 24), (120, 40), (200, 60), (100, 30)):
        terminal.tmux("resize-window", "-x", str(width), "-y", str(height))
        before, end = counts(home).total(), time.monotonic() + 120
        while True:  # until a frame is drawn that is no older
            lines = frame(terminal, width, height)
            (found,) = [match for line in lines if (match := _TOTAL.search(line))]
            if int(found[1]) >= before:
                break
            assert time.monotonic() < end, "\n".join(lines)
            time.sleep(0.05)
        assert int(found[1]) <= counts(home).total()
        assert int(found[2]) == 270
        # Each agent's own line, and together.
        parts = [int(one) for one in re.findall(r" (\d+)/90 ", "\n".join(lines))]
        assert (len(parts), sum(parts)) == (3, int(found[1]))
    (told,) = [int(match[1]) for line in frame(terminal, 100, 30) if (match := _FLYING.match(line))]
    assert 0 < told <= 4

    terminal.see("NOISE of a child")  # the system's process has started
    terminal.type("C-c")
    waiting = terminal.see("Stopping: finishing the ")
    assert not waiting.startswith("ready>")
    frame(terminal, 100, 30)
    terminal.prompt()
    history = terminal.history()
    made = counts(home)
    assert 0 < made.total() < 270
    last = re.search(r"(\d+) of 270 attempts, [\d.]+/s, (\d+) failed", history.replace("\n", ""))
    assert last is not None
    assert (int(last[1]), int(last[2])) == (made.total(), made["failed"])
    for noise in ("NOISE of a print", "NOISE of a library", "NOISE of a child"):
        assert noise in history.replace("\n", ""), "what others wrote is told afterwards"
    assert "Finishing the calls in flight" not in history, "the screen said it, when it was so"
    assert history.count("── so far") == 0, "nothing of a frame is left"

    terminal.tmux("resize-window", "-x", "200", "-y", "60")
    assert "━" not in terminal.history(), "nothing of a frame is left"
    terminal.tmux("resize-window", "-x", "100", "-y", "30")

    terminal.type("clear", "Enter")
    terminal.command("run", *agents, *server, "--limit", "90", "--concurrency", "64", "--display", "full")
    kept = made.total() - made["failed"]
    first = terminal.see("of 270 attempts", "Ctrl-C")
    assert int(_TOTAL.findall(first)[0][0]) >= kept, "it goes on from what is kept"
    frame(terminal, 100, 30)
    terminal.prompt()
    made = counts(home)
    assert made.total() == 270
    told_last = re.search(r"270 of 270 attempts, [\d.]+/s, (\d+) failed", terminal.history().replace("\n", ""))
    assert told_last is not None
    assert int(told_last[1]) == made["failed"]


def test_ctrl_z_gives_the_terminal_back_and_the_second_ctrl_c_stops(
    terminal: Terminal, slow_server: Running, tmp_path: Path
) -> None:
    options = ["--agent", "direct", "--model", "openai:slower", "--base-url", slow_server.url, "--yes"]
    terminal.command("run", *options, "--concurrency", "64")
    terminal.see("in flight   ")
    terminal.type("C-z")
    terminal.prompt()
    assert "in flight   " not in terminal.screen()
    terminal.tmux("send-keys", "-l", "fg")
    terminal.type("Enter")
    terminal.see("in flight   ", "Ctrl-C")
    terminal.type("C-c", "C-c")
    terminal.prompt()
    assert "Interrupted. Finished work is saved" in terminal.history().replace("\n", "")


def test_a_key_opens_the_viewer_while_the_run_goes_on(terminal: Terminal, slow_server: Running, tmp_path: Path) -> None:
    options = ["--agent", "direct", "--model", "openai:viewed", "--base-url", slow_server.url, "--yes"]
    terminal.command("run", *options, "--limit", "60", "--concurrency", "4")
    terminal.see("in flight   ", "v opens the viewer", "last results")
    terminal.type("x", "v")
    terminal.see("1 of 60", "steps", "detail")
    before = counts(tmp_path / "home").total()
    end = time.monotonic() + 120
    while counts(tmp_path / "home").total() == before:
        assert time.monotonic() < end, "the run goes on"
        time.sleep(0.05)
    terminal.type("q")
    terminal.see("in flight   ", "v opens the viewer")
    terminal.type("C-c", "C-c")
    terminal.prompt()
    terminal.tmux("send-keys", "-l", "echo typed")
    terminal.see("ready> echo typed")  # the terminal shows again what is typed
