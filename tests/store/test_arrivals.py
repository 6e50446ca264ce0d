"""What had arrived when the process was killed is never asked for again, committed or not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Reply
from ragrounds.evals.store.journal import Arrivals, StoreJournal
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import attempts
from tests.forked import ForkedPython
from tests.servers.process import openai_server
from tests.store.making import arrival_files

KEY = "ab" * 32
SLOW = """
import sys
import time
from ragrounds.evals.store import writer
writer.Writer._commit = lambda *_: time.sleep(3600)  # responses arrive, and no commit ever comes
from ragrounds.cli import main
sys.argv[0] = "ragrounds"
main()
"""
MODEL = "openai:m[alias=s,price_input=1.0,price_output=1.0]"


@pytest.mark.slow
def test_killed_between_arrival_and_commit(command: Cli, home: Path, tmp_path: Path) -> None:
    with openai_server() as server:
        options = ["run", "--agent", "direct", "--limit", "5", "--concurrency", "5", "--display", "none"]
        options += ["--model", MODEL, "--base-url", server.url]
        words = [sys.executable, "-c", SLOW, *options]
        process = ForkedPython(words, env={**os.environ}, cwd=tmp_path, stderr=subprocess.DEVNULL)
        while server.stats()["answered"] < 5 or not (found := arrival_files(home)) or waiting(found[0]) < 5:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = command(*options)
        assert done.returncode == 0, done.stderr
        assert server.stats()["asked"] == 5
        with Store(home) as store:
            kept = attempts(store, store.runs()[0])
        assert {attempt.status for attempt in kept.values()} == {"completed"}
        full_prices = [attempt.cost_uncached for attempt in kept.values()]
        assert len(full_prices) == 5
        assert min(full_prices) > 0
        assert [attempt.cost_paid for attempt in kept.values()] == full_prices  # paid once, by them
        assert len(arrival_files(home)) == 1  # the dead one's, which this process did not know to be done with
        assert command(*options, "--new").returncode == 0
        assert arrival_files(home) == []
        assert server.stats()["asked"] == 5


def waiting(path: Path) -> int:
    from ragrounds.evals.store.journal import _read

    return len(list(_read(path)))


@pytest.mark.slow
async def test_who_asks_the_same_meanwhile_waits_for_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        written(tmp_path, store.location)
        journal = StoreJournal(store)
        entry = Entry(key=f"{0:064x}", kind="model", actor="m", request=Request(messages=()), payer=b"12345678")
        made: list[str] = []

        async def make() -> Reply:
            made.append("again")
            return Reply(text="again")

        asked = [journal.once(entry, make, Reply) for _ in range(3)]
        told = await asyncio.gather(*asked)
        assert [(reply.text, cached) for reply, cached in told] == [
            ("reply 0", False),  # paid by the asking attempt in its first life
            ("reply 0", True),
            ("reply 0", True),
        ]
        assert made == []
        other = replace(entry, payer=b"87654321")
        assert (await journal.once(other, make, Reply))[1]
        journal.close()


WRITES = """
import os, signal, sys
from pathlib import Path
from ragrounds.evals.store.journal import Arrivals
from ragrounds.base.records import Reply
arrivals = Arrivals(Path(sys.argv[1]), sys.argv[2])
for number in range(3):
    arrivals.note(f"{number:064x}", b"12345678", 1.0, 0.5, Reply(text=f"reply {number}"))
os.kill(os.getpid(), getattr(signal, sys.argv[3]))
"""


def written(home: Path, place: str = "store", end: str = "SIGKILL") -> subprocess.Popen[bytes]:
    process = ForkedPython([sys.executable, "-c", WRITES, str(home), place, end], env={**os.environ})
    if end == "SIGKILL":
        process.wait()
    return process


def left(home: Path, place: str = "store", recorded: frozenset[str] = frozenset()) -> set[str]:
    arrivals = Arrivals(home, place)
    arrivals.collect(lambda keys: set(keys) & recorded)
    return {key for key in (f"{number:064x}" for number in range(3)) if arrivals.take(key)}


@pytest.mark.slow
def test_a_record_that_was_cut_ends_the_file(tmp_path: Path) -> None:
    written(tmp_path)
    (path,) = arrival_files(tmp_path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        assert left(tmp_path) == {f"{number:064x}" for number in range(size * 3 // len(data))}
        path.write_bytes(data)
    path.write_bytes(os.urandom(len(data)))
    assert left(tmp_path) == set()


@pytest.mark.slow
def test_other_stores_other_machines_and_the_living_are_left_alone(tmp_path: Path) -> None:
    written(tmp_path, "another store")
    assert left(tmp_path, "store") == set()
    process = written(tmp_path, "store", "SIGSTOP")
    try:
        while not process.poll() and len(arrival_files(tmp_path)) < 2:
            time.sleep(0.02)
        assert left(tmp_path, "store") == set()
    finally:
        process.kill()
        process.wait()
    (path,) = [path for path in arrival_files(tmp_path) if path.parent.name == files_of("store")]
    path.rename(path.with_name(path.name.partition("@")[0] + "@000000000000"))
    assert left(tmp_path, "store") == set()
    assert len(arrival_files(tmp_path)) == 2


def files_of(place: str) -> str:
    return Arrivals(Path(), place)._folder.name


def test_the_file_is_emptied_when_nothing_waits_and_goes_at_the_end(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path, "store")
    for number in range(2):
        arrivals.note(f"{number:064x}", b"", 1.0, 0.5, Reply(text="x"))
    (path,) = arrival_files(tmp_path)
    full = path.stat().st_size
    arrivals.committed()
    assert path.stat().st_size == full > 0
    arrivals.committed()
    assert path.stat().st_size == 0
    arrivals.note(KEY, b"", 1.0, 0.5, Reply(text="x"))
    arrivals.committed()
    arrivals.close()
    assert arrival_files(tmp_path) == []
