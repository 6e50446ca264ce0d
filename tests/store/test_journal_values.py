"""Records of a journal besides the calls that it makes: values of clock and chance, searches that a system reported,
and calls of another thread.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from ragrounds.base.contracts import Entry, Request, SearchRequest, SearchResult
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage, Reply
from ragrounds.evals.store import journal as journal_module
from ragrounds.evals.store.journal import Arrived, StoreJournal, _read, leave_arrivals
from ragrounds.evals.store.store import Store
from tests.store.making import arrival_files, entry, never, recorded_call, says

PAYER = b"12345678"


class Value(msgspec.Struct, frozen=True):
    """Value that a system read from its clock."""

    text: str


async def test_a_value_is_recorded_once_and_survives_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "now", lambda: 1234.5)
    drawn = entry(payer=PAYER)
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        thread = journal.another()
        assert await journal.recorded_values(drawn, Value) is None
        may_commit = threading.Event()
        store.writer.put(lambda: [] * may_commit.wait(5))  # nothing is committed until then
        is_new = [journal.draw(drawn, Value("first")), journal.draw(drawn, Value("second"))]
        is_new.append(thread.draw(drawn, Value("third")))
        notes = [note for path in arrival_files(tmp_path) for note in _read(path)]  # what `kill -9` would leave
        may_commit.set()
        assert is_new == [True, False, False]
        assert [(note.key, note.payer, note.at, note.seconds) for note in notes] == [(drawn.key, PAYER, 1234.5, 0.0)]
        assert msgspec.msgpack.decode(notes[0].response, type=Value) == Value("first")
        await store.writer.write(list)
        assert await thread.recorded_values(drawn, Value) == (Value("first"), PAYER, 1234.5)
        assert recorded_call(store, 0).seconds == 0.0
        await asyncio.sleep(0)
        assert [path.stat().st_size for path in arrival_files(tmp_path)] == [0]
        later = StoreJournal(store)
        assert not later.draw(drawn, Value("another process"))
        for opened in (thread, journal, later):
            opened.close()


@pytest.mark.parametrize("payer", [PAYER, b""])
async def test_a_value_of_a_killed_process_is_returned_with_its_payer_and_time(tmp_path: Path, payer: bytes) -> None:
    responses = [
        Arrived(entry(number).key, payer, 1.5, 0.0, msgspec.Raw(msgspec.msgpack.encode(Value(f"value {number}"))))
        for number in (1, 2, 3)
    ]
    with Store(tmp_path / "home") as store:
        leave_arrivals(store, [])
        assert not (store.home / "arrivals").exists()
        leave_arrivals(store, responses[:1])
        leave_arrivals(store, responses[1:])
        journal = StoreJournal(store)
        for number in (1, 2, 3, 1):  # the last one from the store
            recorded = await journal.recorded_values(entry(number), Value)
            assert recorded == (Value(f"value {number}"), payer, 1.5)
        assert await journal.recorded_values(entry(4), Value) is None
        journal.close()
        StoreJournal(store).close()
        assert list((store.home / "arrivals").rglob("*@*")) == []  # the store has all of them


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        (tmp_path / "arrivals").write_text("a file")
        with pytest.raises(UserError, match=r"^Cannot write .*arrivals.*: Not a directory\.$"):
            leave_arrivals(store, [Arrived(entry().key, b"", 1.0, 0.0, msgspec.Raw(b"\xc0"))])


def reported_search(text: str) -> tuple[Entry, SearchResult]:
    """Return a search that a system made itself, and its passages."""
    passage = Passage(id="p", document="d", title="t", text=text, corpus="c", score=1.0, rank=1)
    request = SearchRequest(corpus="c", query=text, k=1)
    return Entry(key=entry(5).key, kind="search", actor="own", request=request), SearchResult((passage,))


async def test_a_reported_search_is_committed_before_later_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "now", lambda: 1234.5)
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        journal.keep(*reported_search("lone \ud800"))
        await store.writer.write(list)
        row = recorded_call(store, 5)
        assert (row.kind, row.actor, row.at, row.seconds, row.payer) == ("search", "own", 1234.5, 0.0, None)
        recorded = store.call(entry(5).key, SearchRequest, SearchResult)
        journal.close()
    assert recorded is not None
    assert (recorded[0].query, recorded[1].passages[0].text) == ("lone \ufffd",) * 2


async def test_a_reported_search_that_cannot_be_written_causes_no_message_of_asyncio(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: messages.append(context))
    search, result = reported_search("text")
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        journal.keep(msgspec.structs.replace(search, key="no key"), result)
        await store.writer.write(list)
        await asyncio.sleep(0)
        gc.collect(1)  # young objects: asyncio reports an exception that no caller retrieved
        journal.close()
    assert messages == []


def test_a_journal_that_is_closed_calls_each_function_once(tmp_path: Path) -> None:
    closed: list[str] = []
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        journal.on_close(lambda: closed.append("side loop"))
        journal.close()
        journal.close()
    assert closed == ["side loop"]


async def test_calls_of_another_thread_are_counted_once(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        thread = journal.another()
        for number, kind in enumerate(("model", "search", "tool", "tool")):
            await thread.once(entry(number, kind), says(), Reply)
            await thread.once(entry(number, kind), never, Reply)
        await journal.once(entry(9), says(), Reply)
        counted = []
        for _ in range(2):
            journal.count(thread)
            counted.append((journal.calls_made, journal.reused, journal.searches, journal.tool_calls))
        assert counted == [(2, 1, 1, 2)] * 2
        thread.close()
        journal.close()
        assert StoreJournal(store, "replay").another().mode == "replay"


class LostConnection:
    """Lost connection, as PostgreSQL's driver reports it."""

    closed = True
    connection = driver_connection = property(lambda self: self)

    def execute(self, *statement: object) -> None:
        raise ConnectionError("the server is gone")

    def invalidate(self) -> None:
        """There is nothing to give back."""


def lose_connection(journal: StoreJournal) -> None:
    journal._reading = cast(Any, LostConnection())


async def test_a_fault_of_the_store_is_raised_as_it_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        with store.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE calls RENAME TO lost")
        with pytest.raises(sqlite3.OperationalError, match="no such table: calls"):
            await journal.once(entry(), never, Reply)
        journal.close()


async def test_no_call_is_made_again_because_a_connection_was_lost(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal, quicker_process = StoreJournal(store), StoreJournal(store)
        mine = entry(payer=PAYER)
        await journal.once(mine, says(), Reply)

        lose_connection(journal)
        replies = await asyncio.gather(*(journal.once(mine, never, Reply) for _ in range(3)))
        assert replies == [(Reply(text="said"), False)] * 3

        lose_connection(journal)
        recorded = await journal.recorded_values(mine, Reply)
        assert recorded is not None
        assert recorded[:2] == (Reply(text="said"), PAYER)

        async def slower() -> Reply:
            await quicker_process.once(entry(1), says("recorded"), Reply)
            lose_connection(journal)
            return Reply(text="too late")

        assert (await journal.once(entry(1), slower, Reply))[0].text == "recorded"

        lose_connection(journal)
        assert journal.draw(entry(2), Value("drawn"))  # without a look-up: the writer adds only missing rows
        await store.writer.write(list)
        again = await journal.recorded_values(entry(2), Value)
        assert again is not None
        assert again[0] == Value("drawn")
        assert store.call(entry(2).key, Request, Value) == (entry(2).request, Value("drawn"))
        for opened in (journal, quicker_process):
            opened.close()
