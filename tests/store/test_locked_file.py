"""A store that another process has locked is waited for, and the wait is reported within two seconds."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
import sqlalchemy as sa

from ragrounds.base.errors import StopRun
from ragrounds.evals.store import locked_file, schema
from ragrounds.evals.store.database import exclusive_transaction, insert_new, write
from ragrounds.evals.store.store import Store

LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
connection.execute("COMMIT")
"""
"""Hold the lock of a file until standard input is closed."""


@pytest.fixture
def locked(tmp_path):
    """A store that another process has locked, with its number and the function that ends this."""
    command = [sys.executable, "-I", "-c", LOCK, str(tmp_path / "store.sqlite")]
    with Store(tmp_path) as store, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"locked\n"
        yield store, process.pid, process.stdin.close
        process.stdin.close()


def meta(key):
    """Return a row."""
    return {"key": key, "value": "x"}


def by_write(store):
    write(store.engine, lambda connection: connection.execute(insert_new(store.engine, schema.meta), meta("a")))


def by_exclusive(store):
    with exclusive_transaction(store.engine) as connection:
        connection.execute(insert_new(store.engine, schema.meta), meta("a"))


def after_reading(store):
    with store.engine.begin() as connection:
        assert connection.execute(sa.select(schema.meta.c.value)).all()
        connection.execute(insert_new(store.engine, schema.meta), [meta("a"), meta("b")])


def by_writer(store):
    async def put():
        await store.writer.write(lambda: [(schema.meta, meta("a"))])

    asyncio.run(put())


@pytest.mark.parametrize("change", [by_write, by_exclusive, after_reading, by_writer])
def test_a_locked_store_is_waited_for_and_named(locked, change, capfd):
    store, pid, release = locked
    started, reported = time.monotonic(), []

    def end_lock():
        while not reported and time.monotonic() < started + 30:
            if "Waiting" in (text := capfd.readouterr().err):
                reported.append((time.monotonic() - started, text))
            time.sleep(0.05)
        release()

    thread = threading.Thread(target=end_lock)
    thread.start()
    change(store)
    thread.join()
    ((seconds, text),) = reported
    assert text.startswith(f"Waiting for the store {store.location}, which process {pid} (")
    assert text.endswith(") has locked.\n")
    assert seconds < 4  # two seconds on a machine without other load
    with store.engine.connect() as connection:
        assert connection.execute(sa.select(schema.meta.c.value).where(schema.meta.c.key == "a")).scalar() == "x"


def test_a_lock_that_does_not_end_is_an_error(locked, monkeypatch):
    store, *_ = locked
    monkeypatch.setattr(locked_file, "_SECONDS", 0.5)
    with pytest.raises(StopRun, match="database is locked"):
        by_write(store)


def test_a_short_lock_is_waited_for_without_a_message(tmp_path, capfd):
    with Store(tmp_path) as store:
        other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, other.execute, ("COMMIT",)).start()
        after_reading(store)
        other.close()
    assert not capfd.readouterr().err


def test_a_file_that_another_process_makes_is_waited_for(tmp_path):
    """SQLite itself does not wait to switch a file to a write-ahead log."""
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.8, other.execute, ("COMMIT",)).start()
    with Store(tmp_path) as store, store.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    other.close()


def test_an_old_state_of_the_file_is_an_error_at_once(tmp_path):
    with Store(tmp_path) as store, store.engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        assert connection.execute(sa.select(schema.meta.c.value)).all()
        by_write(store)
        started = time.monotonic()
        with pytest.raises(sa.exc.OperationalError, match="locked"):
            connection.execute(insert_new(store.engine, schema.meta), meta("b"))
        assert time.monotonic() - started < 1
