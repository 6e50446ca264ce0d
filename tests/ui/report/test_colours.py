"""A run has one colour on a page, whatever a picture leaves out."""

from __future__ import annotations

import re

import pytest

from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.ui.pictures.chart_svg import svg

NAMES = ("first", "second", "third")
LATER = NAMES[:0:-1]
"""The runs of a picture that leaves out the first."""
PICTURES = {
    "frontier": [Mark(name=name, x=x, value=0.3 * x, full=x > 1) for name, x in zip(LATER, (2.0, 1.0), strict=True)],
    "intervals": [Mark(name=name, value=0.5, full=name == "third") for name in LATER],
    "datasets": [Mark(name=name, value=0.5, group="a dataset") for name in LATER],
    "bars": [Mark(name="by search 1", value=0.5, group=name) for name in LATER],
}


@pytest.mark.parametrize("kind", PICTURES)
def test_each_picture_has_the_runs_colours(kind: str) -> None:
    picture = Picture(title="t", marks=tuple(PICTURES[kind]), bars=kind == "bars", series_names=NAMES)
    shapes = re.findall(r'<g><title>[^<]*</title><(?:circle|rect) class="(?:hollow )?[fl](\d)"', svg(picture))
    assert shapes == (["2", "3"] if kind == "frontier" else ["3", "2"])  # points that are not full come first
