"""The home: every run by its questions, with figures; from it one goes down to attempts without a run's id."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static

from ragrounds.api import trace
from ragrounds.evals.compare.comparison import Comparison, compare
from ragrounds.evals.scorers import headline_of
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.one_screen import conclusion_lines
from ragrounds.ui.trace import home as home_module
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.bars import TopLine
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.home import HomeScreen, bar_cells
from ragrounds.ui.trace.themes import DARK, LIGHT
from ragrounds.ui.trace.view import ReadingPace
from ragrounds.ui.trace.views.compare import CompareScreen
from ragrounds.ui.trace.views.grid import GridScreen
from tests.rows import each_row
from tests.ui.trace.making import Journal, attempt, fill, make_run, model_call, question, score, step
from tests.ui.trace.seeing import current, press, screen, settle, viewer
from tests.ui.trace.test_contrast import weak

HOSTILE = "evil[x=\x1b[31m]"


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Store]:
    """The quiz, and 40 other questions that two agents answered: `good` 30 rightly, one of a hostile name 10."""
    with Store(tmp_path) as store:
        fill(store)
        journal = Journal(store)
        asked = [question(number) for number in range(40)]
        for agent, right in (("good", 30), (HOSTILE, 10)):
            run = make_run(store, agent, 40, questions=asked)
            events = step(0, "answer", model_call(journal, "answer", "Well?", "A."))
            made = [attempt(run, number, events) for number in range(40)]
            store.add_attempts(run, made, [score(number, number < right) for number in range(40)])
        journal.close()
        yield store


def home(pilot: Pilot[None]) -> HomeScreen:
    return current(pilot.app, HomeScreen)


def browse(pilot: Pilot[None]) -> BrowseScreen:
    return current(pilot.app, BrowseScreen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_it_opens_with_who_won_and_at_what_price(several: Store, size: tuple[int, int]) -> None:
    async with viewer(several, size=size) as (app, pilot):
        shown = screen(app)
        lines = shown.splitlines()
        assert "0 home 1 attempts 2 hops 3 grid 4 compare   4 runs" in lines[0]
        about = str(home(pilot).query_one("#about", Static).render())
        assert (
            "good is significantly better than the other: 75.00 % for $1.00 per 100 questions, +50.00 points"
            in " ".join(about.split())
        )
        compared = home(pilot).groups[0].comparison
        assert " ".join(conclusion_lines(compared, (), agent_names(compared))) in " ".join(about.split())
        good, other = (
            next(line for line in lines if f" {name}" in line and "│" in line) for name in ("good ", "evil[")
        )
        assert lines.index(good) < lines.index(other), "the best one comes first"
        assert "75.0" in good
        assert "$1.00" in good
        assert "█" in good
        assert "60-86" in good
        assert "\x1b" not in shown
        assert "▾ quiz · 6 questions" in shown
        assert "3 of 6" in shown
        assert ("dollars at full price" in shown) is (size[1] > 36)
        is_beside = any("dollars at full price" in line and "benchmark, agent" in line for line in lines)
        assert is_beside is (size[0] >= 140)
        assert lines[-1].lstrip().startswith("⏎ Open")
        assert all(len(line) <= size[0] for line in lines)


async def test_attempts_are_read_by_the_headline_as_in_the_home(several: Store) -> None:
    async with viewer(several, "down", "enter") as (_, pilot):
        assert browse(pilot).attempt_list.pages.scorers[0] == headline_of([question(0)])[0].scorer == "robust"


async def test_no_price_and_no_time_is_cut(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = make_run(store, "cheap", 40, questions=[question(number) for number in range(40)])
        made = [replace(attempt(run, number, ()), cost_uncached=1.2e-7, seconds=65.0) for number in range(40)]
        store.add_attempts(run, made, [score(number, True) for number in range(40)])
        async with viewer(store) as (app, _):
            line = next(line for line in screen(app).splitlines() if "cheap" in line)
            assert " $0.000012 " in line
            assert "1 min 05 s" in line


async def test_a_change_during_a_slow_reading_starts_no_second_one(
    several: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow_compare(*args: Any, **options: Any) -> Comparison:
        begun.set()
        assert go_on.wait(10)
        return compare(*args, **options)

    monkeypatch.setattr(home_module, "compare", slow_compare)
    app = TraceApp(several)
    async with app.run_test(size=(120, 40)) as pilot:
        await asyncio.to_thread(begun.wait, 10)
        make_run(several, "late", 6)
        home(pilot).look()
        assert len(app.workers) == 1
        go_on.set()
        await settle(pilot)
        assert "$1.00" in screen(app)


async def test_enter_goes_down_and_escape_comes_back(several: Store) -> None:
    async with viewer(several, "down", "enter") as (app, pilot):
        listed = browse(pilot).attempt_list
        assert {listed.row_at(row).run.agent for row in range(40)} == {"good"}  # type: ignore[union-attr]
        assert (len(listed), len(listed.pages.runs)) == (40, 2)
        await press(pilot, "escape")  # the filter: both agents' attempts
        assert len(listed) == 80
        await press(pilot, "escape")
        assert home(pilot).rows.row == 1
        await press(pilot, "up", "enter")
        assert isinstance(app.screen, GridScreen)  # the questions on which they are most split
        await press(pilot, "0")
        home(pilot)


async def test_two_are_picked_and_opened_where_they_differ_first(several: Store) -> None:
    async with viewer(several, "down", "space", "down", "space", "c") as (app, pilot):
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        assert "quiz/010" in screen(app)
        await press(pilot, "0", "escape", "c")  # none is picked: the one under the cursor and the best
        await settle(pilot)
        assert isinstance(app.screen, CompareScreen)
        assert [run.agent for run in app.browse.attempt_list.pages.runs] == [HOSTILE, "good"]


@pytest.mark.parametrize("theme", [DARK, LIGHT])
async def test_every_word_of_it_can_be_read(several: Store, theme: str) -> None:
    async with viewer(several, theme=theme) as (app, _):
        assert re.search(r"evil\[x=\S+ ⣤", screen(app))
        assert weak(app) == {}


async def test_runs_are_never_counted_as_none_while_they_are_read(several: Store, monkeypatch) -> None:
    counts: list[str] = []
    monkeypatch.setattr(TopLine, "tell", lambda line, *parts: counts.append(parts[0]))
    async with TraceApp(several).run_test(size=(80, 24)) as pilot:
        await settle(pilot)
    assert set(counts) == {"4 runs"}


async def test_runs_on_other_questions_unfold_and_say_how_far_they_are(several: Store) -> None:
    async with viewer(several, size=(80, 13)) as (app, pilot):
        assert "▸ quiz · 6 questions" in screen(app)
        await press(pilot, "end", "enter")
        await settle(pilot)
        shown = screen(app)
        assert "5 of 6, 1 failed" in shown
        assert "3 of 6" in shown
        await press(pilot, "left")
        assert "3 of 6" not in screen(app)


async def test_what_is_written_meanwhile_appears(several: Store) -> None:
    async with viewer(several, size=(80, 24)) as (app, pilot):
        make_run(several, "later", 3)
        shown = home(pilot)
        shown._pace = ReadingPace()
        shown.look()
        await settle(pilot)
        assert "quiz · 3 questions" in screen(app)


async def test_an_empty_store_says_what_makes_runs(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        async with viewer(store, size=(80, 24)) as (app, pilot):
            assert "`ragrounds run` makes some" in screen(app)
            await press(pilot, "enter", "space", "c", "right", "3")
            home(pilot)


def test_trace_opens_the_home_where_nothing_says_which_attempts(
    several: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []
    monkeypatch.setattr(TraceApp, "run", lambda app: opened.append(app.attempt_list is None))
    trace.view(home=tmp_path)
    trace.view(trace.AttemptQuery(where="wrong"), home=tmp_path)
    trace.view(trace.AttemptQuery(runs=["good"]), home=tmp_path)
    assert opened == [True, False, False]


@each_row("value", [0.0, 0.004, 0.5, 1.0])
@each_row("width", [0, 3, 4, 17, 60])
def test_a_bar_fills_its_width(value: float, width: int) -> None:
    for low, high in ((None, None), (value, value), (0.0, 1.0)):
        assert sum(len(text) for text, _ in bar_cells(value, low, high, width)) == width
