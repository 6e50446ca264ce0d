"""A run is resumed where all that it has read is the same: else another begins, and what differs is named.

Everything goes through the command line; the model server is real, on loopback, and counts what it is asked.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragrounds.agents.systems import reads
from ragrounds.evals.store.reads import reads_of
from ragrounds.evals.store.store import Store
from ragrounds.models.started_server import free_port
from tests.conftest import Cli
from tests.forked import ForkedPython, run_python
from tests.servers.process import openai_server

NO_MODEL = """
import importlib, os, sqlite3
from pathlib import Path

HERE = Path(__file__).parent
COUNT = []
{above}

def answer(prompt: str) -> str:
    COUNT.append(prompt)
    {each}
    return prompt + str({more})
"""
"""A user's system without a client: half of what a host takes, for tests that count no calls."""


@pytest.mark.slow
def test_a_csv_that_only_a_later_question_reads(write: Any, ran: Any, tmp_path: Path, command: Cli) -> None:
    facts = tmp_path / "data" / "facts.csv"
    facts.parent.mkdir()
    facts.write_text("a,b\n")
    write("(HERE / 'data' / 'facts.csv').read_text() if len(COUNT) == 3 else ''")
    first = ran()
    assert first.asked == 3
    os.utime(facts)  # touched, and not changed
    assert ran()[:2] == (first.run, 0)
    facts.write_text("a,c\n")
    second = ran()
    assert second.run != first.run
    assert f"{second.run} is a new run: since {first.run}, the file data/facts.csv changed; only calls" in second.said
    assert second.asked == 1  # the other questions are answered from the journal
    facts.write_text("a,b\n")
    assert ran()[:2] == (first.run, 0)
    differing = command("runs", "diff", first.run, second.run, "--json")
    assert [(one["kind"], one["name"]) for one in json.loads(differing.stdout)["differences"]] == [
        ("file", "data/facts.csv")
    ]
    assert "data/facts.csv" in command("runs", "diff", first.run, second.run).stdout
    assert "Everything that they depend on is the same" in command("runs", "diff", first.run, first.run).stderr


def test_an_index_of_sqlite(write: Any, ran: Any, tmp_path: Path) -> None:
    def fill(word: str) -> None:
        with sqlite3.connect(tmp_path / "index.db") as made:
            made.execute("create table if not exists t(a)")
            made.execute("delete from t")
            made.execute("insert into t values (?)", (word,))
        made.close()

    fill("one")
    write("sqlite3.connect(HERE / 'index.db').execute('select * from t').fetchall() if len(COUNT) == 2 else ''")
    first = ran()
    fill("two")
    second = ran()
    assert f"since {first.run}, the file index.db changed" in second.said
    assert second.asked == 1


def test_a_folder_that_code_in_c_would_read(write: Any, ran: Any, tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "vectors.faiss").write_text("1")
    (tmp_path / "mine.toml").write_text('system = "./mine.py:answer"\nreads = ["./index"]\n')
    write(text=NO_MODEL)
    first = ran("--limit", "1", agent="./mine.toml")
    assert ran("--limit", "1", agent="./mine.toml")[:2] == (first.run, 0)
    (tmp_path / "index" / "vectors.faiss").write_text("2")
    assert f"since {first.run}, the file index/vectors.faiss changed" in ran("--limit", "1", agent="./mine.toml").said


def test_a_variable_of_a_computed_name(write: Any, ran: Any) -> None:
    write("os.environ.get('DEP' + 'TH', '') if len(COUNT) == 2 else ''")
    first = ran()
    second = ran(DEPTH="2")
    assert f"since {first.run}, the variable DEPTH changed (2, was not there)" in second.said
    assert second.asked == 1
    assert ran()[:2] == (first.run, 0)


def test_an_own_module_that_is_imported_late(write: Any, ran: Any, tmp_path: Path) -> None:
    late = tmp_path / "wording_of_late.py"
    late.write_text("SAID = 'one'\n")
    write("importlib.import_module('wording' + '_of_late').SAID if len(COUNT) == 2 else ''", text=NO_MODEL)
    first = ran()
    late.write_text("# A comment.\nSAID = 'one'\n")
    assert ran()[:2] == (first.run, 0)
    late.write_text("SAID = 'two'\n")
    second = ran()
    assert f"since {first.run}, its code changed (wording_of_late.py)" in second.said


def test_the_nearest_run_is_named_and_not_the_newest(write: Any, ran: Any, tmp_path: Path) -> None:
    facts = tmp_path / "facts.csv"
    write("open('facts.csv').read()", above="DEPTH = os.environ.get('DEPTH')", text=NO_MODEL)
    facts.write_text("1")
    first = ran("--limit", "1")
    write("open('facts.csv').read() + '!'", above="DEPTH = os.environ.get('DEPTH', '1')", text=NO_MODEL)
    facts.write_text("2")
    newest = ran("--limit", "1", DEPTH="7")
    write("open('facts.csv').read()", above="DEPTH = os.environ.get('DEPTH')", text=NO_MODEL)
    facts.write_text("3")
    third = ran("--limit", "1")
    assert f"since {first.run}, the file facts.csv changed;" in third.said
    assert newest.run not in third.said


def test_a_file_that_changes_while_the_run_goes_on(
    write: Any, ran: Any, tmp_path: Path, home: Path, command: Cli
) -> None:
    """Somebody else writes it: a process that the system starts."""
    (tmp_path / "facts.csv").write_text("1")
    other = "os.system(f'echo {len(COUNT)} > facts.csv')"
    write("open('facts.csv').read()", each=f"{other} if len(COUNT) == 2 else None")
    first = ran()
    assert f"{first.run}: the file facts.csv changed during the run: its attempts used both versions." in " ".join(
        command("compare", first.run).stdout.split()
    )
    with Store(home) as store:
        assert [one.name for one in reads_of(store, store.run(first.run)) if one.kind == "file"] == ["facts.csv"] * 2


def test_a_file_that_changes_while_its_digest_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest is the one of the later version, so it may not count as the one of the version that was read."""
    facts = tmp_path / "facts.csv"
    facts.write_text("1")
    opened = {str(facts): (1, facts.stat().st_mtime_ns)}
    digest = reads._file_digest

    def overtaken(path: Path) -> str:
        facts.write_text("22")
        return digest(path)

    monkeypatch.setattr(reads, "_file_digest", overtaken)
    dependencies = reads.RecordedDependencies()
    was = dependencies.as_read("file", "facts.csv", facts, opened)
    opened = {str(facts): (2, facts.stat().st_mtime_ns)}
    monkeypatch.setattr(reads, "_file_digest", digest)
    assert was.value != dependencies.as_read("file", "facts.csv", facts, opened).value


CACHE = "C.write_text(json.dumps((json.loads(C.read_text()) if C.exists() else []) + [prompt]))"
WRITES = {
    "log": ("import logging\nlogging.basicConfig(filename=HERE / 'mine.log', level='INFO')", "logging.info(prompt)"),
    "cache": ("import json\nC = HERE / 'cache.json'", CACHE),
    "sqlite": (
        "DB = sqlite3.connect('mine.db', check_same_thread=False); DB.execute('create table if not exists t(a)')",
        "DB.execute('insert into t values (?)', (prompt,)); DB.commit()",
    ),
}
FIRST, *OTHERS = WRITES


@pytest.mark.slow
@pytest.mark.parametrize("kind", [FIRST, *(pytest.param(kind, marks=pytest.mark.weekly) for kind in OTHERS)])
def test_a_system_that_writes_into_its_own_folder_is_killed_and_resumed(
    kind: str, write: Any, tmp_path: Path, home: Path
) -> None:
    above, each = WRITES[kind]
    with openai_server("--latency", "0.1") as server:
        write(above=above, each=each, url=server.url)
        words = "run --agent ./mine.py:answer --limit 8 --concurrency 1 --display none --json"
        command = [sys.executable, "-m", "ragrounds", *words.split()]
        begun = ForkedPython(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while server.stats()["answered"] < 4 and begun.poll() is None:
            pass
        begun.send_signal(signal.SIGKILL)
        begun.communicate()
        done = run_python(command, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "resumes: " in done.stderr
        assert "is a new run" not in done.stderr
        assert len(server.stats()["answered_twice"]) <= 1  # the one that was in flight
        again = run_python(command, cwd=tmp_path, timeout=120)
        assert "is a new run" not in again.stderr, again.stderr
        assert json.loads(again.stdout)["rows"][0]["run"] == json.loads(done.stdout)["rows"][0]["run"]
        assert server.stats()["answered"] <= 9


LISTED = {"above": "KNOWN = os.listdir(HERE / 'cache')", "each": "(HERE / 'cache' / str(len(COUNT))).write_text('')"}


def test_a_listed_folder_with_files_that_the_system_writes_again(write: Any, ran: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    for number in (1, 2, 3):
        (tmp_path / "cache" / str(number)).touch()
    write(**LISTED, text=NO_MODEL)
    first = ran()
    assert ran()[:2] == (first.run, 0)
    (tmp_path / "cache" / "4").touch()
    assert f"since {first.run}, the folder cache changed" in ran().said


def test_a_command_killed_in_its_first_attempt_leaves_no_second_run(
    write: Any, ran: Any, tmp_path: Path, home: Path
) -> None:
    (tmp_path / "cache").mkdir()
    write(above=LISTED["above"], each=f"{LISTED['each']}; 'ENDS' in os.environ and os.kill(os.getppid(), 9)")
    words = ["run", "--agent", "./mine.py:answer", "--limit", "3", "--display", "none"]
    killed = run_python([sys.executable, "-m", "ragrounds", *words], cwd=tmp_path, env={**os.environ, "ENDS": "1"})
    assert killed.returncode == -signal.SIGKILL
    with Store(home) as store:
        (empty,) = store.runs()
        assert not store.done(empty)
    again = ran()
    assert (again.run, again.asked) == (empty.id, 3)
    with Store(home) as store:
        assert [run.id for run in store.runs()] == [empty.id]


@pytest.mark.slow
def test_another_model_behind_the_same_address(write: Any, ran: Any, tmp_path: Path) -> None:
    """By what the server lists; its answers are never those of the first one's."""
    port = str(free_port())
    listed = [json.dumps([{"id": "a", "root": root}]) for root in ("/weights/one", "/weights/two")]
    found = []
    for told in (*listed, listed[0]):
        with openai_server("--port", port, "--listed", told) as server:
            write(url=server.url)
            found.append(ran(of=server))
    assert [one.asked for one in found] == [3, 3, 0]
    assert found[0].run == found[2].run != found[1].run
    assert "reported root /weights/one, and now reports root /weights/two" in found[1].said


BY_CHILD = {
    "program": "COUNT.append(subprocess.run([sys.executable, str(HERE / 'child.py')], capture_output=True).stdout)",
    "fork": "reads_in_fork()",
    "pool": "COUNT.append(multiprocessing.get_context('fork').Pool(1).apply(read_facts))",
}
CHILDREN = """
import multiprocessing, subprocess, sys

def read_facts():
    return (HERE / "facts.csv").read_text()

def reads_in_fork():
    if not (child := os.fork()):
        try: read_facts()
        finally: os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("kind", BY_CHILD)
def test_a_file_that_only_a_child_process_reads(kind: str, write: Any, ran: Any, tmp_path: Path) -> None:
    facts = tmp_path / "facts.csv"
    facts.write_text("one")
    (tmp_path / "child.py").write_text(
        "from pathlib import Path\nprint(Path(__file__).with_name('facts.csv').read_text())"
    )
    write(above=CHILDREN, each=BY_CHILD[kind], text=NO_MODEL)
    first = ran("--limit", "1")
    again = ran("--limit", "1")
    assert (again.run, "stale" in again.said) == (first.run, False)
    facts.write_text("another")
    second = ran("--limit", "1")
    assert second.run != first.run
    assert f"since {first.run}, the file facts.csv changed;" in second.said


def test_a_run_with_calls_that_were_not_recorded_may_be_stale(write: Any, ran: Any, tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("one")
    write(above="import subprocess", each="subprocess.run(['cat', str(HERE / 'facts.csv')], capture_output=True)")
    first = ran()
    assert "stale" not in first.said
    (tmp_path / "facts.csv").write_text("another")
    again = ran()
    assert again.run == first.run
    assert f"{first.run} may be stale: " in again.said
    assert "are not recorded (a process: cat), and what they read may have changed since. --new" in again.said
