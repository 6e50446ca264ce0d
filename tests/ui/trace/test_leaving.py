"""A screen that is left before it has read what it shows: what it reads comes too late, and closes no viewer."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from textual.css.query import NoMatches
from textual.screen import Screen

from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.filter_screen import FilterScreen
from ragrounds.ui.trace.views.compare import CompareScreen
from ragrounds.ui.trace.views.grid import GridScreen
from ragrounds.ui.trace.views.hops import HopScreen
from tests.ui.trace.seeing import settle

SCREENS: dict[str, Callable[[TraceApp], Screen[int | None] | Screen[str | None]]] = {
    "hops": lambda app: HopScreen(app.attempt_list, app.browse.notes),
    "grid": lambda app: GridScreen(app.attempt_list, app.browse.notes),
    "compare": lambda app: CompareScreen(app.attempt_list, app.browse.notes, 0, 6),
    "filter": lambda app: FilterScreen(app.attempt_list),
}


@pytest.mark.parametrize("name", SCREENS)
async def test_what_comes_when_its_screen_was_left_is_shown_nowhere(
    name: str, pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, gate, late = TraceApp(pages), threading.Event(), list[object]()
    asked = 0
    call = app.call_from_thread

    def held(show: Callable[..., object], *given: object) -> object:
        """As it is, but only when the gate is open."""
        nonlocal asked
        asked += 1
        gate.wait(20)
        try:
            late.append(None)
            return call(show, *given)
        except NoMatches as error:
            late[-1] = error
            raise

    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        monkeypatch.setattr(app, "call_from_thread", held)
        try:
            app.push_screen(SCREENS[name](app))
            for _ in range(500):
                await pilot.pause(0.01)
                if asked:
                    break
            await app.pop_screen()
        finally:
            gate.set()
        for _ in range(500):
            await pilot.pause(0.01)
            if len(late) >= asked > 0:
                break
        await pilot.pause(0.05)
        assert late
        assert not any(late)
        assert app.is_running
        assert isinstance(app.screen, BrowseScreen)
