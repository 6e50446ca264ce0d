"""Two processes that make an equal call in the same moment: what was recorded first is what both go on with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Message, Reply
from ragrounds.evals.store.journal import Mode, StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.writer import Prepare

REQUEST = Request(messages=(Message("user", "How?"),))
ENTRY = Entry(key="ab" * 32, kind="model", actor="test:model", request=REQUEST)


@pytest.mark.parametrize("mode", ["reuse", "fresh"])
async def test_what_was_recorded_first_counts(tmp_path: Path, mode: Mode) -> None:
    here, there = asyncio.Event(), asyncio.Event()

    def saying(text: str, mine: asyncio.Event, other: asyncio.Event) -> Callable[[], Awaitable[Reply]]:
        async def make() -> Reply:
            mine.set()
            await other.wait()
            return Reply(text=text)

        return make

    with Store(tmp_path) as one, Store(tmp_path) as two:
        journals = StoreJournal(one, mode), StoreJournal(two, mode)
        (first, _), (second, _) = await asyncio.gather(
            journals[0].once(ENTRY, saying("first", here, there), Reply),
            journals[1].once(ENTRY, saying("second", there, here), Reply),
        )
        recorded = one.call(ENTRY.key, Request, Reply)
        for journal in journals:
            journal.close()
    assert recorded is not None
    texts = {first.text, second.text}
    assert texts == ({recorded[1].text} if mode == "reuse" else {"first", "second"})


async def test_a_call_that_was_cancelled_when_its_response_was_there_is_not_made_again(tmp_path: Path) -> None:
    there, made = asyncio.Event(), 0

    async def make() -> Reply:
        nonlocal made
        made += 1
        there.set()
        return Reply(text=f"reply {made}")

    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        cancelled = asyncio.create_task(journal.once(ENTRY, make, Reply))
        async with asyncio.timeout(10):
            await there.wait()
        cancelled.cancel()
        reply, cached = await journal.once(ENTRY, make, Reply)
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        journal.close()
    assert (made, reply.text, cached) == (1, "reply 1", True)
    assert not list((tmp_path / "arrivals").rglob("*@*"))


class _Commit(asyncio.Future[bool]):
    """A commit that fails if its end is asked for again and again."""

    asked = 0

    def done(self) -> bool:
        self.asked += 1
        assert self.asked < 100, "the event loop stands still"
        return super().done()


async def test_a_call_that_follows_in_the_moment_in_which_such_a_commit_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def make() -> Reply:
        return Reply(text="reply")

    with Store(tmp_path) as store:
        journal = StoreJournal(store)
        commit, put, written = _Commit(), store.writer.put, asyncio.Event()

        def put_and_wait(prepare: Prepare) -> asyncio.Future[bool]:
            put(prepare).add_done_callback(lambda _: written.set())
            return commit

        monkeypatch.setattr(store.writer, "put", put_and_wait)
        cancelled = asyncio.create_task(journal.once(ENTRY, make, Reply))
        async with asyncio.timeout(10):
            await written.wait()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        commit.set_result(False)
        reply, cached = await journal.once(ENTRY, make, Reply)
        journal.close()
    assert (reply.text, cached, journal.calls_made) == ("reply", True, 1)


async def test_two_that_wait_for_such_a_commit_do_not_both_make_it_anew(tmp_path: Path) -> None:
    there, made = asyncio.Event(), 0

    async def make() -> Reply:
        nonlocal made
        made += 1
        there.set()
        if made > 1:
            await asyncio.sleep(0)
        return Reply(text=f"reply {made}")

    with Store(tmp_path) as store:
        journal = StoreJournal(store, "fresh")
        cancelled = asyncio.create_task(journal.once(ENTRY, make, Reply))
        async with asyncio.timeout(10):
            await there.wait()  # it has gone on to the commit, too
        cancelled.cancel()
        found = await asyncio.gather(*(journal.once(ENTRY, make, Reply) for _ in range(3)))
        journal.close()
    assert made == 2
    assert {reply.text for reply, _ in found} == {"reply 2"}
    assert sorted(cached for _, cached in found) == [False, True, True]
