"""Times of attempts whose calls the journal answers: those of the recording."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import Entry, Request
from ragrounds.base.records import Call, Called, Left, Message, Reply
from ragrounds.evals.engine.attempt_log import AttemptLog, CoveredTime
from ragrounds.evals.store.journal import RECORDED_TIMES, StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.recorder.observer import TOLD_AT
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, context_of, questions

DELAY = 0.3


def test_overlapping_intervals_count_once() -> None:
    covered = CoveredTime()
    for start, end in [(5.0, 6.0), (0.0, 1.0), (2.0, 3.0), (0.5, 2.5), (5.0, 6.0), (5.2, 5.4), (9.0, 9.0)]:
        covered.add(start, end)
    assert covered.seconds == pytest.approx(3.0 + 1.0)


async def test_a_replay_takes_the_seconds_of_the_recording(store: Store) -> None:
    asked, golds = questions(2)
    live = planned(store, "vanilla_rag[top_k=2]", asked, golds, ScriptedModel(delay=DELAY))
    await replayed(store, [live], asked, golds)
    other = replace(live.run, id=f"{live.run.id}-again", fingerprint=f"{live.run.fingerprint}again")
    store.add_run(other, asked, golds)
    again = replace(live, run=other, models={"model": ScriptedModel(delay=60)})
    await replayed(store, [again], asked, golds, mode="replay")
    recorded, repeated = attempts(store, live.run), attempts(store, again.run)
    for id, attempt in repeated.items():
        assert DELAY <= attempt.seconds < recorded[id].seconds + DELAY
        assert [one.seconds for one in calls(attempt.events)] == [one.seconds for one in calls(recorded[id].events)]
        (call,) = [call for call in calls(attempt.events) if call.kind == "model"]
        assert call.cached
        assert DELAY <= call.seconds <= recorded[id].seconds
        answered = [event.seconds for event in attempt.events if isinstance(event, Left)]
        assert max(answered) >= call.seconds, "the step took as long as its call"


async def test_an_agent_that_shares_a_call_takes_as_long_as_the_one_that_asked_first(store: Store) -> None:
    asked, golds = questions(1)
    first = planned(store, "direct_cot", asked, golds, ScriptedModel(delay=DELAY))
    second = planned(store, "cot_refine", asked, golds, ScriptedModel(delay=DELAY))
    await replayed(store, [first], asked, golds)
    await replayed(store, [second], asked, golds)
    (one,), (two,) = attempts(store, first.run).values(), attempts(store, second.run).values()
    assert [call.cached for call in calls(two.events)] == [True, False]
    assert two.seconds >= 2 * DELAY
    assert two.seconds < 2 * one.seconds + DELAY


async def test_calls_that_overlapped_when_they_were_recorded_count_once(store: Store) -> None:
    async def ask(mode: Any) -> tuple[float, list[Call]]:
        journal = StoreJournal(store, mode)
        context = context_of(journal)
        context.models = {"model": ScriptedModel(delay=DELAY)}
        began = time.perf_counter()
        await asyncio.gather(*(context.ask([Message("user", text)]) for text in "abc"))
        await context.ask([Message("user", "d")])
        journal.close()
        made = [event.call for event in context.events if isinstance(event, Called)]
        return time.perf_counter() - began + context.shift, made

    _, recorded = await ask("reuse")
    again, repeated = await ask("replay")
    assert all(call.cached for call in repeated)
    assert 4 * DELAY <= sum(call.seconds for call in repeated) <= sum(call.seconds for call in recorded)
    assert 2 * DELAY <= again < 3.5 * DELAY, "three calls at a time, and then one"


async def test_an_equal_call_of_the_same_attempt_counts_once(store: Store) -> None:
    log = AttemptLog()
    start = log.begin_call("m", "answering")
    await asyncio.sleep(0.05)
    log.end_call(start, key="a", price=0.0)
    (first,) = [event.call for event in log.events if isinstance(event, Called)]
    log.end_call(log.begin_call("m", "answering"), key="a", price=0.0, cached=True, times=(first.at, first.seconds))
    assert abs(log.shift) < 0.002


async def test_one_that_waits_for_an_equal_call_is_given_its_times(store: Store) -> None:
    journal = StoreJournal(store)
    entry = Entry(key="ab" * 32, kind="model", actor="m", request=Request(messages=()))

    async def slow() -> Reply:
        await asyncio.sleep(DELAY)
        return Reply(text="slow")

    async def ask(after: float) -> list[tuple[float, float]]:
        await asyncio.sleep(after)
        with RECORDED_TIMES.collecting() as times:
            await journal.once(entry, slow, Reply)
        return times

    made, waited, later = await asyncio.gather(ask(0), ask(DELAY / 2), ask(2 * DELAY))
    journal.close()
    assert made == waited == later
    assert later[0][1] >= DELAY


def test_an_event_of_another_process_has_the_time_at_which_it_happened() -> None:
    log, now = AttemptLog(), time.perf_counter()
    token = TOLD_AT.set(now - 5)
    started = log.begin_call("m", "answering")
    TOLD_AT.set(now - 2)
    log.end_call(started, price=0.0)
    TOLD_AT.reset(token)
    (call,) = [event.call for event in log.events if isinstance(event, Called)]
    assert call.seconds == 3.0
    assert call.at == pytest.approx(time.time() - 5, abs=1)
