"""Busy time of a server: shared out among its calls so that the charges add up to it exactly."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.contracts import Request
from ragrounds.models.busy_time import BusyCharge, BusyMeter
from ragrounds.models.providers import open_model
from ragrounds.records import Message
from tests.servers.process import Running


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def charges(intervals: list[tuple[float, float]], meter: BusyMeter, clock: Clock) -> list[float]:
    """What calls over these intervals are charged with."""
    made = [BusyCharge() for _ in intervals]
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
    found = charges(intervals, BusyMeter(clock=clock), clock)
    assert sum(found) == pytest.approx(covered(intervals), abs=1e-6)
    assert all(-1e-9 <= charge <= end - begin + 1e-9 for charge, (begin, end) in zip(found, intervals, strict=True))


def test_one_call_bears_all_and_two_bear_half_each_where_they_overlap() -> None:
    clock = Clock()
    assert charges([(0, 4)], BusyMeter(clock=clock), clock) == [4]
    clock = Clock()
    assert charges([(0, 4), (2, 6)], BusyMeter(clock=clock), clock) == pytest.approx([3, 3])
    clock = Clock()
    assert charges([(0, 9), (3, 6), (3, 6)], BusyMeter(clock=clock), clock) == pytest.approx([7, 1, 1])


def use(path: Path, begin: Any, seconds: float, out: Any) -> None:
    charge = BusyCharge()
    meter = BusyMeter(path)
    begin.wait()
    with meter.call(charge):
        time.sleep(seconds)
    out.put(charge.seconds)


@pytest.mark.slow
def test_processes_share_the_time_of_one_server(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    begin, out = context.Barrier(3), context.Queue()
    workers = [context.Process(target=use, args=(tmp_path / "busy", begin, 1.0, out)) for _ in range(3)]
    for worker in workers:
        worker.start()
    found = [out.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    # Each by itself would be charged with a whole second.
    assert sum(found) < 2.0
    assert sum(found) >= 0.99


def test_what_a_killed_process_left_in_flight_is_taken_out(tmp_path: Path) -> None:
    path, child = tmp_path / "busy", os.fork()
    if child == 0:
        BusyMeter(path).call(BusyCharge()).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    clock, charge = Clock(), BusyCharge()
    clock.now = time.monotonic() + 5
    with BusyMeter(path, clock).call(charge):
        clock.now += 10
    assert charge.seconds == pytest.approx(10)


def test_a_forked_process_has_its_own_place(tmp_path: Path) -> None:
    meter, charge = BusyMeter(tmp_path / "busy"), BusyCharge()
    with meter.call(BusyCharge()):
        child = os.fork()
        if child == 0:
            with meter.call(charge):
                pass
            os._exit(0)
        os.waitpid(child, 0)
        assert sorted(count for pid, count in meter._slots() if pid) == [0, 1]


def test_a_folder_that_cannot_be_used_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    charge = BusyCharge()
    with BusyMeter(tmp_path / "file" / "busy").call(charge):
        time.sleep(0.01)
    assert charge.seconds >= 0.01


async def test_a_priced_models_replies_cost_the_busy_time(server: Running) -> None:
    text = f'openai:plain[base_url="{server.url}",price_gpu_hour=3.6,gpus=2]'
    model = open_model(text)
    begin = time.monotonic()
    replies = await asyncio.gather(
        *(model.complete(Request(messages=(Message("user", f"m{i}"),)), []) for i in range(30))
    )
    passed = time.monotonic() - begin
    await model.close()
    busy = sum(reply.busy or 0 for reply in replies)
    assert 0 < busy <= passed
    cost = [model.price(reply) for reply in replies]
    assert sum(dollars or 0 for dollars in cost) == pytest.approx(busy * 2 * 3.6 / 3600)
