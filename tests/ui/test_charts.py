"""Pictures of analyses: hostile names, missing values, a single point."""

import xml.etree.ElementTree as ET

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.analyses.pictures import Bar, Bars, Mark, Points, Series
from ragrounds.ui.chart_svg import svg
from ragrounds.ui.chart_text import draw

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e & \"'"


def pictures():
    marks = (Mark(x=1, value=0.4, low=0.3, high=0.5), Mark(x=100, value=0.6))
    yield Points(title=HOSTILE, x=HOSTILE, lines=(Series(name=HOSTILE, marks=marks), Series(name="b", marks=())))
    yield Points(title="one", x="k", lines=(Series(name="a", marks=(Mark(x=0, value=1.0, low=1.0, high=1.0),)),))
    bars = (Bar(name=HOSTILE, value=0.5, low=0.25, high=0.75, note=HOSTILE), Bar(name="none", value=None))
    yield Bars(title=HOSTILE, groups=((HOSTILE, bars), ("", bars)))


@pytest.mark.parametrize("picture", list(pictures()))
@pytest.mark.parametrize("width", [20, 80, 200])
def test_hostile_names_are_text(picture, width):
    drawn, written = draw(picture, width).plain, svg(picture)
    for text in (drawn, written):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<script" not in written
    ET.fromstring(written)


def test_a_bar_ends_at_its_value_and_shades_its_interval():
    (line, *_) = draw(Bars(title="t", groups=(("", (Bar(name="a", value=0.5, low=0.4, high=0.6),)),)), 118).plain.split(
        "\n"
    )
    assert (line.count("█"), line.count("▓"), line.count("░")) == (24, 6, 6)
    assert "50.0" in line


def test_points_stand_by_their_numbers():
    drawn = draw(
        Points(title="t", x="k", lines=(Series(name="a", marks=(Mark(x=1, value=0.2), Mark(x=8, value=0.9))),)), 80
    )
    rows = drawn.plain.split("\n")
    places = [(number, row.index("1", 7)) for number, row in enumerate(rows[1:16]) if "1" in row[7:]]
    (high, right), (low, left) = places
    assert high < low
    assert left < right


def test_nothing_to_draw():
    with pytest.raises(UserError, match="nothing to draw"):
        svg(Points(title="t", x="k", lines=()))
