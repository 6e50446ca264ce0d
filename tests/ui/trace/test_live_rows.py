"""Attempts in flight in the viewer: their rows, and what follows when they end. The attempts are made by the engine
itself, and seen through its file as from another process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ragrounds.evals.engine.in_flight import LiveAttempt, LiveCall
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.records import Fault, Passage, Reply
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.live_rows import RUNNING, LiveRows
from tests.engine.conftest import attempts, planned, replayed
from tests.engine.doubles import ScriptedModel, ScriptedSearcher, questions
from tests.ui.trace.seeing import screen, settle

pytestmark = pytest.mark.slow

COUNT = 4


class GatedModel(ScriptedModel):
    """Answers when the gate is opened."""

    gate: asyncio.Event

    async def complete(self, request: Any, faults: list[Fault]) -> Reply:
        await self.gate.wait()
        return await super().complete(request, faults)


class GatedSearcher(ScriptedSearcher):
    """Finds when the gate is opened."""

    gate: asyncio.Event

    async def search(self, query: str, k: int) -> list[Passage]:
        await self.gate.wait()
        return await super().search(query, k)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """The viewer's store, and that of who makes the attempts."""
    with Store(tmp_path) as reading, Store(tmp_path) as writing:
        yield reading, writing


async def until(app: TraceApp, pilot: Pilot[None], there: Callable[[BrowseScreen, str], bool]) -> str:
    """Look, as the clock does every second, until something is so; gives the screen."""
    for _ in range(300):
        assert isinstance(app.screen, BrowseScreen)
        app.screen.look()
        await settle(pilot)
        if there(app.screen, shown := screen(app)):
            return shown
        await asyncio.sleep(0.02)
    raise AssertionError(f"it does not come to this:\n{shown}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_attempts_in_flight_are_followed_to_their_end(stores: tuple[Store, Store], size: tuple[int, int]) -> None:
    reading, writing = stores
    asked, golds = questions(COUNT)
    model, searcher = GatedModel(), GatedSearcher()
    model.gate, searcher.gate = asyncio.Event(), asyncio.Event()
    one = planned(writing, "vanilla_rag[top_k=2]", asked, golds, model, searcher)
    app = TraceApp(Pages(reading, [one.run]))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert RUNNING not in screen(app)
        going = asyncio.ensure_future(replayed(writing, [one], asked, golds))
        shown = await until(app, pilot, lambda browse, shown: f"{COUNT} in flight" in shown and waits(browse, "search"))
        assert sum(line.count(RUNNING) for line in shown.splitlines()) >= COUNT
        browse = app.screen
        assert isinstance(browse, BrowseScreen)
        assert browse.tree_state is not None

        searcher.gate.set()
        await until(app, pilot, lambda browse, _: waits(browse, "model"))
        model.gate.set()
        await going
        shown = await until(app, pilot, lambda browse, shown: RUNNING not in shown)
        assert "in flight" not in shown
        assert browse.tree_state.loaded.in_flight is None
        assert browse.tree_state.loaded.attempt is not None
        assert len(attempts(reading, one.run)) == COUNT


def waits(browse: BrowseScreen, kind: str) -> bool:
    """Whether the attempt that is open has a call of this kind that has begun and not ended."""
    live = browse.tree_state.loaded.in_flight if browse.tree_state else None
    return live is not None and any(call.kind == kind for call in live.doing)


def flight(run: str, question_id: str, **changed: Any) -> LiveAttempt:
    call = LiveCall(kind="search", actor="bm25", what="edema \x1b[2J limbs", node="search", step=1, at=99.0)
    made = {
        "run": run,
        "agent": "a",
        "question_id": question_id,
        "epoch": 0,
        "at": 88.0,
        "node": "search",
        "steps": 2,
        "calls": 3,
        "tokens": 1234,
        "cost_uncached": 0.5,
        "doing": (call,),
    }
    return LiveAttempt(**{**made, **changed})


def test_a_row_says_where_an_attempt_is(stores: tuple[Store, Store]) -> None:
    reading, _ = stores
    asked, golds = questions(COUNT)
    run = planned(reading, "direct", asked, golds, ScriptedModel()).run
    pages = Pages(reading, [run])
    first, second = pages.read([0, 1])
    told = [flight(run.id, asked[0].id), flight("another-run", asked[1].id)]
    clock = [100.0]
    live = LiveRows(pages, lambda: tuple(told), lambda: clock[0])
    assert live.look()
    assert len(live) == 1, "only the runs that are listed"
    for width in (30, 60, 120):
        cells = live.cells(first, width, {})
        text = "".join(part for part, _ in cells)
        assert len(text) == width
        assert text.startswith(RUNNING)
        assert "\x1b" not in text
    assert "12 s" in text[:8]
    assert "search: search “edema <U+001B>[2J limbs” 1.0 s" in text
    assert "1.2 k" in text
    assert "".join(part for part, _ in live.cells(second, 120, {})).startswith("·")

    # It has ended, and is not written yet; then it is given up.
    told.clear()
    assert live.look()
    assert "is being written" in "".join(part for part, _ in live.cells(first, 120, {}))
    clock[0] += 6
    live.look()
    assert live.of(first) is None
    assert not live.look()


def test_an_attempt_that_is_made_again_is_in_flight_and_one_just_written_is_not(stores: tuple[Store, Store]) -> None:
    from msgspec.structs import replace

    reading, _ = stores
    asked, golds = questions(COUNT)
    run = planned(reading, "direct", asked, golds, ScriptedModel()).run
    pages = Pages(reading, [run])
    (row,) = pages.read([0])
    live = LiveRows(pages, lambda: (flight(run.id, asked[0].id),), lambda: 100.0)
    live.look()
    assert live.of(replace(row, outcome="failed", at=20.0)) is not None
    assert live.of(replace(row, outcome="answered", at=88.0)) is None
