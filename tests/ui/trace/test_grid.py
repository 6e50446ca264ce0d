"""The grid driven by keys and mouse at three sizes, and its cells, headings and colours."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from textual.color import Color
from textual.pilot import Pilot
from textual.theme import Theme

from ragrounds.evals.compare.grid import AgentGrid, AgentGridCell
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.grid_pane import GridPane, cell_style, cell_text, heat, heat_styles
from ragrounds.ui.trace.themes import THEMES
from ragrounds.ui.trace.view import ReadingPace
from ragrounds.ui.trace.views.grid import GridScreen
from tests.ui.contrast import LEAST_CONTRAST, contrast
from tests.ui.trace.making import attempt, make_run, score
from tests.ui.trace.seeing import current, press, screen, settle, viewer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")]

SIZES = ((80, 24), (120, 40), (200, 60))


def grid(pilot: Pilot[None]) -> GridScreen:
    return current(pilot.app, GridScreen)


def rows(pilot: Pilot[None]) -> list[int]:
    return grid(pilot).rows


@pytest.mark.parametrize("size", SIZES)
async def test_the_grid_has_every_question_and_agent(pages: Pages, size: tuple[int, int]) -> None:
    async with viewer(pages, "3", size=size) as (_, pilot):
        shown = screen(pilot.app)
        assert sorted(rows(pilot)) == list(range(6))
        for name in ("1 plain", "2 seeker", "split ", "score", "cell"):
            assert name in shown
        assert "40.00" in shown  # plain: 2 of the 5 that have a score
        assert "66.67" in shown
        assert all(len(line) <= size[0] for line in shown.splitlines())


async def test_a_click_chooses_a_cell_and_a_second_one_opens_it(pages: Pages) -> None:
    async with viewer(pages, "3") as (_, pilot):
        pane = grid(pilot).pane
        left, cell, _ = pane.across()
        x = left + cell + 4
        await pilot.click(GridPane, offset=(x, 3 + pane._top))
        await settle(pilot)
        assert (pane.column, pane.row) == (1, 2)
        await pilot.click(GridPane, offset=(x, 3 + pane._top))
        await settle(pilot)
        assert isinstance(pilot.app.screen, BrowseScreen)


async def test_it_opens_at_the_first_difference_wherever_the_list_is(pages: Pages) -> None:
    async with viewer(pages, "end", "3") as (_, pilot):
        assert (grid(pilot).pane.row, grid(pilot).pane.column) == (0, 0)
        cells = {grid(pilot).grid.cell(rows(pilot)[0], column).value for column in (0, 1)}
        assert len(cells) == 2


async def test_a_live_run_fills_the_grid(store: Store, pages: Pages) -> None:
    async with viewer(pages, view="grid") as (_, pilot):
        assert grid(pilot).grid.cell(5, 0).outcome == "not_run"
        run = next(run for run in store.runs() if run.agent == "plain")
        store.add_attempts(run, [attempt(run, 5, [])], [score(5, True)])
        grid(pilot)._pace = ReadingPace()
        grid(pilot).look()
        await settle(pilot)
        assert grid(pilot).grid.cell(5, 0).value == 1


def headings(app: TraceApp) -> str:
    """The screen without the lines that say who chose an option."""
    return "\n".join(line for line in screen(app).splitlines() if " · " not in line)


async def test_many_agents_scroll_sideways(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for number in range(12):
            run = make_run(store, f"agent{number}", 2)
            store.add_attempts(run, [attempt(run, 0, [])], [score(0, number % 2 == 0)])
        async with viewer(Pages(store, store.runs()), view="grid", size=(80, 24)) as (_, pilot):
            assert "agent11" not in headings(pilot.app)
            await press(pilot, *["right"] * 11)
            assert "agent11" in headings(pilot.app)
            assert "agents " in str(grid(pilot).pane.border_subtitle)


@pytest.mark.parametrize("asked", ["strict", "equivalent"])
async def test_the_grid_is_headed_by_the_scorer_that_was_asked_for(store: Store, asked: str) -> None:
    run = next(run for run in store.runs() if run.agent == "plain")
    store.add_scores(run, [score(0, True, scorer="equivalent")])
    other = "equivalent" if asked == "strict" else "strict"
    for pages in (Pages(store, store.runs(), (asked, other)), Pages(store, store.runs(), (asked, other), (asked,))):
        found = AgentGrid(pages)
        found.load()
        assert found.scorer == ("strict" if not pages.asked else asked)
    async with viewer(pages, view="grid") as (app, _):
        assert f"by {asked}" in screen(app)


def cell(**more: object) -> AgentGridCell:
    return msgspec.convert({"value": 0.0, "epochs": 1, "outcome": "answered", **more}, AgentGridCell)


@pytest.mark.parametrize(
    ("made", "text", "style"),
    [
        (cell(value=1.0), "✓", "heat-4"),
        (cell(), "✗", "heat-0"),
        (cell(value=0.5), ".50", "heat-2"),
        (cell(outcome="failed"), "!", "heat-trouble"),
        (cell(outcome="abstained"), "~", "heat-trouble"),
        (cell(value=None), "-", "dim"),
        (cell(value=None, outcome="not_run"), "·", "dim"),
        (cell(value=2 / 3, epochs=3), ".67", "heat-3"),
        (cell(value=1 / 3, epochs=3, outcome="capped"), ".33^", "heat-2"),
        (cell(value=1.0, epochs=3, outcome="failed"), "1!", "heat-4"),
    ],
)
def test_cells_can_be_read_without_colour(made: AgentGridCell, text: str, style: str) -> None:
    assert (cell_text(made), cell_style(made)) == (text, style)


def test_heat_rises_with_the_score() -> None:
    assert [heat(value) for value in (0, 0.01, 0.4, 0.99, 1)] == ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4"]


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_letters_can_be_read_on_every_heat(theme: Theme) -> None:
    for name, style in heat_styles(theme.to_color_system().generate()).items():
        assert style.color is not None
        assert style.bgcolor is not None
        text, ground = Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
        assert contrast(text, ground) >= LEAST_CONTRAST, name


async def test_the_order_is_chosen_and_turned_round_and_a_cell_opened(pages: Pages) -> None:
    async with viewer(pages, "3") as (_, pilot):
        await press(pilot, "S")
        assert rows(pilot)[0] == 0  # what they agree on
        await press(pilot, "S", "s")
        assert (grid(pilot).sort, rows(pilot)) == ("score", [2, 3, 1, 4, 0, 5])
        await press(pilot, "s", "home", "enter")
        assert isinstance(pilot.app.screen, BrowseScreen)
        assert pilot.app.screen.attempt_list.current is not None
        assert pilot.app.screen.attempt_list.current.question.id == "quiz/000"
