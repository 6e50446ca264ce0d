"""Stores for the tests of this room."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import sqlalchemy as sa

from ragrounds.evals.store.row_sums import summed
from tests.extensions.arena.staging import Stage, by_strength
from tests.judges.doubles import Scripted


async def two_in_an_arena(home: Path) -> None:
    """A store with three runs, of which two have played in an arena whose judge was asked 24 times, and a vote."""
    from ragrounds.evals.store.arenas import Vote
    from tests.extensions.arena.staging import stage

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


def sum_anew(connection: sa.Connection, table: sa.Table) -> None:
    """Make the check sums of a table's rows again, which a test has changed on purpose."""
    for row in connection.execute(sa.select(table)).mappings().all():
        same = sa.and_(*(column == row[column.name] for column in table.primary_key))
        connection.execute(sa.update(table).where(same).values(checksum=summed(table, row)["checksum"]))
