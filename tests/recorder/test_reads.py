"""What the recorder hears of what a system reads: in a process of its own, as a host is."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragrounds.recorder.reads import is_data

PACKAGE = Path(__file__).resolve().parents[2] / "ragrounds/recorder"
HEARD = """
import importlib.util, json, os, sys
made = importlib.util.spec_from_file_location(
    "ragrounds_recorder", {package!r} + "/__init__.py", submodule_search_locations=[{package!r}])
sys.modules["ragrounds_recorder"] = package = importlib.util.module_from_spec(made)
made.loader.exec_module(package)
from ragrounds_recorder.reads import READS, Reads
reads = Reads()
sys.path.insert(0, os.getcwd())
open("before.txt").read()
READS.set(reads)
import mine
mine.go()
print(json.dumps(reads.take()))
assert reads.take() == {{}}
"""
MINE = """
import importlib, json, logging, os, pathlib, sqlite3, subprocess, tempfile
import helper

logging.basicConfig(filename="mine.log")
PAGES = sorted(pathlib.Path("pages").glob("*.md"))


def go():
    {go}
"""


@pytest.fixture
def heard(tmp_path: Path) -> Any:
    (tmp_path / "helper.py").write_text("X = 1\n")
    (tmp_path / "later.py").write_text("X = 1\n")
    (tmp_path / "facts.csv").write_text("a,b\n")
    (tmp_path / "before.txt").write_text("read by somebody else\n")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "one.md").write_text("1")

    def heard(go: str, **environment: str) -> dict[str, dict[str, Any]]:
        (tmp_path / "mine.py").write_text(MINE.format(go=go))
        done = subprocess.run(
            [sys.executable, "-c", HEARD.format(package=str(PACKAGE))],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        said: dict[str, dict[str, Any]] = json.loads(done.stdout)
        return {
            kind: {key.replace(f"{tmp_path}/", ""): value for key, value in held.items()} for kind, held in said.items()
        }

    return heard


def test_the_standard_library_as_an_archive_is_no_file_of_a_system(heard: Any) -> None:
    """It stands in ``sys.path`` whether it is there or not."""
    found = heard(
        """import contextlib, sys
    open("facts.csv").read()
    with contextlib.suppress(OSError):
        open(next(one for one in sys.path if one.endswith(".zip")))""",
        HOME="/nowhere",  # Python may be installed in a hidden folder of the user's home, of which nothing counts
    )
    assert "facts.csv" in found["files"]
    assert not [name for name in found["files"] if name.endswith(".zip")]


def test_a_folder_in_memory_is_a_user_s_and_a_file_beside_it_is_shared_memory() -> None:
    assert is_data("/dev/shm/project/prompt.txt")
    assert not is_data("/dev/shm/psm_1a2b3c4d")
    assert not is_data("/dev/urandom")


def test_files_that_are_read_are_heard_and_those_that_are_written_are_apart(heard: Any, tmp_path: Path) -> None:
    found = heard(
        "open('facts.csv').read(); logging.warning('x'); open('mine.log').read();"
        " pathlib.Path('out.txt').write_text('x'); os.replace('out.txt', 'kept.txt'); open('kept.txt').read();"
        " open('/etc/hostname'); open(json.__file__)"
    )
    read = {name for name in found["files"] if not name.endswith(".py")}
    assert read == {"facts.csv"}
    assert found["files"]["facts.csv"] == [4, (tmp_path / "facts.csv").stat().st_mtime_ns]
    assert set(found["written"]) >= {"mine.log", "out.txt", "kept.txt"}
    assert list(found["folders"]) == ["pages"]


def test_of_a_file_that_changes_the_last_read_counts(heard: Any, tmp_path: Path) -> None:
    found = heard(
        "open('facts.csv').read(); subprocess.run(['/bin/sh', '-c', 'echo c,d >> facts.csv'], check=True);"
        " open('facts.csv').read()"
    )
    assert found["files"]["facts.csv"] == [8, (tmp_path / "facts.csv").stat().st_mtime_ns]


def test_a_file_that_is_looked_for_and_is_not_there(heard: Any) -> None:
    found = heard("exec('try: open(\"override.json\")\\nexcept OSError: pass')")
    assert found["files"]["override.json"] == [-1, -1]


@pytest.mark.parametrize(
    ("go", "written"),
    [
        ("list(sqlite3.connect('facts.db').execute('select * from t'))", False),
        ("sqlite3.connect('file:facts.db?mode=ro', uri=True).execute('select * from t').fetchall()", False),
        ("sqlite3.connect('facts.db').execute('create table if not exists t(a)')", False),
        ("sqlite3.connect('facts.db').execute('create temp table z(a)').execute('insert into z values (1)')", False),
        ("sqlite3.connect('facts.db').execute('insert into t values (2)')", False),  # it is not committed
        ("sqlite3.connect('facts.db', isolation_level=None).execute('insert into t values (2)')", True),
        ("sqlite3.connect('facts.db').executescript('pragma journal_mode=wal; insert into t values (2)')", True),
        ("sqlite3.connect('new.db').execute('create table t(a)')", True),
    ],
)
def test_a_database_is_read_until_rows_are_written(heard: Any, tmp_path: Path, go: str, written: bool) -> None:
    with sqlite3.connect(tmp_path / "facts.db") as made:
        made.execute("create table t(a)")
        made.execute("insert into t values (1)")
    made.close()
    found = heard(go)
    name = "new.db" if "new.db" in go else "facts.db"
    assert (name in found["written"]) is written
    assert written or name in found["files"]


def test_threads_that_share_a_connection_do_not_wait_for_each_other(heard: Any, tmp_path: Path) -> None:
    """SQLite holds a connection's mutex while it prepares a statement: no Python may run then."""
    with sqlite3.connect(tmp_path / "facts.db") as connection:
        connection.execute("create table t(a)")
        connection.executemany("insert into t values (?)", [(f"row {number}",) for number in range(2000)])
    connection.close()
    lines = (
        "import threading",
        "shared = sqlite3.connect('facts.db', check_same_thread=False)",
        # Statements that differ are prepared each time.
        "select = lambda n: shared.execute(f'select a from t where a like ? limit {n}', ['%1%']).fetchall()",
        "ask = lambda: [select(n) for n in range(400)]",
        "threads = [threading.Thread(target=ask) for _ in range(3)]",
        "[thread.start() for thread in threads]; [thread.join() for thread in threads]",
    )
    found = heard("; ".join(lines))
    assert "facts.db" in found["files"]
    assert "facts.db" not in found.get("written", {})


def test_variables_that_own_files_ask_for(heard: Any) -> None:
    found = heard(
        "os.environ['MODEL']; os.getenv('MO' + 'DEL2'); 'FLAG' in os.environ; os.environ.get('MY_API_KEY');"
        " dict(os.environ); {**os.environ}; os.environ.copy(); list(os.environ.items());"
        " subprocess.run([sys.executable, '-c', ''], env={**os.environ, 'MORE': '1'}) if False else None;"
        " os.environ.setdefault('SET_HERE', '1'); os.environ['SET_HERE']",
        MODEL="a", UNUSED="1", MY_API_KEY="k",
    )  # fmt: skip
    assert found["variables"] == {"MODEL": "a", "MODEL2": None, "FLAG": None}


def test_own_modules_however_they_are_imported(heard: Any, tmp_path: Path) -> None:
    found = heard("importlib.import_module('la' + 'ter')")
    assert {name: found["modules"][name] for name in ("mine", "helper", "later")} == {
        name: str(tmp_path / f"{name}.py") for name in ("mine", "helper", "later")
    }
    assert set(found["imported"]) == {"mine", "helper", "later"}
    assert not any(name.startswith(("ragrounds", "json")) for name in found["modules"])
