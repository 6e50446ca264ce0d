"""Names of points: in the drawing itself, of random pictures, each is nearest to its own point."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

import numpy as np
import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from ragrounds.evals.analyses.pictures import Mark, Picture, across_axis, value_axis
from ragrounds.ui.pictures.chart_svg import WIDE, svg, text_width
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.named_points import Box, distance, overlap

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ("direct", "search_o1", "vanilla_rag[top_k=8]", "i_medrag[rounds=2]", "cot", "tool_agent", "検索", "hyde[k=32]")


def random_picture(seed: int) -> Picture:
    """2 to 12 points, of a fifth of the pictures some at one place, of every other one with intervals."""
    chance = np.random.default_rng(seed)
    count = int(chance.integers(2, 13))
    cost = [10.0**power for power in chance.uniform(-1, chance.choice([-0.5, 1.0]), count).tolist()]
    score = chance.uniform(0.3, 0.9, count).tolist()
    if seed % 5 == 0:
        cost[1], score[1] = cost[0], score[0]
    bars, best, marks = seed % 2, -1.0, []
    for at in np.argsort(cost, kind="stable"):
        full, best = score[at] > best, max(best, score[at])
        mark = Mark(name=f"{WORDS[at % len(WORDS)]}{'abcdefghijkl'[at]}", x=cost[at], value=score[at], full=full)
        ends = {"low": score[at] - 0.06, "high": score[at] + 0.07, "x_low": cost[at] * 0.9, "x_high": cost[at] * 1.2}
        marks.append(replace(mark, **ends) if bars else mark)
    return Picture(title="t", marks=tuple(marks), x="dollars", x_unit="dollars", steps=True)


Drawn = Iterator[tuple[str, Box, tuple[float, float], list[tuple[float, float]]]]


def svg_names(picture: Picture, drawn: str) -> Drawn:
    """Each name with its box, its point and the other points."""
    root, places = ET.fromstring(drawn), {}
    for group in root.iter(f"{SVG}g"):
        title, circle = group.find(f"{SVG}title"), group.find(f"{SVG}circle")
        if title is not None and circle is not None:
            places[(title.text or "").split(":")[0]] = float(circle.get("cx", "")), float(circle.get("cy", ""))
    assert len(places) == len(picture.marks)
    for text in root.iter(f"{SVG}text"):
        name = text.text or ""
        if name in places:
            wide, x, y = text_width(name), float(text.get("x", "0")), float(text.get("y", "0"))
            left = x - {"end": wide, "middle": wide / 2}.get(text.get("text-anchor", ""), 0.0)
            kinds = (text.get("class") or "").split()
            assert "quiet" in kinds or any(re.fullmatch(r"f\d", kind) for kind in kinds), "in its point's colour"
            yield name, (left, y - 10.5, left + wide, y + 3.5), places[name], [*places.values()]


def text_names(picture: Picture, drawn: str, height: int, width: int = 80) -> Drawn:
    """The same in columns and half lines."""
    lines = drawn.split("\n")[1:]
    frame = [line[7:] for line in lines[: next(at for at, line in enumerate(lines) if "└" in line)]]
    shown = picture
    if height < 14:
        bare = tuple(Mark(name=mark.name, x=mark.x, value=mark.value) for mark in picture.marks)
        shown = replace(picture, marks=bare)
    across, up, columns = across_axis(shown), value_axis(shown), width - 8
    places = {
        mark.name: (
            round(across.position_of(mark.x or 0.0) * (columns - 1)) + 0.5,
            2 * int((1 - up.position_of(mark.value or 0.0)) * (len(frame) - 1) + 0.5) + 1.0,
        )
        for mark in picture.marks
    }
    for row, line in enumerate(frame):
        assert cell_len(line) == columns, "none off the page, and none that moves what is right of it"
        for mark in picture.marks:
            if (at := line.find(mark.name)) >= 0:
                left = cell_len(line[:at])
                box = (left, 2.0 * row, left + cell_len(mark.name), 2.0 * row + 2)
                yield mark.name, box, places[mark.name], [*places.values()]
    for x, y in places.values():
        cell = "".join(letter * max(1, cell_len(letter)) for letter in frame[int(y) // 2])[int(x)]
        assert cell in "▀▄⠛⣤123456789abc·", "each point is seen"


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.weekly])])
@pytest.mark.parametrize(("height", "least"), [(0, 0.99), (10, 0.96), (20, 0.99)], ids=["svg", "low", "high"])
def test_a_name_is_nearest_to_its_own_point_over_no_other_and_on_the_page(height: int, least: float, step: int) -> None:
    named = asked = 0
    for seed in range(0, 1000, step):
        picture, boxes = random_picture(seed), dict[str, Box]()
        drawn = draw(picture, 80, height).plain if height else svg(picture)
        for name, box, own, others in text_names(picture, drawn, height) if height else svg_names(picture, drawn):
            assert all(distance(box, own) <= distance(box, other) + 0.2 for other in others), (seed, name)
            assert not any(overlap(box, other) for other in boxes.values()), (seed, name)
            assert name not in boxes, (seed, name)
            assert box[0] >= 0, (seed, name)
            assert height or box[2] <= WIDE - 20, (seed, name)
            boxes[name] = box
        assert "leader" not in drawn, "no line to a name, so none that crosses"
        assert all(mark.name in drawn for mark in picture.marks), "who has no place is in the key"
        named, asked = named + len(boxes), asked + len(picture.marks)
    assert named / asked > least, named / asked
