"""A system in this process of which no call was seen may have made one that nobody hears: that is not replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.errors import StopRun, UserError


def ask(question: str) -> str:
    """Asks nobody whom we hear."""
    return "A"


def test_a_replay_does_not_ask_what_may_send_unheard(home: Path) -> None:
    asked: list[str] = []

    def asks(question: str) -> str:
        asked.append(question)
        return "A"

    def run(**options: object) -> int:
        before = len(asked)
        made = rr.run("sample", asks, limit=1, progress=False, home=home, **options)  # type: ignore[arg-type]
        assert not made.failures
        return len(asked) - before

    assert run() == 1
    assert run(new=True) == 1
    with pytest.raises(UserError, match="requests by native code in this process can be neither recorded nor blocked"):
        run(new=True, journal="replay")
    assert len(asked) == 2
    assert run(journal="replay") == 0  # its attempts are there


def test_a_replay_asks_what_the_kernel_holds(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    (tmp_path / "mine.py").write_text(
        f"import ctypes\ndef ask(question):\n    with open({str(asked)!r}, 'a') as file:\n        file.write('x')\n"
        "    return 'A'\n\ndef sends(question):\n    ctypes.CDLL(None).socket(2, 1, 0)\n    return ask(question)\n"
    )
    monkeypatch.chdir(tmp_path)

    def run(name: str, **options: object) -> int:
        before = len(asked.read_text()) if asked.exists() else 0
        rr.run("sample", f"./mine.py:{name}", limit=1, progress=False, home=home, **options)  # type: ignore[arg-type]
        return len(asked.read_text()) - before

    assert run("ask") == 1
    assert run("ask", new=True, journal="replay") == 1
    assert run("sends") == 1
    with pytest.raises(StopRun, match="a network connection, by native code or a child"):
        run("sends", new=True, journal="replay")
    both = ["./mine.py:ask", "./mine.py:sends"]
    again = rr.run("sample", both, limit=1, progress=False, home=home, new=True, journal="replay")
    assert [dict(row.statuses).get("failed", 0) for row in again.comparison.rows] == [0, 1]  # it is known whose it was


def test_attempts_of_which_nothing_was_heard_are_a_doubt(home: Path) -> None:
    made = rr.run("sample", [ask, "direct"], limit=2, progress=False, home=home)
    (said,) = [note for note in made.comparison.notes if "no call of a model or tool was recorded" in note]
    assert said.startswith(f"{made.runs[0].id}: no call of a model or tool was recorded in 2 of 2 completed attempts.")
    assert "no call of a model" in str(made)
