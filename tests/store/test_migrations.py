"""Stores of earlier versions: opened by the code of today, nothing lost; killed in the middle, as they were."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ragrounds.errors import UserError
from ragrounds.evals.store import database, schema
from ragrounds.evals.store.arenas import ArenaStore
from ragrounds.evals.store.migrations import MIGRATIONS
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import trace
from tests.store.old import contents, version_1, version_1_postgresql


def shape(engine: sa.Engine) -> dict[str, Any]:
    """Tables as the database describes them: columns in any order, keys, indexes."""
    looked = sa.inspect(engine)
    found: dict[str, Any] = {}
    for table in sorted(looked.get_table_names()):
        found[table] = {
            "columns": {c["name"]: (str(c["type"]), c["nullable"]) for c in looked.get_columns(table)},
            "key": looked.get_pk_constraint(table)["constrained_columns"],
            "foreign": [(key["constrained_columns"], key["options"]) for key in looked.get_foreign_keys(table)],
            "unique": sorted(key["column_names"] for key in looked.get_unique_constraints(table)),
            "indexes": sorted(index["column_names"] for index in looked.get_indexes(table)),
        }
    return found


def check(store: Store) -> None:
    """What the old store holds, read by the code of today."""
    first, second = store.runs()
    assert (first.agent, second.agent) == ("direct", "vanilla_rag[top_k=2]")
    for run in (first, second):
        assert set(store.done(run).values()) == {"completed"}
        assert len(store.done(run)) == run.count == 3
        assert {score.scorer for score in store.scores(run)} >= {"strict", "facts"}
        for attempt in store.attempts(run):
            traced = trace(store, run, attempt.question_id)
            replies = [call.reply for step in traced.steps for call in step.calls if call.call.kind == "model"]
            assert [reply.text for reply in replies if reply] == [attempt.text]
    keeper = ArenaStore(store)
    assert len(keeper.judgements(1)) == 2
    assert [(vote.voter, vote.outcome) for vote in keeper.votes(1)] == [("ann", "first")]


def test_the_steps_lead_to_the_newest_version_one_by_one() -> None:
    assert [migration.version for migration in MIGRATIONS] == list(range(2, schema.VERSION + 1))


def test_a_store_of_version_1_opens_with_all_it_holds(tmp_path: Path) -> None:
    version_1(tmp_path / "old")
    with Store(tmp_path / "old") as old, Store(tmp_path / "new") as new:
        check(old)
        assert shape(old.engine) == shape(new.engine)
    with Store(tmp_path / "old") as again:
        check(again)


@pytest.mark.slow
def test_the_same_on_postgresql(url: str, tmp_path: Path) -> None:
    version_1_postgresql(url, tmp_path / "scratch")
    with Store(tmp_path, url) as old:
        check(old)
        migrated = shape(old.engine)
        with old.engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
    with Store(tmp_path, url) as new:
        assert shape(new.engine) == migrated


def test_a_store_from_before_arenas_gets_them(tmp_path: Path) -> None:
    path = version_1(tmp_path)
    with sqlite3.connect(path) as connection:
        for table in ("votes", "judgements", "arenas"):
            connection.execute(f"DROP TABLE {table}")
    connection.close()
    with Store(tmp_path) as store:
        assert ArenaStore(store).arenas() == []


@pytest.mark.parametrize("said", ["99", "0", "two", ""])
def test_a_version_that_is_none_of_ours_is_one_line(tmp_path: Path, said: str) -> None:
    path = version_1(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE meta SET value = ?", (said,))
    connection.close()
    before = contents(path)
    with pytest.raises(UserError, match="this ragrounds knows up to"):
        Store(tmp_path)
    assert contents(path) == before


SLOW = """
import sys, time
from pathlib import Path
from ragrounds.evals.store import database, migrations
last = migrations.MIGRATIONS[-1]
def slowly(connection):
    last.apply(connection)
    print("inside", flush=True)
    time.sleep(float(sys.argv[3]))
database.MIGRATIONS = (*migrations.MIGRATIONS[:-1], migrations.Migration(last.version, slowly))
from ragrounds.evals.store.store import Store
with Store(Path(sys.argv[1]), sys.argv[2] or None) as store:
    print(len(store.runs()), flush=True)
"""


def slow_opening(home: Path, url: str = "", seconds: float = 60.0) -> subprocess.Popen[str]:
    """A process inside the last step of a migration."""
    command = [sys.executable, "-c", SLOW, str(home), url, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n", process.communicate()
    return process


@pytest.mark.slow
def test_a_migration_killed_in_the_middle_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = version_1(tmp_path / "before")
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", MIGRATIONS[:-1])
        database.open_engine(tmp_path / "before").dispose()
    path = version_1(tmp_path / "killed")
    process = slow_opening(tmp_path / "killed")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert contents(path) == contents(before)
    with Store(tmp_path / "killed") as store:
        check(store)


@pytest.mark.slow
def test_killed_in_the_middle_on_postgresql(url: str, tmp_path: Path) -> None:
    version_1_postgresql(url, tmp_path / "scratch")
    process = slow_opening(tmp_path, url)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with Store(tmp_path, url) as store:  # waits until the server has seen the other end gone
        check(store)


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
@pytest.mark.slow
def test_who_opens_meanwhile_waits_and_finds_it_done(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = ""
    if place == "postgresql":
        url = request.getfixturevalue("url")
        version_1_postgresql(url, tmp_path / "scratch")
    else:
        version_1(tmp_path)
    process = slow_opening(tmp_path, url, 1.0)
    with Store(tmp_path, url or None) as store:
        check(store)
    told, errors = process.communicate()
    assert (told, process.returncode) == ("2\n", 0), errors


@pytest.mark.parametrize("place", ["sqlite", "postgresql"])
@pytest.mark.slow
def test_many_processes_make_one_store(place: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("url") if place == "postgresql" else ""
    code = (
        "import sys; from pathlib import Path; from ragrounds.evals.store.store import Store\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "with Store(Path(sys.argv[1]), sys.argv[2] or None) as store: print(len(store.runs()))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "home"), url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(command, text=True, **pipes) for _ in range(6)]  # type: ignore[call-overload]
    for process in started:  # all have imported what they need and wait for the line
        assert process.stdout.readline() == "ready\n"
    ended = [process.communicate("\n") for process in started]
    assert ended == [("0\n", "")] * 6
