"""What is read keeps a contrast of 4.5 to 1, measured on what is drawn, on every screen, dark and light."""

from __future__ import annotations

import pytest
from rich.color import Color as Drawn
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.theme import SERIES, palette, series_name
from ragrounds.ui.trace.themes import DARK, LIGHT, THEMES
from ragrounds.ui.trace.widgets import STYLES, Rows
from tests.ui.contrast import LEAST_CONTRAST, contrast
from tests.ui.trace.seeing import press, viewer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")]

WALK: tuple[tuple[str, ...], ...] = (
    ("down", "down"),
    ("tab", "down"),
    ("tab",),
    ("slash", "a", "i", "enter"),
    ("escape", "escape", "shift+tab", "shift+tab"),
    ("s",),
    ("escape", "f", "space"),
    ("escape", "question_mark"),
    ("question_mark", "ctrl+p", "n"),
    ("escape", "escape", "4"),
    ("tab", "down"),
    ("tab",),
    ("2", "down", "right"),
    ("w",),
    ("3", "down", "right", "x"),
    ("tab",),
    ("0", "down", "space", "down"),
)
"""Keys to every screen."""


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_every_colour_of_an_agent_can_be_read(theme: Theme) -> None:
    colours, background = palette(theme.dark), Color.parse(theme.background or "")
    for index in range(SERIES):
        assert contrast(Color.parse(colours[series_name(index)]), background) >= LEAST_CONTRAST, index


def weak(app: App[None]) -> dict[tuple[str, str], str]:
    """Pairs of text and ground on the screen that are too close, with a text that is written so. What lies behind a
    dialog is faded on purpose, and is not read."""
    found: dict[tuple[str, str], str] = {}
    strips = app.screen._compositor.render_strips()  # what goes to the terminal
    regions = [child.region for child in app.screen.children if child.display]
    for strip in [strips[y].crop(area.x, area.right) for area in regions for y in range(area.y, area.bottom)]:
        for segment in strip:
            style = segment.style
            if style is None or not any(letter.isalnum() or letter in "✓✗½!^=~?·★-" for letter in segment.text):
                continue
            assert not style.dim, f"dim has no colour that can be measured: {segment.text!r}"
            colors = [_colour(style.color), _colour(style.bgcolor)]
            text, behind = reversed(colors) if style.reverse else colors
            if contrast(text, behind) < LEAST_CONTRAST:
                found[text.hex, behind.hex] = segment.text
    return found


def _colour(drawn: Drawn | None) -> Color:
    assert drawn is not None, "a colour that the terminal chooses cannot be measured"
    return Color.from_rich_color(drawn)


@pytest.mark.parametrize("theme", [DARK, LIGHT])
async def test_everything_drawn_can_be_read(pages: Pages, theme: str) -> None:
    async with viewer(pages, theme=theme) as (app, pilot):
        for keys in WALK:
            await press(pilot, *keys)
            assert weak(app) == {}, keys


@pytest.mark.parametrize("theme", [one.name for one in THEMES])
async def test_every_style_can_be_read_on_every_ground(pages: Pages, theme: str) -> None:
    """Also the styles that this store's attempts do not need: on the pane, and on the cursor's line, active or not."""
    async with viewer(pages, theme=theme) as (app, pilot):
        for focused in (True, False):
            if not focused:
                await press(pilot, "tab")
            rows = app.screen.query_one("#attempts", Rows)
            assert rows.has_focus is focused
            under = rows.style_of("cursor")
            for name in STYLES:
                for ground in (None, under):
                    (segment,) = [one for one in rows.strip([("text", name)], 4, ground) if one.text.strip()]
                    assert segment.style is not None
                    colors = [_colour(segment.style.color), _colour(segment.style.bgcolor)]
                    assert contrast(*colors) >= LEAST_CONTRAST, (name, focused, ground)
