"""Whatever is changed in a row that a table rests on is named: by `doctor --store`, and where the row is read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import sqlalchemy as sa

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.base.records import AnswerStatus, Read, Status
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.attempt_notes import notes_of, write_note
from ragrounds.evals.store.care.verification import Findings, Verification
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.reads import read_rows
from ragrounds.evals.store.row_sums import CHECKSUM, summed
from ragrounds.evals.store.servers import keep_server, known_servers
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_facts import make_facts
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import calls
from tests.store.making import two_in_an_arena
from tests.store.test_verification import filled

SUMMED = [table for table in schema.metadata.sorted_tables if CHECKSUM in table.c]
COLUMNS = [(table, one) for table in SUMMED for one in table.c if not one.foreign_keys]
QUICK = {"actor", "status", "models", "cost_paid", "value", "outcomes", "outcome", "facts", "steps", "text", "at"}
"""Columns that are tried in every run of the tests."""
WORDS = {"status": get_args(Status), "answer_status": get_args(AnswerStatus)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with rows in every table that has check sums."""
    home = tmp_path_factory.mktemp("sums")
    asyncio.run(filled(home))
    asyncio.run(two_in_an_arena(home))
    with Store(home) as store:
        run = store.run("direct")
        (some,) = [call for one in list(store.attempts(run))[:1] for call in calls(one.events)]
        store.add_scores(run, store.scores(run), [some])
        store.add_scores(run, [], [rr_replaced(some)])
        store.write_stop(["strong-1"], "accuracy(direct) > 50", 0, b"{}")
        write_note(store, run, store.questions(run)[0][0].id, 0, author="ann", mark="star", text="look")
        make_facts(store, [run])
        keep_server(store.engine, "openai:m@host", "", {"id": "m"})
        read = Read("file", "facts.csv", "a digest", 7, 1.0)
        store.add_rows(read_rows([read], store.number(run)))
    return home


def rr_replaced(call: Any) -> Any:
    """The same call, made once more."""
    return type(call)(**{name: getattr(call, name) for name in call.__struct_fields__} | {"cached": False, "at": 9.0})


@pytest.fixture
def store(place: Path) -> Iterator[Store]:
    with Store(place) as opened:
        yield opened


def other(column: sa.Column[Any], value: Any) -> Any:
    """Another value that the column could hold."""
    if column.name in WORDS:
        return next(word for word in WORDS[column.name] if word != value)
    if isinstance(column.type, sa.Text):
        return f"{value or ''}x"
    if isinstance(column.type, sa.LargeBinary):
        return bytes([(value or b"\0")[0] ^ 1]) + (value or b"\0")[1:]
    return (value or 0) + 1


def shown(store: Store) -> dict[str, Callable[[], object]]:
    """What shows the rows of a table to somebody."""
    run, arenas = store.run("direct"), ArenaStore(store)

    def worded(text: str) -> None:
        if "damaged" in text:
            raise DamagedRecord(text)

    return {
        "attempts": lambda: [compare(store, [run]), *store.attempts(run)],
        "scores": lambda: compare(store, [run]),
        "calls": lambda: [store.judges(run), *(store.call(key, dict, dict) for key in store.graded(run))],
        "judgements": lambda: list(arenas.details(1)),
        "votes": lambda: arenas.votes(1),
        "servers": lambda: known_servers(store.engine, "openai:m@host"),
        "facts": lambda: [worded(row.prediction) for row in Pages(store, [run]).read(range(6))],
        "notes": lambda: [worded(note.text) for notes in notes_of(store, [run]).values() for note in notes],
    }


@pytest.mark.parametrize(
    ("table", "column"),
    [
        pytest.param(table, one, id=f"{table.name}.{one.name}", marks=() if one.name in QUICK else pytest.mark.slow)
        for table, one in COLUMNS
    ],
)
def test_another_value_in_any_column_is_named(store: Store, table: sa.Table, column: sa.Column[Any]) -> None:
    draw, number = random.Random(f"{table.name}.{column.name}"), store.number(store.run("direct"))
    mine = table.c.run == number if "run" in table.c and table is not schema.stoppings else sa.true()
    if table is schema.calls:
        mine = table.c.key.in_(sa.select(schema.gradings.c.key))
    with store.engine.connect() as connection:
        row = draw.choice(connection.execute(sa.select(table).where(mine)).all())
    same = sa.and_(*(one == getattr(row, one.name) for one in table.primary_key))
    changed = {column.name: other(column, getattr(row, column.name))}
    back = sa.and_(*(one == changed.get(one.name, getattr(row, one.name)) for one in table.primary_key))
    with store.engine.begin() as connection:
        assert connection.execute(sa.update(table).where(same).values(changed)).rowcount == 1
    try:
        findings = Findings()
        Verification(store.engine, findings).walk()
        assert any("does not match its checksum" in one.what for one in findings.findings), findings.findings
        look = shown(store).get(table.name)
        elsewhere = column.primary_key and table not in (schema.attempts, schema.scores)  # the row is not found
        if look and not elsewhere and column is not schema.facts.c.at:  # facts of another time are made again
            with pytest.raises(DamagedRecord, match="damaged"):
                look()
    finally:
        with store.engine.begin() as connection:
            connection.execute(sa.update(table).where(back).values({column.name: getattr(row, column.name)}))


@pytest.mark.parametrize(
    "damage",
    [
        "models = 'x'",
        "models = '[[1]]'",
        "status = 'xompleted'",
        "cost_paid = 999, input = 7000000",
        "seconds = 'long'",
    ],
)
def test_a_damaged_attempt_is_named_and_made_again(place: Path, store: Store, damage: str) -> None:
    run = store.run("vanilla_rag")
    whole = store.summaries(run)
    with store.engine.begin() as connection:
        where = f"run = {store.number(run)} AND question_id = 't/1'"
        before = connection.execute(sa.text(f"SELECT * FROM attempts WHERE {where}")).one()
        connection.execute(sa.text(f"UPDATE attempts SET {damage} WHERE {where}"))
    with pytest.raises(
        UserError, match=r"the attempt of vanilla_rag-.* at the question 't/1', epoch 0, does not match"
    ):
        rr.compare(run.id, home=place)
    assert ("t/1", 0) not in store.settled(run)
    assert len(store.settled(run)) == 5
    with store.engine.begin() as connection:
        values = {name: value for name, value in before._mapping.items() if name not in ("run", "question_id", "epoch")}
        table = schema.attempts
        connection.execute(
            sa.update(table).where(table.c.run == store.number(run), table.c.question_id == "t/1").values(values)
        )
    assert store.summaries(run) == whole


@pytest.mark.parametrize("table", SUMMED, ids=lambda table: table.name)
def test_the_sum_is_of_every_column_but_the_runs_number(table: sa.Table) -> None:
    columns = [one for one in table.c if one.name != CHECKSUM]
    row = {one.name: other(one, None) for one in columns}
    checksum = summed(table, row)[CHECKSUM]
    changed = {one.name: summed(table, row | {one.name: other(one, row[one.name])})[CHECKSUM] for one in columns}
    assert len(columns) >= 3
    assert [name for name, sum_of in changed.items() if sum_of == checksum] == [
        one.name for one in columns if one.foreign_keys
    ]
