"""Calls one by one: what a journal keeps of them, what it finds of dead processes, what it says it does not hold."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import Request, SearchRequest, SearchResult
from ragrounds.base.errors import StopRun
from ragrounds.base.records import Message, Passage, Reply, Used
from ragrounds.evals.store.journal import RECORDED_TIMES, Arrivals, Mode, StoreJournal, _read
from ragrounds.evals.store.store import Store
from tests.store.making import arrival_files, entry, never, recorded_call, says

LEFT = itertools.count()


def left_behind(store: Store, *numbers: int, payer: bytes = b"12345678") -> Path:
    """Responses in the file of a process that is gone: of this process's number, and started at another time."""
    arrivals = Arrivals(store.home, store.location)
    before = set(arrival_files(store.home))
    for number in numbers:
        arrivals.note(f"{number:064x}", payer, 1.5, 0.25, Reply(text=f"reply {number}"))
    (path,) = set(arrival_files(store.home)) - before
    host = path.name.partition("@")[2]  # the place of an object in memory is used again: a number is not
    return path.rename(path.with_name(f"{os.getpid()}-{b'another time'.hex()}-{next(LEFT):x}@{host}"))


async def test_a_call_is_kept_with_who_made_it_when_and_how_long_it_took(tmp_path: Path) -> None:
    async def slow() -> Reply:
        await asyncio.sleep(0.05)
        return Reply(text="said")

    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        before = time.time()
        with RECORDED_TIMES.collecting() as times:
            assert await journal.once(entry(7, payer=b"12345678"), slow, Reply) == (Reply(text="said"), False)
            assert await journal.once(entry(7), never, Reply) == (Reply(text="said"), True)
        kept = recorded_call(store, 7)
        assert times == [(kept.at, kept.seconds)] * 2
        assert (kept.kind, kept.actor, bytes(kept.payer)) == ("model", "test:model", b"12345678")
        assert before - 1 <= kept.at <= time.time()
        assert 0.05 <= kept.seconds < 3
        assert kept.seconds == round(kept.seconds, 4)
        assert store.call(entry(7).key, Request, Reply) == (entry(7).request, Reply(text="said"))
        await journal.once(entry(8), slow, Reply)
        assert recorded_call(store, 8).payer is None
        journal.close()


async def test_who_paid_gets_it_for_nothing_no_more_than_once(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        assert journal.mode == "reuse"
        mine, others = entry(payer=b"11111111"), entry(payer=b"22222222")
        assert not (await journal.once(mine, says(), Reply))[1]
        assert not (await journal.once(mine, never, Reply))[1]  # the same payer: its own call, found again
        assert (await journal.once(others, never, Reply))[1]
        assert (await journal.once(entry(), never, Reply))[1]
        assert (journal.calls_made, journal.reused) == (1, 3)
        free = entry(1)
        assert not (await journal.once(free, says(), Reply))[1]
        assert (await journal.once(free, never, Reply))[1]  # paid by nobody that is known
        assert (await journal.once(replace(free, payer=b"11111111"), never, Reply))[1]
        assert (journal.calls_made, journal.reused) == (2, 5)
        journal.close()


async def test_fresh_calls_anew_and_leaves_what_was_recorded(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        first = StoreJournal(store)
        await first.once(entry(), says("first"), Reply)
        first.close()
        dead = sorted([left_behind(store, 1), left_behind(store, 0)])  # of the second nothing is missing
        fresh = StoreJournal(store, "fresh")
        assert await fresh.once(entry(), says("second"), Reply) == (Reply(text="second"), False)
        assert (await fresh.once(entry(1), says("anew"), Reply))[0].text == "anew"
        assert (fresh.calls_made, fresh.reused, fresh.mode) == (2, 0, "fresh")
        fresh.close()
        assert store.call(entry().key, Request, Reply)[1].text == "first"  # type: ignore[index]
        assert arrival_files(tmp_path) == dead


async def test_replay_never_calls_and_says_what_is_missing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        first = StoreJournal(store)
        await first.once(entry(), says(), Reply)
        first.close()
        left_behind(store, 1)
        journal = StoreJournal(store, "replay")
        assert (await journal.once(entry(), never, Reply))[0].text == "said"
        assert (await journal.once(entry(1), never, Reply))[0].text == "reply 1"
        with pytest.raises(StopRun) as caught:
            await journal.once(entry(2), never, Reply)
        assert str(caught.value) == "Replay: this call is not in the journal: model by test:model: How?"
        assert (journal.calls_made, journal.reused) == (0, 2)
        journal.close()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(messages=(Message("user", "One\n  two\tthree "),)), "One two three"),
        (Request(messages=(Message("user", "x" * 400),)), "x" * 400),
        (Request(messages=(Message("user", "y" + "x" * 400),)), "…" + "x" * 400),
        (Request(messages=(Message("user", "first"), Message("user", "last"))), "last"),
        (SearchRequest(corpus="c", query="aspirin  dose", k=3), "aspirin dose"),
        (Request(messages=()), "Request(messages=(),"),
    ],
)
async def test_a_missing_call_is_described_by_the_end_of_what_it_asks(
    tmp_path: Path, request_: msgspec.Struct, said: str
) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store, "replay")
        with pytest.raises(StopRun) as caught:
            await journal.once(replace(entry(), request=request_), never, Reply)
        journal.close()
    told = str(caught.value).removeprefix("Replay: this call is not in the journal: model by test:model: ")
    assert told == said if not said.startswith("Request(") else told.startswith(said)


async def test_a_response_that_a_dead_process_left_is_kept_as_it_came(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        path = left_behind(store, 3, 4, payer=b"11111111")
        journal = StoreJournal(store)
        mine, others = entry(3, payer=b"11111111"), entry(3, payer=b"22222222")
        with RECORDED_TIMES.collecting() as times:
            assert await journal.once(others, never, Reply) == (Reply(text="reply 3"), True)
        assert times == [(1.5, 0.25)]
        kept = recorded_call(store, 3)
        assert (kept.at, kept.seconds, bytes(kept.payer)) == (1.5, 0.25, b"11111111")
        assert store.call(mine.key, Request, Reply) == (mine.request, Reply(text="reply 3"))
        assert await journal.once(mine, never, Reply) == (Reply(text="reply 3"), False)  # theirs, by the store's mark
        assert await journal.once(entry(4, payer=b"11111111"), never, Reply) == (Reply(text="reply 4"), False)
        assert (journal.calls_made, journal.reused) == (0, 3)
        journal.close()
        assert arrival_files(tmp_path) == [path]
        StoreJournal(store).close()  # all that is in it is in the store by now
        assert arrival_files(tmp_path) == []


async def test_a_dead_processs_response_that_nobody_paid_for_is_free(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        left_behind(store, 3, payer=b"")
        journal = StoreJournal(store)
        assert (await journal.once(entry(3), never, Reply))[1]
        assert recorded_call(store, 3).payer is None
        journal.close()


@pytest.mark.parametrize("recorded", [1_002, pytest.param(1_001, marks=pytest.mark.slow), 3])
async def test_what_many_dead_calls_have_left_is_looked_up_in_parts(tmp_path: Path, recorded: int) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        await asyncio.gather(*(journal.once(entry(number), says("kept"), Reply) for number in range(recorded)))
        journal.close()
        path = left_behind(store, *range(1_002))
        arrivals = Arrivals(store.home, store.location)
        arrivals.collect(StoreJournal(store, "fresh")._recorded)
        found = [number for number in range(1_002) if arrivals.take(f"{number:064x}")]
        assert found == list(range(recorded, 1_002))
        assert arrival_files(tmp_path) == ([] if recorded == 1_002 else [path])


def broken(*_: object, **__: object) -> None:
    raise OSError("a disk that is gone")


def test_a_note_is_read_back_as_it_was_written_and_is_for_nobody_elses_eyes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrivals = Arrivals(tmp_path, "store")
    arrivals.note("ab", b"1234", 1.5, 0.25, Reply(text="one"))
    arrivals.note("cd", b"", 2.5, 0.5, Reply(text="two"))
    (path,) = arrival_files(tmp_path)
    first, second = _read(path)
    assert (first.key, first.payer, first.at, first.seconds) == ("ab", b"1234", 1.5, 0.25)
    assert msgspec.msgpack.decode(first.response, type=Reply) == Reply(text="one")
    assert (second.key, second.payer, second.at, second.seconds) == ("cd", b"", 2.5, 0.5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    data = path.read_bytes()
    path.write_bytes(data + b"\0\0\0")  # less than a length
    assert len(list(_read(path))) == 2
    path.write_bytes(data + b"\0\0\0\0")  # a record of no bytes is none, and none comes after it
    assert len(list(_read(path))) == 2
    assert list(_read(tmp_path / "nowhere")) == []
    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", broken)
        arrivals.committed()
        arrivals.committed()
    assert path.read_bytes() == data + b"\0\0\0\0"
    arrivals.note("ef", b"", 2.5, 0.5, Reply(text="three"))
    arrivals.close()
    (left,) = arrival_files(tmp_path)  # not all of it is committed
    assert left.read_bytes().startswith(data)
    assert not path.exists()
    assert left.name.startswith("0-")  # as of a process that is gone, so that this one reads it too


def test_two_of_a_process_have_a_file_each_and_leave_each_other_alone(tmp_path: Path) -> None:
    one, other = Arrivals(tmp_path, "store"), Arrivals(tmp_path, "store")
    one.note("ab", b"", 1.0, 0.5, Reply(text="one"))
    other.note("cd", b"", 1.0, 0.5, Reply(text="other"))
    found = arrival_files(tmp_path)
    assert [len(list(_read(path))) for path in found] == [1, 1]
    third = Arrivals(tmp_path, "store")
    third.collect(lambda keys: set())
    assert third.take("ab") is third.take("cd") is None  # of a process that lives
    assert arrival_files(tmp_path) == found
    one.committed()
    one.close()
    one.close()
    assert len(arrival_files(tmp_path)) == 1


def test_files_of_other_names_are_nobodys(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        path = left_behind(store, 1)
        name, _, host = path.name.partition("@")
        strange = [f"{name}-more@{host}", f"{name}@{host}@{host}", f"pid-6120-7f@{host}", f"1-zz-7f@{host}", name]
        for other in strange:
            path.with_name(other).write_bytes(path.read_bytes())
        path.unlink()
        arrivals = Arrivals(store.home, store.location)
        arrivals.collect(lambda keys: set())
        assert arrivals.take(f"{1:064x}") is None
        assert len(list(path.parent.iterdir())) == len(strange)


async def test_where_nothing_can_be_noted_the_commit_is_all_there_is(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        (tmp_path / "arrivals").write_text("no folder")
        journal = StoreJournal(store)
        assert (await journal.once(entry(), says(), Reply))[0].text == "said"
        assert (await journal.once(entry(), never, Reply))[0].text == "said"
        journal.close()


async def test_a_file_that_cannot_be_emptied_or_removed_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(tmp_path) as store:
        path = left_behind(store, 0)
        journal = StoreJournal(store)
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", broken)
            patch.setattr(Path, "unlink", broken)
            await journal.once(entry(0), never, Reply)
            await journal.once(entry(1), says(), Reply)
            StoreJournal(store).close()
            journal.close()
        assert path in arrival_files(tmp_path)
        assert len(arrival_files(tmp_path)) == 2


@pytest.mark.parametrize(("used", "noted"), [((), 0), ((Used("test:embedder", tokens=3, hosted=True),), 1)])
async def test_only_a_search_that_is_billed_is_noted_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: tuple[Used, ...], noted: int
) -> None:
    passage = Passage(id="p", document="d", title="t", text="x", corpus="c", score=1.0, rank=1)

    async def search() -> SearchResult:
        return SearchResult(passages=(passage,), used=used)

    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        put = store.writer.put

        def looking(prepare: Callable[[], list]) -> asyncio.Future[bool]:
            assert len(arrival_files(tmp_path)) == noted
            return put(prepare)

        monkeypatch.setattr(store.writer, "put", looking)
        search_entry = replace(entry(5, "search"), request=SearchRequest(corpus="c", query="q", k=1))
        await journal.once(search_entry, search, SearchResult)
        assert recorded_call(store, 5).kind == "search"
        journal.close()


async def test_a_response_is_noted_before_its_commit_with_all_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        put = store.writer.put

        def looking(prepare: Callable[[], list]) -> asyncio.Future[bool]:
            (path,) = arrival_files(tmp_path)
            seen.extend(_read(path))
            return put(prepare)

        monkeypatch.setattr(store.writer, "put", looking)
        await journal.once(entry(6, payer=b"12345678"), says(), Reply)
        journal.close()
        kept = recorded_call(store, 6)
    (noted,) = seen
    assert (noted.key, noted.payer, noted.at, noted.seconds) == (entry(6).key, b"12345678", kept.at, kept.seconds)
    assert msgspec.msgpack.decode(noted.response, type=Reply) == Reply(text="said")
    assert arrival_files(tmp_path) == []


@pytest.mark.parametrize("mode", ["reuse", "fresh"])
async def test_a_call_that_fails_fails_for_all_who_wait_and_is_made_again_afterwards(
    tmp_path: Path, mode: Mode
) -> None:
    tries = 0

    async def broken() -> Reply:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0.01)
        raise ValueError("no luck")

    with Store(tmp_path) as store:
        journal = StoreJournal(store, mode)
        asked = [journal.once(entry(), broken, Reply) for _ in range(3)]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(one) for one in told] == ["no luck"] * 3
        assert tries == 1
        assert (journal.calls_made, journal.reused) == (0, 0)
        assert (await journal.once(entry(), says(), Reply))[0].text == "said"
        journal.close()


async def test_who_waits_goes_on_when_the_one_who_asked_is_cancelled(tmp_path: Path) -> None:
    begun, made = asyncio.Event(), 0

    async def slow() -> Reply:
        nonlocal made
        made += 1
        begun.set()
        await asyncio.sleep(0.05)
        return Reply(text=f"call {made}")

    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        first = asyncio.create_task(journal.once(entry(), slow, Reply))
        async with asyncio.timeout(10):
            await begun.wait()
        waiting = [asyncio.create_task(journal.once(entry(), slow, Reply)) for _ in range(2)]
        await asyncio.sleep(0)
        first.cancel()
        assert [await one for one in waiting] == [(Reply(text="call 2"), False), (Reply(text="call 2"), True)]
        with pytest.raises(asyncio.CancelledError):
            await first
        begun.clear()
        other = asyncio.create_task(journal.once(entry(1), slow, Reply))
        async with asyncio.timeout(10):
            await begun.wait()
        waits = asyncio.create_task(journal.once(entry(1), slow, Reply))
        await asyncio.sleep(0)
        waits.cancel()  # one who waits takes nobody with them
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert (await other)[0].text == "call 3"
        journal.close()


async def test_a_journal_that_was_closed_reads_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        await journal.once(entry(), says(), Reply)
        journal.close()
        journal.close()
        assert (await journal.once(entry(), never, Reply))[0].text == "said"
        journal.close()


async def test_long_texts_that_lie_apart_are_found_with_the_call(tmp_path: Path) -> None:
    text = "Rest. " * 20_000
    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        await journal.once(entry(), says(text), Reply)
        journal.close()
    with Store(tmp_path) as store:
        journal = StoreJournal(store, "replay")
        assert (await journal.once(entry(), never, Reply))[0].text == text
        journal.close()


async def test_the_file_of_a_process_that_lives_hides_none_behind_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        living = Arrivals(store.home, store.location)
        living.note(f"{8:064x}", b"", 1.0, 0.5, Reply(text="not yet committed"))
        (own,) = arrival_files(tmp_path)
        assert own < left_behind(store, 9)  # files are read in the order of their names
        journal = StoreJournal(store)
        assert (await journal.once(entry(9), never, Reply))[0].text == "reply 9"
        journal.close()
        living.close()
