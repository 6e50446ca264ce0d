"""Folders and files by any name that a system takes: what is named is what is written, and nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL
from ragrounds.base.specs import Spec, parse
from ragrounds.base.text import file_name
from ragrounds.evals.store import sqlite
from ragrounds.evals.store.database import open_engine, open_source, open_target
from ragrounds.evals.store.run_names import new_run_id
from ragrounds.evals.store.store import Store
from ragrounds.extensions.exchange.formats import run_file_name
from ragrounds.extensions.exchange.transfer import choose_runs, copy_runs
from ragrounds.prompts.loader import PromptFolder
from tests.compare.making import add_run, questions
from tests.conftest import Cli

HOMES = (
    "a?b=c",
    "a#b",
    "a%41b",
    "a&mode=memory",
    "a b;c",
    "ärzt/医学",
    "a\nb",
    "file:x",
    ":memory:",
    "~",
    "x" * 200,
    "a'\"$(x)",
)


def tree(folder: Path) -> set[str]:
    """The folders and files right inside a folder."""
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", HOMES)
def test_a_store_is_where_its_folder_is(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = Path(name) if name in ("file:x", ":memory:") else tmp_path / name
    with Store(home) as store:
        run = add_run(store, "direct", questions(2), [1, 0])
        assert Path(store.location) == home.absolute() / "store.sqlite"
    assert (home / "store.sqlite").stat().st_size > 4096
    assert tree(tmp_path) == {name.partition("/")[0]}
    file = tmp_path / f"{name.replace('/', '')[:150]}.ragrounds"
    with Store(home) as store, open_target(str(file)) as target:
        copy_runs(store.engine, target, choose_runs(store.engine, []), FINAL)
    assert file.is_file()
    with open_source(str(file)) as source:
        assert [found.id for found in choose_runs(source, [run.id])] == [run.id]
    assert tree(tmp_path) == {name.partition("/")[0], file.name}


def test_a_name_that_is_no_utf_8_is_a_name_too(tmp_path: Path) -> None:
    home = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xffb"))
    with Store(home) as store:
        run = add_run(store, "direct", questions(2), [1, 0])
    with open_source(str(home / "store.sqlite")) as source:
        assert [found.id for found in choose_runs(source, [])] == [run.id]


def test_a_path_longer_than_any_is_refused_in_one_line(command: Cli, tmp_path: Path) -> None:
    long = str(tmp_path / ("x" * 5000))
    for line in (("runs", "ls"), ("export", "store", "--out", long), ("import", "--format", "store", long)):
        home = {"RAGROUNDS_HOME": long} if line[0] == "runs" else {}
        done = command(*line, **home)
        assert done.returncode == 2, line
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "url", ["sqlite:////tmp/x", "mysql://me:hunter22@host/x", "hunter22", "postgresql://me:hunter22@h:port/x"]
)
def test_a_store_that_is_no_postgresql_url_is_refused_without_its_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError) as refused:
        open_engine(tmp_path, url)
    assert "postgresql://" in str(refused.value)
    assert "hunter22" not in str(refused.value)


AGENTS = (
    "./mine.py:build",
    "../../mine.py:build",
    "/abs/mine.py:build[k=3]",
    "...",
    "-rf.py:build",
    "con.py:build",
    "COM1.x:build",
    "医学.py:build",
    "a" * 300,
    "é́" * 60,
    "\ud800:x",
    "a\u202eb",
    "[]",
    "",
)


@pytest.mark.parametrize("agent", AGENTS)
def test_any_agent_gives_an_id_that_is_a_file_name(tmp_path: Path, agent: str) -> None:
    id = new_run_id(agent, "0123456789abcdef", [])
    assert id[0].isalnum()
    assert id[-1].isalnum()
    assert len(id.encode()) < 60
    assert not set(id) & set('/\\:*?"<>|\n\r\0 ')
    assert id.partition(".")[0].lower() not in {"con", "com1"}
    assert file_name(id) == id
    (tmp_path / id).write_text("x")
    assert new_run_id(agent, "0123456789abcdef", [id]) == f"{id}-2"


def test_ids_of_older_stores_are_exported_and_come_back(tmp_path: Path) -> None:
    old = (".-mine.py-build-ee1e5f", "-abc123", "_x.py-build-abc123", "...-abc123")
    file = tmp_path / "runs.ragrounds"
    with Store(tmp_path / "one") as store:
        for place, id in enumerate(old):
            add_run(store, f"./mine{place}.py:build", questions(2), [1, 0], id=id)
        with open_target(str(file)) as target:
            copy_runs(store.engine, target, choose_runs(store.engine, []), FINAL)
        names: list[str] = []
        for run in store.runs():
            names.append(run_file_name(run, ".run", names))
        assert names == ["mine.py-build-ee1e5f.run", "abc123.run", "x.py-build-abc123.run", "abc123-2.run"]
    with Store(tmp_path / "two") as other, open_source(str(file)) as source:
        copy_runs(source, other.engine, choose_runs(source, []), FINAL)
        assert [run.id for run in other.runs()] == list(old)


@pytest.mark.parametrize("text", ["./mi\u202ene.py:build", "\x1b[2Jx.py:build", "a\nb", "\ud800", "医学.py:build"])
def test_an_agents_text_can_be_shown_and_typed_again(text: str) -> None:
    spec = Spec(text, {"k": text})
    assert str(spec).isprintable()
    assert parse(str(spec)) == spec
    assert parse(str(spec)).name == text


@pytest.mark.parametrize(
    "name", ["\0", "x" * 9999, "\ud800", "../../../../etc/hostname", "..", "a/../../b", "/etc/x", ""]
)
def test_a_name_that_is_no_name_of_a_file_is_unknown(command: Cli, name: str) -> None:
    for line in (("list", "prompts"), ("list", "graphs"), ("data", "show"), ("list", "agents")):
        done = command(*line, "--", name)
        assert done.returncode == 2, line
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1, line


def test_a_prompt_is_read_inside_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own.md").write_text("[user]\nown")
    prompts = PromptFolder(str(tmp_path / "mine"))
    assert prompts.source("own") == "[user]\nown"
    for name in ("../secret", "x/../../secret", str(tmp_path / "secret")):
        with pytest.raises(UserError, match="There is no prompt"):
            prompts.source(name)


def test_a_commit_is_on_the_disk_when_it_returns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a loss of power would show it, and the stores of tests do without: tests/conftest.py."""
    given: list[str] = []
    monkeypatch.setattr(sqlite, "_with", lambda engine, pragmas: given.extend(pragmas))
    sqlite.open_file(tmp_path / "store.sqlite")
    assert {"journal_mode=WAL", "synchronous=FULL"} <= {*given}
