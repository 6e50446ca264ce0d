"""A system in this process of which no call was seen may have made one that nobody hears: that is not replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from tests.recorder.test_closed import python_that_cannot_be_closed


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

    both = ["./mine.py:ask", "./mine.py:sends"]
    rr.run("sample", both, limit=1, progress=False, home=home)
    assert asked.read_text() == "xx"
    again = rr.run("sample", both, limit=1, progress=False, home=home, new=True, journal="replay")
    assert [dict(row.statuses).get("failed", 0) for row in again.comparison.rows] == [0, 1]  # it is known whose it was
    ((reason, count),) = again.failures
    assert ("a network connection, by native code or a child" in reason, count) == (True, 1)
    assert asked.read_text() == "xxxx"


def test_a_replay_asks_nothing_where_the_kernel_refuses_to_hold_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text("def ask(question):\n    open('asked', 'a').write('x')\n    return 'A'\n")
    monkeypatch.chdir(tmp_path)
    options = {"limit": 1, "progress": False, "home": home, "python": python_that_cannot_be_closed(tmp_path)}
    rr.run("sample", "./mine.py:ask", **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="cannot be replayed: no call of it was recorded"):
        rr.run("sample", "./mine.py:ask", new=True, journal="replay", **options)  # type: ignore[arg-type]
    assert Path("asked").read_text() == "x"


def test_attempts_of_which_nothing_was_heard_are_a_doubt(home: Path) -> None:
    made = rr.run("sample", [ask, "direct"], limit=2, progress=False, home=home)
    (said,) = [note for note in made.comparison.notes if "no call of a model or tool was recorded" in note]
    assert said.startswith(f"{made.runs[0].id}: no call of a model or tool was recorded in 2 of 2 completed attempts.")
    assert "no call of a model" in str(made)
