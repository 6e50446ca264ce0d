"""The store has one version: another one's is refused in one line. Processes that open a new store make it once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

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
