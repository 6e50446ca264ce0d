"""What a command shows on a terminal while it works: one line, whatever number of steps there are."""

from __future__ import annotations

import io
import re

import pytest

from ragrounds.ui import console
from ragrounds.ui.console import SafeConsole, at_work, counting


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What is written to standard error, a terminal."""
    written = io.StringIO()
    monkeypatch.setattr(
        console, "SafeConsole", lambda stderr: SafeConsole(file=written, force_terminal=True, color_system=None)
    )
    return written


def test_forty_runs_in_six_steps_each_are_one_line(screen: io.StringIO) -> None:
    with counting() as tell:
        for run in range(40):
            for step in range(6):
                tell(f"reading part {step} of run {run}", 1_500)
    shown = screen.getvalue()
    assert "reading part 5 of run 39 1,500" in shown
    frames = re.split(r"\r|\x1b\[\d*[A-Z]", shown)
    assert max(frame.count("reading part") for frame in frames) == 1


def test_what_is_not_counted_has_no_zero(screen: io.StringIO) -> None:
    with at_work("comparing"):
        pass
    assert re.search(r"comparing +0:00:00", screen.getvalue())
