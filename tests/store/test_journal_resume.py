"""Interrupted work that is resumed: its payer, and the calls that it does not pay for again."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from ragrounds.base.contracts import Request
from ragrounds.base.records import Reply, Run
from ragrounds.evals.store.journal import StoreJournal, arena_payer, attempt_payer, judging_payer
from ragrounds.evals.store.store import Store
from tests.store.making import entry, never, says

RUN = Run(id="r", agent="a", benchmark="b", questions="q", count=1, epochs=1, fingerprint="f", identity={}, created=2.5)
MINE, OTHER = b"12345678", b"87654321"


def test_payers_have_the_bytes_that_stores_contain() -> None:
    """If they change, work that an earlier version left unfinished no longer finds the calls that it paid for."""
    assert attempt_payer(RUN, "q1", 0).hex() == "ba314efae0a72cc8"
    assert judging_payer(RUN).hex() == "8344fd0167affad5"
    assert arena_payer("f").hex() == "5bd6d9c158c36cc8"


def test_every_piece_of_work_has_a_payer_of_its_own() -> None:
    made_again = replace(RUN, created=3.5)
    payers = [attempt_payer(run, question, epoch) for run in (RUN, made_again) for question in "qr" for epoch in (0, 1)]
    payers += [judging_payer(RUN), judging_payer(made_again), arena_payer("r"), arena_payer("f")]
    assert len(set(payers)) == len(payers)


async def test_resumed_fresh_work_receives_its_own_responses_and_no_others(tmp_path: Path) -> None:
    mine = entry(payer=MINE)
    with Store(tmp_path) as store:
        earlier = StoreJournal(store)
        await earlier.once(mine, says("earlier"), Reply)
        earlier.close()

        killed = StoreJournal(store, "fresh")
        assert await killed.once(mine, says("mine"), Reply) == (Reply(text="mine"), False)
        await killed.once(entry(1, payer=MINE), says("my second"), Reply)
        await killed.once(entry(payer=OTHER), says("another's"), Reply)
        await killed.once(entry(2), says("nobody's"), Reply)
        killed.close()

        resumed = StoreJournal(store, "fresh")
        assert await resumed.once(mine, never, Reply) == (
            Reply(text="mine"),
            False,
        )  # paid for by it, in its first life
        assert await resumed.once(entry(1, payer=MINE), never, Reply) == (Reply(text="my second"), False)
        assert await resumed.once(entry(payer=OTHER), never, Reply) == (Reply(text="another's"), False)
        assert (resumed.calls_made, resumed.reused) == (0, 3)
        assert (await resumed.once(entry(2), says("anew"), Reply))[0].text == "anew"
        assert (await resumed.once(entry(3, payer=MINE), says("my next"), Reply))[0].text == "my next"
        assert (resumed.calls_made, resumed.reused) == (2, 3)
        resumed.close()
        assert store.call(mine.key, Request, Reply) == (mine.request, Reply(text="earlier"))


async def test_fresh_work_of_this_process_receives_its_responses_when_it_begins_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        journal, mine = StoreJournal(store, "fresh"), entry(payer=MINE)
        await journal.once(mine, says("first"), Reply)
        assert (await journal.once(replace(mine, payer=OTHER), says("second"), Reply))[0].text == "second"
        journal.begins_again(MINE)
        assert await journal.once(mine, never, Reply) == (Reply(text="first"), False)
        journal.close()
