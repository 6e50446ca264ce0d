"""A later version's store is refused in one line, an earlier one's is migrated once, and 1.0.0rc1's is read."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import open_source
from ragrounds.evals.store.store import Store
from tests.forked import ForkedPython
from tests.store.making import contents


@pytest.mark.parametrize("said", [str(schema.VERSION + 1), "0", "two", ""])
def test_another_version_is_refused_in_one_line_and_stays_as_it_is(tmp_path: Path, said: str) -> None:
    with Store(tmp_path) as made, made.engine.begin() as connection:
        connection.execute(sa.update(schema.meta).where(schema.meta.c.key == "version").values(value=said))
    path = tmp_path / "store.sqlite"
    before = contents(path)
    refused = rf"store\.sqlite has version {said}; this ragrounds reads only version {schema.VERSION}\. [^\n]*export"
    with pytest.raises(UserError, match=refused):
        Store(tmp_path)
    with pytest.raises(UserError, match=refused), open_source(str(path)):
        pass
    assert contents(path) == before


def add_colour(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT")


def fail_halfway(connection: sa.Connection) -> None:
    add_colour(connection)
    raise UserError("halfway")


def test_an_earlier_version_is_migrated_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    Store(tmp_path).close()
    before = contents(path)
    monkeypatch.setattr(schema, "VERSION", schema.FIRST_VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", (fail_halfway,))
    with pytest.raises(UserError, match="halfway"):
        Store(tmp_path)
    with pytest.raises(UserError, match=r"version 2, and a file that is read is never changed"), open_source(str(path)):
        pass
    assert contents(path) == before
    monkeypatch.setattr(schema, "MIGRATIONS", (add_colour,))
    for _ in range(2):  # a second opening must not repeat the step
        Store(tmp_path).close()
    with open_source(str(path)) as engine:
        assert "colour" in {column["name"] for column in sa.inspect(engine).get_columns("runs")}


RELEASED = sorted(Path(__file__).with_name("released").glob("*.sqlite.gz"))
"""Stores that releases made: two agents on four questions of the sample, by the built-in baseline."""


@pytest.mark.parametrize("file", RELEASED, ids=lambda file: file.name.removesuffix(".sqlite.gz"))
def test_a_store_of_a_release_is_whole_and_gives_the_same_figures(file: Path, tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(gzip.decompress(file.read_bytes()))
    assert rr.doctor(home=tmp_path, store=True).contents.damaged == 0
    compared = rr.compare(["direct", "vanilla_rag[top_k=2]"], home=tmp_path).comparison
    figures = {table.scorer: [line.overall.value for line in table.lines] for table in compared.tables}
    assert figures["strict"] == [0.5, 0.5]  # of two questions with options: one abstention each
    assert figures["facts"] == [0.0, 0.875]
    assert [row.statuses for row in compared.rows] == [{"completed": 4}] * 2


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
    started = [ForkedPython(command, text=True, **pipes) for _ in range(6)]  # type: ignore[call-overload]
    for process in started:  # all have imported what they need and wait for the line
        assert process.stdout.readline() == "ready\n"
    ended = [process.communicate("\n") for process in started]
    assert ended == [("0\n", "")] * 6
