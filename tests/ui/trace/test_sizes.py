"""Nothing is cut at the right edge, at every size, also where the terminal is resized while the viewer is open."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.widgets import Lines, Pager, Rows
from tests.ui.trace.seeing import current, press, screen, settle, viewer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")]

SIZES = ((80, 24), (120, 40), (200, 60))


def overrun(app: TraceApp) -> list[str]:
    """Lines of a pane that are wider than what is seen of it."""
    wide: list[str] = []
    for pane in app.screen.query(Lines):
        if isinstance(pane, Pager):
            wide += [line.text for line in pane._page.lines if cell_len(line.text) > pane.columns]
        elif isinstance(pane, Rows) and type(pane) is Rows:
            for row in range(min(pane.count, 60)):
                text = "".join(part for part, _ in pane._draw(row, pane.columns))
                wide += [text] if cell_len(text) > pane.columns else []
            assert pane.columns + 1 == pane.size.width, "a cell is kept for the scrollbar"
    return wide


@pytest.mark.parametrize("size", SIZES)
async def test_no_line_is_cut(pages: Pages, size: tuple[int, int]) -> None:
    async with viewer(pages, *["down"] * 6, size=size) as (app, pilot):
        assert overrun(app) == []
        shown = screen(app)
        assert "paid $0.04, full price $0.04" in shown
        # The time of a step stands whole; a narrow pane leaves it out.
        assert (" 1.5 s" in shown) == (size[0] > 80)
        assert all(cell_len(line) <= size[0] for line in shown.splitlines())
        for keys in (("f",), ("escape", "s"), ("escape", "asterisk"), ("escape", "2")):
            await press(pilot, *keys)
            assert overrun(app) == [], keys


async def test_the_viewer_follows_the_size_of_the_terminal(pages: Pages) -> None:
    async with viewer(pages, *["down"] * 6, "tab", "down", "down", size=(200, 60)) as (app, pilot):
        browse = current(app, BrowseScreen)
        wide = [pane.region.y for pane in (browse.attempts, browse.tree_pane, browse.pager)]
        assert wide[0] == wide[2] < wide[1], "the detail is next to both lists"
        for size in ((80, 24), (120, 40), (60, 20), (200, 60)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            shown = screen(app)
            assert all(cell_len(line) <= size[0] for line in shown.splitlines())
            assert overrun(app) == []
            assert (browse.attempt_list.row, app.focused) == (6, browse.tree_pane)
            # The rows under both cursors are still seen.
            for pane in (browse.attempts, browse.tree_pane):
                top = pane.scroll_offset.y
                assert top <= pane.row <= top + pane.size.height, size
        assert [pane.region.y for pane in (browse.attempts, browse.tree_pane, browse.pager)] == wide
