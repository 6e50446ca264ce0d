"""Colours of pages and pictures can be told from what they stand on, by arithmetic."""

import re

import pytest
from textual.color import Color

from ragrounds.ui.theme import SERIES, notebook_colours, palette, series_name, theme_style
from tests.ui.contrast import contrast as contrast_of_colours

TEXT = ("ink", "dim", "good", "bad", "accent")
GROUNDS = ("back", "soft", "mark")
ALL_SERIES = tuple(series_name(index) for index in range(SERIES))


def contrast(one, other):
    return contrast_of_colours(Color.parse(one), Color.parse(other))


def test_contrast_is_that_of_the_guidelines():
    # The two ends, and a pair that is known for being just too weak on white.
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#123456", "#123456") == pytest.approx(1.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_and_shapes_can_be_seen(dark):
    colours = palette(dark)
    for ground in GROUNDS:
        for name in TEXT:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
        assert contrast(colours["edge"], colours[ground]) >= 3, ground
    for ground in ("back", "soft"):
        for name in ALL_SERIES:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def test_both_themes_name_the_same_colours_and_no_two_series_share_one():
    assert palette(False).keys() == palette(True).keys() >= {*TEXT, *GROUNDS, *ALL_SERIES, "line", "edge"}
    for dark in (False, True):
        assert len({palette(dark)[name] for name in ALL_SERIES}) == SERIES
    assert series_name(SERIES) == series_name(0)


def test_paper_is_light_and_the_theme_holds_nothing_but_properties():
    style = theme_style()
    assert re.findall(r"@media[^{]*", style) == ["@media screen and (prefers-color-scheme:dark)"]
    assert not re.sub(r"@media[^{]*\{|:root\{|color-scheme:\w+|--[a-z0-9-]+:#[0-9a-f]{6}|[;{}\s]", "", style)


def test_series_in_a_notebook_are_seen_on_light_and_on_dark_pages():
    colours = notebook_colours()
    assert colours.keys() == palette().keys() - {"soft", "mark", "good", "bad", "accent"}
    for ground in ("#ffffff", "#1e1e1e", "#12181f"):
        for name in ALL_SERIES:
            assert contrast(colours[name], ground) >= 3, (name, ground)
