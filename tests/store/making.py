"""Stores for the tests of this room."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from tests.arena.staging import Stage, by_strength
from tests.judges.doubles import Scripted


async def two_in_an_arena(home: Path) -> None:
    """A store with three runs, of which two have played in an arena whose judge was asked 24 times, and a vote."""
    from ragrounds.evals.store.arenas import Vote
    from tests.arena.staging import stage

    with stage(home) as store:
        played = Stage(store, [Scripted(by_strength)], runs=("strong", "weak"))
        await played.play()
        played.keeper.add_votes(
            1, [Vote(voter="ann", question_id="q0", first=0, second=1, axis="usefulness", outcome="first")]
        )


def contents(path: Path) -> list[str]:
    """A SQLite store as SQL statements: tables and rows."""
    connection = sqlite3.connect(path)
    try:
        return [re.sub(r"\s+", " ", line) for line in connection.iterdump()]
    finally:
        connection.close()
