"""The time of a server: shared out among its calls so that the charges add up to it exactly."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.base.request_pace import set_share
from ragrounds.models.providers import open_model
from ragrounds.models.server_time import ServerClock, ServerTime
from tests.servers.process import Running


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def charges(intervals: list[tuple[float, float]], meter: ServerClock, clock: Clock) -> list[float]:
    """What calls over these intervals are charged with."""
    made = [ServerTime() for _ in intervals]
    held: dict[int, Any] = {}
    marks = sorted(
        [(end, 0, i) for i, (_, end) in enumerate(intervals)] + [(b, 1, i) for i, (b, _) in enumerate(intervals)]
    )
    # Calls without duration begin before they end.
    marks.sort(key=lambda mark: (mark[0], mark[1] == 0 and intervals[mark[2]][0] == mark[0]))
    for at, begins, i in marks:
        clock.now = at
        if begins:
            held[i] = meter.call(made[i])
            held[i].__enter__()
        else:
            held.pop(i).__exit__(None, None, None)
    return [charge.seconds for charge in made]


def covered(intervals: list[tuple[float, float]]) -> float:
    """Length of the union."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total


spans = st.tuples(st.floats(0, 1000), st.floats(0, 100)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(spans, max_size=40))
def test_charges_add_up_to_the_time_in_which_any_call_was_in_flight(intervals: list[tuple[float, float]]) -> None:
    clock = Clock()
    found = charges(intervals, ServerClock(clock), clock)
    assert sum(found) == pytest.approx(covered(intervals), abs=1e-6)
    assert all(-1e-9 <= charge <= end - begin + 1e-9 for charge, (begin, end) in zip(found, intervals, strict=True))


def test_one_call_bears_all_and_two_bear_half_each_where_they_overlap() -> None:
    clock = Clock()
    assert charges([(0, 4)], ServerClock(clock), clock) == [4]
    clock = Clock()
    assert charges([(0, 4), (2, 6)], ServerClock(clock), clock) == pytest.approx([3, 3])
    clock = Clock()
    assert charges([(0, 9), (3, 6), (3, 6)], ServerClock(clock), clock) == pytest.approx([7, 1, 1])


def test_each_of_several_workers_charges_its_share() -> None:
    clock = Clock()
    set_share(0.25)
    try:
        assert charges([(0, 4), (0, 4)], ServerClock(clock), clock) == [0.5, 0.5]
    finally:
        set_share(1.0)


async def test_a_priced_models_replies_cost_the_time_of_their_server(server: Running) -> None:
    text = f'openai:plain[base_url="{server.url}",price_gpu_hour=3.6,gpus=2]'
    model = open_model(text)
    begin = time.monotonic()
    replies = await asyncio.gather(
        *(model.complete(Request(messages=(Message("user", f"m{i}"),)), []) for i in range(30))
    )
    passed = time.monotonic() - begin
    await model.close()
    busy = [reply.busy for reply in replies if reply.busy is not None]
    cost = [dollars for reply in replies if (dollars := model.price(reply)) is not None]
    assert len(busy) == len(cost) == len(replies)
    assert 0 < sum(busy) <= passed
    assert sum(cost) == pytest.approx(sum(busy) * 2 * 3.6 / 3600)
