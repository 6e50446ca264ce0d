"""Each screen driven by keys and mouse, and compared with a picture of it in text."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.browse import BrowseScreen
from tests.ui.trace.seeing import bindings, current, matches, press, screen, settle, viewer


def browse(pilot: Pilot[None]) -> BrowseScreen:
    return current(pilot.app, BrowseScreen)


def shown(pilot: Pilot[None]) -> str:
    return screen(pilot.app)


@pytest.mark.parametrize(
    ("width", "height"),
    [(80, 24), pytest.param(140, 40, marks=pytest.mark.slow), pytest.param(240, 50, marks=pytest.mark.slow)],
)
async def test_the_main_screen_from_small_to_very_wide(pages: Pages, width: int, height: int) -> None:
    async with viewer(pages, size=(width, height)) as (_, pilot):
        await press(pilot, *["down"] * 6)
        matches(pilot.app, f"browse-{width}x{height}")


async def test_no_color_has_no_colour_and_shows_the_cursor(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        coloured = shown(pilot)
    monkeypatch.setenv("NO_COLOR", "1")
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        assert shown(pilot) == coloured
        strips = [browse(pilot).attempts.render_line(y) for y in (1, 2)]
        assert [any(segment.style and segment.style.reverse for segment in strip) for strip in strips] == [True, False]


async def test_the_three_panes_follow_each_other(pages: Pages) -> None:
    async with viewer(pages, size=(140, 40)) as (_, pilot):
        await press(pilot, *["down"] * 6, "enter", *["down"] * 5)
        matches(pilot.app, "search-call")


async def test_folding(pages: Pages) -> None:
    async with viewer(pages, size=(140, 40)) as (_, pilot):
        await press(pilot, *["down"] * 6, "enter", "minus")
        matches(pilot.app, "all-folded")
        assert "▸ round 3 “query 2” → 2, gold at 1" in shown(pilot)  # what is folded away is told in its row
        await press(pilot, "down", "space")
        assert shown(pilot).count("▾ round") == 1
        await press(pilot, "left", "plus")
        assert shown(pilot).count("▾ round") == 3
        await press(pilot, "left")
        assert shown(pilot).count("▾ round") == 2


@pytest.mark.slow
async def test_find_filters_questions_and_escape_brings_them_back(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await press(pilot, "slash", *"case 4", "enter")
        matches(pilot.app, "find-questions")
        assert len(browse(pilot).attempt_list) == 2
        await press(pilot, "n")
        assert browse(pilot).attempt_list.row == 1
        await press(pilot, "escape")
        assert len(browse(pilot).attempt_list) == 12
        assert browse(pilot).attempt_list.current is not None


async def test_find_that_leaves_nothing_is_not_applied(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await press(pilot, "slash", *"zzz", "enter")
        assert len(browse(pilot).attempt_list) == 12
        assert "No attempt is left" in shown(pilot)


async def test_next_wrong_next_error_and_back(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        rows = []
        for key in ("w", "w", "e", "W", "E"):
            await press(pilot, key)
            rows.append(browse(pilot).attempt_list.row)
        assert rows == [1, 2, 3, 2, 3]
        assert "the server went away" in shown(pilot)


async def test_sorting(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await press(pilot, "s", "c", "enter")
        first = browse(pilot).attempt_list.row_at(0)
        assert first is not None
        assert first.cost_uncached == pytest.approx(0.04)
        assert "by cost, highest first" in shown(pilot)
        await press(pilot, "S")
        assert "by cost, lowest first" in shown(pilot)


@pytest.mark.parametrize(("width", "height"), [(80, 24), pytest.param(160, 45, marks=pytest.mark.slow)])
async def test_the_compare_screen(pages: Pages, width: int, height: int) -> None:
    async with viewer(pages, size=(width, height)) as (_, pilot):
        await press(pilot, "down", "c")
        matches(pilot.app, f"compare-{width}x{height}")


async def test_help_lists_every_key_and_the_signs(pages: Pages) -> None:
    async with viewer(pages, size=(100, 60)) as (_, pilot):
        await press(pilot, "question_mark")
        await pilot.pause(0.2)
        for words in ("Next wrong", "right, ✗ wrong", "Match before"):
            assert words in shown(pilot)
        await press(pilot, "question_mark")
        assert "Match before" not in shown(pilot)


def test_every_key_has_an_id_and_a_description() -> None:
    assert len(bindings()) > 40
    assert [one for one in bindings() if not one.id or not one.description] == []


async def test_the_mouse_chooses_and_opens(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await pilot.click("#attempts", offset=(5, 4))
        await settle(pilot)
        assert browse(pilot).attempt_list.row == 2
        await pilot.click("#attempts", offset=(5, 4))
        await settle(pilot)
        assert pilot.app.focused is browse(pilot).tree_pane


async def test_a_pane_can_be_enlarged(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await press(pilot, "tab", "tab", "z")
        assert browse(pilot).maximized is browse(pilot).pager
        await press(pilot, "z")
        assert browse(pilot).maximized is None


async def test_copy_takes_the_text_as_it_was_recorded(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await press(pilot, "y")
        assert pilot.app.clipboard == "\n".join(block.text for block in browse(pilot).pager.blocks)


async def test_the_mouse_selects_text_for_copying(pages: Pages) -> None:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        await pilot.mouse_down("#detail", offset=(1, 2))
        await pilot.hover("#detail", offset=(9, 2))
        await pilot.mouse_up("#detail", offset=(9, 2))
        await settle(pilot)
        assert pilot.app.screen.get_selected_text() == "Which rem"


async def test_one_run_cannot_be_compared(store: Store) -> None:
    async with viewer(Pages(store, store.runs()[:1]), "c", size=(80, 24)) as (app, _):
        assert "needs two runs" in screen(app)
