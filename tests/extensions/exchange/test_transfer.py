"""Runs between stores: nothing is lost, twice adds nothing, and a broken or hostile file writes nothing."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store import schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.codec import run_of, run_row
from ragrounds.evals.store.database import open_source, open_target
from ragrounds.evals.store.row_sums import summed
from ragrounds.evals.store.run_names import copy_names
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import trace
from ragrounds.extensions.exchange.transfer import TransferResult, copy_runs, read_runs, tables_of
from tests.conftest import Cli
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions
from tests.forked import run_python
from tests.store.making import contents, stopped_run, sum_anew, two_in_an_arena


async def filled(store: Store, count: int = 12) -> None:
    """Two runs that share calls, with long texts, and one whose attempts failed."""
    asked, golds = questions(count)
    long = '{"answer_choice": "A"} \u202e ' + "a long reply " * 80
    searcher = ScriptedSearcher(texts=[f"{i} " + "a passage " * 90 for i in range(3)])
    model = ScriptedModel(say=always(long))
    for agent in ("vanilla_rag", "vanilla_rag[limits.calls=9]"):
        await replayed(store, [planned(store, agent, asked, golds, model, searcher)], asked, golds)
    bad = ScriptedModel(say=lambda request: ZeroDivisionError("a bug"))
    await replayed(store, [planned(store, "direct", asked[:3], golds, bad)], asked[:3], golds)


def everything(engine: sa.Engine) -> dict[str, list[Any]]:
    """All rows but derived ones, with runs and arenas by their ids."""
    with engine.connect() as connection:
        named = {
            column: {row.number: row.id for row in connection.execute(sa.select(table))}
            for column, table in (("run", schema.runs), ("arena", schema.arenas))
        }
        found: dict[str, list[Any]] = {}
        for table in set(schema.metadata.sorted_tables) - set(schema.DERIVED):
            rows = []
            for row in connection.execute(sa.select(table)):
                values = dict(row._mapping)
                for column, ids in named.items():
                    if column in values:
                        values[column] = ids[values[column]]
                if table in (schema.runs, schema.arenas):
                    del values["number"]
                rows.append(sorted((name, repr(value)) for name, value in values.items()))
            found[table.name] = sorted(rows)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def moved(one: sa.Engine, other: sa.Engine) -> TransferResult:
    result = copy_runs(one, other, read_runs(one), FINAL)
    copy_names(one, other, result.runs)
    return result


def test_every_table_with_a_number_of_a_run_or_an_arena_goes_with_it() -> None:
    for owner, name in ((schema.runs, "run"), (schema.arenas, "arena")):
        own = {t for t in schema.metadata.sorted_tables if name in t.c and t is not schema.leases}
        assert set(tables_of(owner)) == own - {schema.facts}


async def test_a_file_and_back_again_is_everything(store: Store, tmp_path: Path) -> None:
    await filled(store)
    file = tmp_path / "runs.ragrounds"
    with open_target(str(file)) as engine:
        assert not file.exists()  # until it is whole
        first = moved(store.engine, engine)
    assert names(tmp_path) == ["runs.ragrounds", "store"]
    assert (len(first.runs), first.present, first.differing) == (3, (), 0)
    with Store(tmp_path / "other") as other, open_source(str(file)) as engine:
        assert moved(engine, other.engine) == first
        assert everything(other.engine) == everything(store.engine)
        again = moved(engine, other.engine)
        assert (again.runs, again.calls, again.texts, set(again.present)) == ((), 0, 0, set(first.runs))
        assert everything(other.engine) == everything(store.engine)


async def test_postgresql_and_back_again_is_everything(store: Store, url: str, tmp_path: Path) -> None:
    await filled(store)
    with open_target(url) as engine:
        moved(store.engine, engine)
        assert everything(engine) == everything(store.engine)
    with open_source(url) as engine, Store(tmp_path / "other") as other:
        moved(engine, other.engine)
        assert everything(other.engine) == everything(store.engine)
        one, two = ([run.id for run in place.runs()] for place in (store, other))
        assert one == two
        pairs = [compare(place, [place.run(id) for id in one[:2]]) for place in (store, other)]
        assert pairs[0] == pairs[1]


async def test_a_replay_elsewhere_asks_nobody(store: Store, tmp_path: Path) -> None:
    await filled(store)
    with Store(tmp_path / "other") as other:
        moved(store.engine, other.engine)
        asked, golds = questions(12)
        silent = ScriptedModel(say=lambda request: AssertionError("nothing may be called"))
        one = planned(other, "vanilla_rag[limits.calls=8]", asked, golds, silent, ScriptedSearcher())
        journal = await replayed(other, [one], asked, golds, mode="replay")
        assert (journal.calls_made, silent.asked) == (0, [])
        there = {id: attempt.text for id, attempt in attempts(other, one.run).items()}
        assert there == {id: attempt.text for id, attempt in attempts(store, store.runs()[0]).items()}


async def test_what_an_unfinished_attempt_paid_goes_along(store: Store, tmp_path: Path) -> None:
    stopped = await stopped_run(store, 1, last=2)
    with Store(tmp_path / "other") as other:
        assert moved(store.engine, other.engine).calls == 1
        journal, _ = await stopped.resume(other)
        assert journal.reused == 1


async def test_one_run_takes_what_it_rests_on_alone(store: Store, tmp_path: Path) -> None:
    await filled(store)
    asked, golds = questions(12)
    other_words = ScriptedModel(say=always("B"))
    apart = planned(store, "direct[limits.calls=2]", asked, golds, other_words)
    await replayed(store, [apart], asked, golds)
    with Store(tmp_path / "other") as other:
        brought = copy_runs(store.engine, other.engine, [apart.run], FINAL)
        assert (brought.runs, brought.calls) == ((apart.run.id,), 12)
        with other.engine.connect() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(schema.blobs)).scalar() == brought.texts
        assert trace(other, apart.run, "t/3").attempt.text == "B"


async def test_arenas_move_with_the_runs_that_played_in_them(tmp_path: Path) -> None:
    await two_in_an_arena(tmp_path / "old")
    path = tmp_path / "old" / "store.sqlite"
    before = contents(path)
    with Store(tmp_path / "one") as one, Store(tmp_path / "both") as both, open_source(str(path)) as old:
        runs = read_runs(old)
        assert copy_runs(old, one.engine, runs[:1], FINAL).arenas == ()
        assert len(copy_runs(old, both.engine, runs, FINAL).arenas) == 1
        assert copy_runs(old, both.engine, runs, FINAL).arenas == ()
        keeper = ArenaStore(both)
        assert len(keeper.judgements(1)) == 24
        assert [vote.voter for vote in keeper.votes(1)] == ["ann"]
        details = [detail for _, detail in keeper.details(1)]
        assert {both.call(call.key, dict, dict) is None for detail in details for call in detail.calls} == {False}
    assert contents(path) == before


async def test_a_run_of_the_same_id_that_is_not_the_same_is_refused(store: Store, tmp_path: Path) -> None:
    await filled(store)
    with Store(tmp_path / "other") as other:
        moved(store.engine, other.engine)
        run = other.runs()[0]
        with other.engine.begin() as connection:
            connection.execute(sa.update(schema.scores).values(value=0.5).where(schema.scores.c.run == 1))
            sum_anew(connection, schema.scores)
        before = everything(other.engine)
        with pytest.raises(
            UserError, match=f"already has a run {run.id}, and it differs: other scores.*Nothing was written"
        ):
            moved(store.engine, other.engine)
        assert everything(other.engine) == before


async def test_a_call_that_was_answered_otherwise_there_is_told(store: Store, tmp_path: Path) -> None:
    await filled(store)
    asked, golds = questions(12)
    with Store(tmp_path / "other") as other:
        model = ScriptedModel(say=always("quite another reply"))
        searcher = ScriptedSearcher(texts=[f"{i} " + "a passage " * 90 for i in range(3)])
        apart = planned(other, "vanilla_rag[limits.calls=7]", asked, golds, model, searcher)
        await replayed(other, [apart], asked, golds)
        assert moved(store.engine, other.engine).differing == 12
        assert {attempt.text for attempt in attempts(other, apart.run).values()} == {"quite another reply"}


# Files that are not what they should be


@pytest.fixture(scope="module")
def moved_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the runs of the store beside it, made once."""
    folder = tmp_path_factory.mktemp("moved")
    path = folder / "runs.ragrounds"
    with Store(folder / "store") as store, open_target(str(path)) as engine:
        asyncio.run(filled(store))
        moved(store.engine, engine)
    return path


@pytest.fixture
def file(moved_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(moved_file, tmp_path))


@pytest.fixture
def moved_store(moved_file: Path) -> Iterator[Store]:
    """The store that the file was made from; tests only read it."""
    with Store(moved_file.parent / "store") as opened:
        yield opened


def brought(file: Path, home: Path) -> TransferResult:
    """Move a file's runs into a store that holds nothing; where that fails, it must hold nothing afterwards."""
    with Store(home) as other:
        said = ""
        try:
            with open_source(str(file)) as engine:
                return moved(engine, other.engine)
        except UserError as error:
            said = str(error)
            raise
        finally:
            if said:
                rows = everything(other.engine)
                assert [name for name in rows if rows[name] and name != "meta"] == []
                assert "\n" not in said


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_writes_nothing(file: Path, tmp_path: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UserError):
        brought(file, tmp_path / "other")


@pytest.mark.slow
def test_a_flipped_bit_is_found_or_changes_nothing(moved_store: Store, file: Path, tmp_path: Path) -> None:
    data, draw, found = file.read_bytes(), random.Random(1), 0
    expected = everything(moved_store.engine)
    used = [place for place in range(100, len(data)) if data[place]]  # most of a page of few rows is empty
    for number in range(60):
        place = draw.choice(used)
        file.write_bytes(data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :])
        try:
            brought(file, tmp_path / f"other-{number}")
        except UserError:
            found += 1
            continue
        with Store(tmp_path / f"other-{number}") as other:
            here = everything(other.engine)
            # Columns of plain figures carry no check sum of their own; everything packed does.
            assert {name: len(rows) for name, rows in here.items()} == {n: len(rows) for n, rows in expected.items()}
            assert here["blobs"] == expected["blobs"]
    assert found > 10


def test_rows_that_moved_to_another_run_are_found(file: Path, tmp_path: Path) -> None:
    data, (row, moved) = file.read_bytes(), (b"\x02robustt/4", b"\x03robustt/4")
    assert row in data
    file.write_bytes(data.replace(row, moved))
    with pytest.raises(UserError, match="damaged: row not in PRIMARY KEY order for scores"):
        brought(file, tmp_path / "other")


def test_a_schema_that_is_no_text_is_one_line(file: Path, tmp_path: Path) -> None:
    data = file.read_bytes()
    assert b"tableblobsblobs" in data  # type, name and table of a row of the schema
    file.write_bytes(data.replace(b"tableblobsblobs", b"tableblo\xc5sblobs"))
    with pytest.raises(UserError, match="is damaged: a name in it is no text"):
        brought(file, tmp_path / "other")


BREAKING = {
    "a trigger": ("CREATE TRIGGER t AFTER INSERT ON meta BEGIN SELECT 1; END", "trigger"),
    "a view": ("CREATE VIEW v AS SELECT 1", "view"),
    "a table of its own": ("CREATE TABLE stranger (x)", "stranger"),
    "no meta": ("DROP TABLE meta", "no 'meta'"),
    "a newer version": ("UPDATE meta SET value = '999'", f"reads only version {schema.VERSION}"),
    "a call is missing": ("DELETE FROM calls WHERE key = (SELECT min(key) FROM calls)", "1 recorded calls"),
    "a text is missing": ("DELETE FROM blobs WHERE hash = (SELECT min(hash) FROM blobs)", "1 texts"),
    "a text is another": ("UPDATE blobs SET data = (SELECT max(data) FROM blobs)", "not what its hash says"),
    "a question is missing": ("DELETE FROM questions WHERE position = 2", "not in order"),
    "the last question is missing": ("DELETE FROM questions WHERE position = 11", "questions"),
    "an attempt's body is noise": ("UPDATE attempts SET body = x'00112233'", "does not match its checksum"),
    "a status is none": ("UPDATE attempts SET status = 'fine'", "'fine'"),
    "a reading is none": ("UPDATE scores SET answer_status = 'x'", "'x'"),
    "an epoch too many": ("UPDATE attempts SET epoch = 7", "does not have"),
    "a score is a text": ("UPDATE scores SET value = 'much'", "scores.value"),
    "a text is bytes": ("UPDATE calls SET actor = x'ff'", "calls.actor"),
    "a run's body is noise": ("UPDATE runs SET body = x'00'", "runs"),
    "a scorer that moves the cursor": ("UPDATE scores SET scorer = char(27) || '[2J' || scorer", "control"),
    "a run of another name": ("UPDATE runs SET id = 'x' || id", "not what its row says"),
}


@pytest.mark.parametrize("what", BREAKING)
def test_a_hostile_file_is_one_line_and_writes_nothing(file: Path, tmp_path: Path, what: str) -> None:
    statement, said = BREAKING[what]
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(UserError, match=said):
        brought(file, tmp_path / "other")


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"agent": "\x1b[2Jdirect"}, "control"), ({"id": "../../etc/x"}, "no id"), ({"id": ".."}, "no id")],
)
def test_names_that_do_harm_are_refused(file: Path, tmp_path: Path, fields: dict[str, str], said: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        body = connection.execute("SELECT body FROM runs WHERE number = 1").fetchone()[0]
        run = replace(run_of(body), **fields)
        connection.execute("UPDATE runs SET body = ?, id = ? WHERE number = 1", (run_row(run)["body"], run.id))
    with pytest.raises(UserError, match=said):
        brought(file, tmp_path / "other")


@pytest.mark.slow
def test_a_record_that_swells_is_refused(file: Path, tmp_path: Path) -> None:
    import zstandard

    bomb = zstandard.ZstdCompressor(level=1).compress(b"\0" * (300 << 20))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.row_factory = sqlite3.Row
        for row in connection.execute("SELECT * FROM attempts").fetchall():  # a stranger's file has sums that fit
            kept = summed(schema.attempts, {**dict(row), "body": bomb})
            place = (row["run"], row["question_id"], row["epoch"])
            connection.execute(
                "UPDATE attempts SET body = ?, checksum = ? WHERE run = ? AND question_id = ? AND epoch = ?",
                (bomb, kept["checksum"], *place),
            )
    with pytest.raises(UserError, match="more than 256 MiB"):
        brought(file, tmp_path / "other")


KILLED = """
import os, signal, sys
from ragrounds.extensions.exchange import transfer
from ragrounds.extensions.exchange.transfer import read_runs
from ragrounds.evals.store.database import open_source
from ragrounds.evals.store.store import Store
from ragrounds.base.records import FINAL
transfer.BATCH = 5
left = int(sys.argv[3])
def tell(what, done):
    global left
    if what.startswith("writing"):
        left -= 1
        if left < 0: os.kill(os.getpid(), signal.SIGKILL)
with Store(__import__("pathlib").Path(sys.argv[1])) as store, open_source(sys.argv[2]) as engine:
    transfer.copy_runs(engine, store.engine, read_runs(engine), FINAL, tell)
"""


@pytest.mark.parametrize("batches", [12, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 2, 6, 9))])
def test_killed_in_the_middle_leaves_whole_runs_and_goes_on(
    moved_store: Store, file: Path, tmp_path: Path, batches: int
) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "other"), str(file), str(batches)]
    assert run_python(command, env={**os.environ}).returncode == -signal.SIGKILL
    with Store(tmp_path / "other") as other:
        for run in other.runs():
            assert other.done(run) == moved_store.done(run)
        with open_source(str(file)) as engine:
            moved(engine, other.engine)
        assert everything(other.engine) == everything(moved_store.engine)


# The commands


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["import", "--format", "store", "nowhere.sqlite"], "There is no file nowhere.sqlite"),
        (["import", "--format", "store", "postgresql://me:very-secret@127.0.0.1:9/x"], "127.0.0.1"),
        (["export", "store", "--out", "x"], "contains no runs"),
        (["export", "store", "nothing", "--out", "x"], "There is no run 'nothing'"),
        (["export", "store", "--out", "nowhere/x"], "nowhere"),
    ],
)
def test_one_clear_line(command: Cli, arguments: list[str], said: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "very-secret" not in done.stderr
