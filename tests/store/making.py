"""Stores for these tests."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Gold, Message, Question, Reply, Usage
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.store import schema
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.store import Store
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, questions
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


@dataclass
class StoppedRun:
    """Run that ended within an attempt, some calls of which are paid."""

    planned: PlannedRun
    questions: Sequence[Question]
    golds: Mapping[str, Gold]

    async def resume(self, store: Store) -> tuple[StoreJournal, ScriptedModel]:
        """Finish the run with a model that answers; return the journal and that model."""
        model = ScriptedModel()
        finished = [replace(self.planned, models={"model": model})]
        return await replayed(store, finished, self.questions, self.golds), model


async def stopped_run(store: Store, count: int, last: int) -> StoppedRun:
    """Store a run of several calls a question that call number `last` stops."""
    asked, golds = questions(count)

    def stops(request: object) -> Reply | Exception:
        return StopRun("no credit") if len(model.asked) == last else Reply(text="thought", usage=Usage(10, 5))

    model = ScriptedModel(say=stops)
    planned_run = planned(store, "cot_refine", asked, golds, model)
    with pytest.raises(StopRun):
        await replayed(store, [planned_run], asked, golds, concurrency=1)
    return StoppedRun(planned_run, asked, golds)


def arrival_files(home: Path) -> list[Path]:
    """The files of responses that wait for their commit."""
    return sorted((home / "arrivals").rglob("*@*"))


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


def entry(number: int = 0, kind: str = "model", payer: bytes = b"") -> Entry:
    """A call; each number is another one."""
    request = Request(messages=(Message("system", "Be brief."), Message("user", "How?")))
    return Entry(key=f"{number:064x}", kind=kind, actor="test:model", request=request, payer=payer)  # type: ignore[arg-type]


def says(text: str = "said") -> Callable[[], Awaitable[Reply]]:
    """A server that replies with this text."""

    async def make() -> Reply:
        return Reply(text=text)

    return make


async def never() -> Reply:
    """A server that may not be called."""
    raise AssertionError("nothing may be called")


def recorded_call(store: Store, number: int) -> sa.Row:
    """The row of a call that `entry` names."""
    with store.engine.connect() as connection:
        return connection.execute(sa.select(schema.calls).where(schema.calls.c.key == number.to_bytes(32, "big"))).one()
