"""A system in this process of which no call was seen may have made one that nobody hears: that is not replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragrounds as rr
from ragrounds.errors import UserError

ASKED: list[str] = []


def ask(question: str) -> str:
    """Asks nobody whom we hear."""
    ASKED.append(question)
    return "A"


def test_a_replay_does_not_ask_what_may_send_unheard(home: Path) -> None:
    def run(**options: object) -> int:
        before = len(ASKED)
        rr.run("sample", ask, limit=1, progress=False, home=home, **options)  # type: ignore[arg-type]
        return len(ASKED) - before

    assert run() == 2  # a probe, which finds no model, and the question
    assert run(new=True) == 1  # a probe could not hold back what it sends unheard
    with pytest.raises(UserError, match="what native code sends in this process can be neither heard nor held back"):
        run(new=True, journal="replay")
    assert len(ASKED) == 3
    assert run(journal="replay") == 0  # its attempts are there
