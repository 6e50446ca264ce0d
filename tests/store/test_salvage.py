"""A store whose file is damaged: what is damaged is said, and what can be read is saved into a new one."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.base.records import Reply
from ragrounds.evals.judges.rescoring import refresh_scores
from ragrounds.evals.store.database import open_source
from ragrounds.evals.store.journal import Arrivals, Arrived, StoreJournal, copy_arrivals, leave_arrivals
from ragrounds.evals.store.store import Store
from tests.conftest import Cli
from tests.engine.conftest import planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, always, questions
from tests.store.making import contents, entry, never, two_in_an_arena
from tests.store.test_verification import filled, looked_through


def hurt(path: Path, pieces: int, seed: int, size: int = 12_000, start: int = 8192) -> None:
    """Overwrite pieces of a store's file with random bytes."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    draw, data = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(pieces):
        at = draw.randrange(start, len(data) - size)
        data[at : at + size] = draw.randbytes(size)
    path.write_bytes(data)


def kept(path: Path) -> list[str]:
    """The rows of a store, but leases and facts."""
    left_out = ('INSERT INTO "leases"', 'INSERT INTO "facts"')
    return sorted(line for line in contents(path) if line.startswith("INSERT") and not line.startswith(left_out))


async def test_of_a_whole_file_everything_is_saved(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    await two_in_an_arena(old)
    await filled(old, count=30)
    with Store(old):  # the file has a log beside it, of which nothing is lost
        found = rr.doctor(store=True, save=new, home=old, progress=False)
    assert found.saved is not None
    assert found.saved.unread == 0
    assert not found.saved.dropped
    assert kept(new / "store.sqlite") == kept(old / "store.sqlite")
    with pytest.raises(UserError, match="already contains a store"):
        rr.doctor(store=True, save=new, home=old, progress=False)


@pytest.mark.parametrize(("pieces", "seed"), [(1, 0), (3, 1), (8, 2)])
async def test_what_is_saved_is_whole_and_goes_on(tmp_path: Path, pieces: int, seed: int) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    await filled(old, count=30)
    path = old / "store.sqlite"
    hurt(path, pieces, seed, size=min(12_000, path.stat().st_size // 30))
    before = path.read_bytes()
    saved = rr.doctor(store=True, save=new, home=old, progress=False)
    assert path.read_bytes() == before
    assert saved.contents is not None
    assert saved.saved is not None
    assert sum(saved.saved.saved.values()) > 0
    with Store(new) as store:  # answers whose scores were on lost pages
        for run in store.runs():
            refresh_scores(store, run)
    assert looked_through(new).damaged == 0
    asked, golds = questions(30)
    long = '{"answer_choice": "A"} ' + "a long reply " * 80
    searcher = ScriptedSearcher(texts=[f"{i} " + "a passage " * 90 for i in range(3)])
    with Store(new) as store:
        # Every recorded call that was saved answers again; the others alone are asked.
        replies = store.engine.connect().exec_driver_sql("SELECT count(*) FROM calls WHERE kind = 'model'").scalar_one()
        made = 0
        for agent in ("vanilla_rag", "direct"):
            model = ScriptedModel(say=always(long))
            await replayed(store, [planned(store, agent, asked, golds, model, searcher)], asked, golds)
            made += len(model.asked)
        assert made + replies == 60
    with open_source(str(new / "store.sqlite")):
        pass


def test_the_command_names_damaged_pages_and_the_way_out(command: Cli, home: Path, tmp_path: Path) -> None:
    assert command("run", "--agent", "direct", "--limit", "30", "--display", "none").returncode == 0
    whole = (home / "store.sqlite").read_bytes()
    hurt(home / "store.sqlite", 4, 5, start=len(whole) // 3)
    done = command("doctor", "--store")
    assert done.returncode == 1
    assert "damage: database" in done.stdout
    assert "--save FOLDER" in done.stdout
    assert "Traceback" not in command("runs", "ls").stderr
    done = command("doctor", "--store", "--save", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    assert "pages that cannot be read" in done.stdout
    assert "damage     0 found" in done.stdout
    (home / "store.sqlite").write_bytes(b"\0" * 8192 + whole[8192:])  # nor where the file says nothing of itself
    assert "doctor --store --save FOLDER" in command("doctor", "--store").stderr
    done = command("doctor", "--store", "--save", str(tmp_path / "other"))
    assert "1 runs, " in done.stdout
    assert done.returncode == 0


async def test_answers_that_a_killed_process_left_are_saved_with_the_store(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with Store(old) as store:
        response = msgspec.Raw(msgspec.msgpack.encode(Reply(text="paid")))
        leave_arrivals(store, [Arrived(entry().key, b"12345678", 1.0, 0.5, response)])
    rr.doctor(store=True, save=new, home=old, progress=False)
    with Store(new) as store:
        journal = StoreJournal(store)
        assert await journal.once(entry(), never, Reply) == (Reply(text="paid"), True)
        journal.close()


def test_answers_that_cannot_be_copied_are_named(tmp_path: Path) -> None:
    old = tmp_path / "old"
    with Store(tmp_path / "store.sqlite") as store:
        copy_arrivals(old, "old.sqlite", store)  # there are none
        Arrivals(old, "old.sqlite")._folder.mkdir(parents=True)
        into = Arrivals(store.home, store.location)._folder
        into.parent.mkdir(parents=True, exist_ok=True)
        into.write_text("a file")
        with pytest.raises(UserError, match="Cannot copy the answers in"):
            copy_arrivals(old, "old.sqlite", store)
