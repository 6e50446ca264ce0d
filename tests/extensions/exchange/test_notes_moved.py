"""What is left beside attempts goes along with a run, and what is derived of them is made again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import open_source, open_target
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_facts import lacking_facts, make_facts
from ragrounds.evals.trace.summaries import Pages
from ragrounds.extensions.exchange.transfer import copy_runs, read_runs
from tests.store.test_text_search import filled


def note(store: Store, author: str, text: str, at: float) -> None:
    row = {"run": 1, "question_id": "t/1", "epoch": 0, "author": author, "mark": "star"}
    with store.engine.begin() as connection:
        connection.execute(sa.delete(schema.notes).where(schema.notes.c.author == author))
        connection.execute(sa.insert(schema.notes), summed(schema.notes, {**row, "text": text, "at": at}))


def notes(engine: sa.Engine) -> list[tuple[str, str]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(schema.notes).order_by(schema.notes.c.author))
        return [(row.author, row.text) for row in rows]


async def test_notes_go_along_and_are_added_to_a_run_that_is_there(store: Store, tmp_path: Path) -> None:
    await filled(store)
    note(store, "ann", "first", 1.0)
    copy = tmp_path / "runs.ragrounds"
    with open_target(str(copy)) as engine:
        copy_runs(store.engine, engine, read_runs(store.engine), FINAL)
        assert notes(engine) == [("ann", "first")]
        with engine.connect() as connection:
            assert {connection.execute(sa.select(table)).first() for table in schema.DERIVED} == {None}
    note(store, "ann", "second", 2.0)
    note(store, "bob", "his", 1.0)
    with open_target(str(copy)) as engine:
        assert copy_runs(store.engine, engine, read_runs(store.engine), FINAL).runs == ()
        assert notes(engine) == [("ann", "second"), ("bob", "his")]
    note(store, "ann", "third", 3.0)
    with open_source(str(copy)) as engine:
        copy_runs(engine, store.engine, read_runs(engine), FINAL)
    assert notes(store.engine) == [("ann", "third"), ("bob", "his")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE notes SET question_id = 'no'", "1 of them are of questions"),
        ("UPDATE notes SET author = 'a' || char(27)", "control characters"),
        ("UPDATE notes SET text = x'00ff'", "wrong kind"),
        ("UPDATE notes SET at = 'noon'", "wrong kind"),
        (f"UPDATE notes SET text = '{'x' * 20_001}'", "20,001 characters"),
    ],
)
async def test_a_copied_note_is_not_believed(store: Store, tmp_path: Path, change: str, said: str) -> None:
    await filled(store)
    note(store, "ann", "first", 1.0)
    with sqlite3.connect(store.location) as connection:
        connection.execute(change)
    connection.close()
    with Store(tmp_path / "other") as other, pytest.raises(UserError, match=said):
        copy_runs(store.engine, other.engine, read_runs(store.engine), FINAL)


async def test_facts_are_made_where_they_are_missing_or_of_before(store: Store, tmp_path: Path) -> None:
    await filled(store)
    with Store(tmp_path / "other") as other, other.engine.connect() as connection:
        copy_runs(store.engine, other.engine, read_runs(store.engine), FINAL)
        assert len(lacking_facts(connection, [1, 2])) == 5
        with other.engine.begin() as writing:
            writing.execute(sa.update(schema.attempts).values(body=b"no record").where(schema.attempts.c.run == 1,
                            schema.attempts.c.question_id == "t/0"))  # fmt: skip
        pages = Pages(other, other.runs())
        assert (pages.backlog("hops>0"), pages.backlog("wrong")) == (5, 0)
        told: list[int] = []
        make_facts(other, other.runs(), lambda step, rows: told.append(rows))
        assert told[-1] == 4  # one cannot be read
        assert lacking_facts(connection, [1, 2]) == [(1, "t/0", 0)]
        make_facts(store, store.runs())
        with store.engine.connect() as first:
            known = sa.select(schema.facts).order_by(*schema.facts.primary_key)
            assert connection.execute(known).all() == first.execute(known).all()[1:]
        # An attempt that is made again has facts of its own: those of before no longer hold.
        with other.engine.begin() as writing:
            again = sa.update(schema.attempts).values(at=schema.attempts.c.at + 1)
            writing.execute(again.where(schema.attempts.c.run == 2))
        assert {number for number, _, _ in lacking_facts(connection, [1, 2])} == {1, 2}
        assert pages.backlog("wrong", "hops") == pages.backlog("hops>0") > 1
