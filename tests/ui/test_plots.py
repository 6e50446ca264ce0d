"""Pictures that results give: which there are, names at free places, every form they are kept in."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

import ragrounds as rr
from ragrounds.base.errors import UserError
from ragrounds.evals.analyses.pictures import Mark, Picture, across_axis, value_axis
from ragrounds.ui.pictures.chart_svg import WIDE, page_picture, svg, text_width
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.pictures.plot import Plot, check_plot_file
from ragrounds.ui.text import shorten_middle
from ragrounds.ui.theme import palette
from tests.conftest import Cli, succeeded

HOSTILE = "</svg><script>alert(1)</script>\x1b[31m\u202e & \"' ]]>"
SVG = "{http://www.w3.org/2000/svg}"


def every_kind(name: str = "run") -> dict[str, Picture]:
    row = Mark(name=name, value=0.5, low=0.4, high=0.6, best=0.8, note=name, group=name, full=False)
    rows = (row, Mark(name="one end", value=0.7, low=0.65, note="no bound above"), Mark(name="none"))
    line = tuple(Mark(name=name, group=name, x=at, value=0.2 * at, low=0.1, high=0.9) for at in (1, 2))
    return {
        "rows": Picture(title=name, words=name, marks=rows, reference=0.5, full=name, hollow=name, note=name),
        "bars": Picture(title=name, words=name, marks=rows, bars=True),
        "lines": Picture(title=name, words=name, x=name, marks=line),
        "points": Picture(title=name, words=name, x=name, marks=(Mark(name=name, x=0, value=1.0, low=1.0, high=1.0),)),
    }


@pytest.mark.parametrize("kind", list(every_kind()))
def test_hostile_names_are_text_in_every_kind_and_width(kind: str) -> None:
    picture = every_kind(HOSTILE)[kind]
    for drawn in (svg(picture), svg(picture, theme="dark", width=400.0)):
        root = ET.fromstring(drawn)
        assert {element.tag.removeprefix(SVG) for element in root.iter()} <= set(
            "svg title style rect g path circle text polyline".split()
        )
    for drawn in (svg(picture), page_picture(picture), *(draw(picture, width).plain for width in (20, 80, 200))):
        assert "\x1b" not in drawn
        assert "\u202e" not in drawn
    assert "<script" not in page_picture(picture)


def test_a_bar_ends_at_its_value_and_a_line_shows_its_interval() -> None:
    mark = Mark(name="a", value=0.5, low=0.4, high=0.6)
    line = draw(Picture(title="t", marks=(mark,), bars=True), 118).plain.split("\n")[0]
    assert re.search(r" █{24}├─{5}●─{4}┤ +50.0 \(40.0 to 60.0\)", line)


def test_points_stand_by_their_numbers() -> None:
    rows = draw(every_kind()["lines"], 80).plain.split("\n")
    places = [(at, row.index("1", 7)) for at, row in enumerate(rows[1:16]) if "1" in row[7:]]
    (high, right), (low, left) = places
    assert high < low
    assert left < right


def test_nothing_to_draw() -> None:
    for picture in (Picture(title="t", marks=()), Picture(title="t", marks=(Mark(name="a"),))):
        with pytest.raises(UserError, match="nothing to draw"):
            svg(picture)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_by_itself_has_the_colours_of_its_theme_and_one_on_a_page_those_of_the_page(theme: str) -> None:
    picture = every_kind()["rows"]
    alone = Plot("scores", picture, theme).svg()  # type: ignore[arg-type]
    assert f"fill:{palette(theme == 'dark')['back']}" in alone
    assert "var(" not in alone
    part = page_picture(picture)
    assert "<style" not in part
    assert "#" not in part


@pytest.mark.parametrize("kind", list(every_kind()))
@pytest.mark.parametrize("width", [WIDE, 560.0])
def test_nothing_is_drawn_outside_the_picture(kind: str, width: float) -> None:
    """Even in a font that is a fifth wider than ours, also where names, figures and notes are long."""
    picture = every_kind("vanilla_rag[top_k=8,retriever=medcpt,corpus=textbooks,model=openai:gpt-5-mini]" * 2)[kind]
    drawn = ET.fromstring(svg(picture, width=width, standalone=False))
    for element in drawn.iter("text"):
        if element.get("transform"):
            continue
        wide = text_width(element.text or "")
        left = float(element.get("x", "0")) - {"end": wide, "middle": wide / 2}.get(element.get("text-anchor", ""), 0)
        assert left >= -1, element.text
        if not any(element in group for group in drawn.iter("g") if group.get("transform")):
            assert left + wide <= width + 1, element.text


def test_the_axis_contains_intervals_and_what_open_attempts_could_lead_to() -> None:
    axis = value_axis(Picture(title="t", marks=(Mark(name="a", value=0.5, low=0.2, high=0.55, best=0.81),)))
    assert axis.low <= 0.2
    assert axis.high > 0.81


def test_every_axis_has_a_title() -> None:
    for kind, picture in every_kind("x-words").items():
        texts = [one.text for one in ET.fromstring(svg(picture)).iter(f"{SVG}text")]
        assert texts.count("x-words") >= 2, kind


def test_long_names_lose_their_middle() -> None:
    short = shorten_middle("mirage_predictions[model=gpt-35-turbo-16k,setting=cot]", 180, text_width)
    assert short.startswith("mirage")
    assert short.endswith("g=cot]")
    assert text_width(short) <= 180


def test_an_interval_of_one_end_reaches_the_edge() -> None:
    picture = every_kind()["rows"]
    assert "70.0 (65.0 to -) no bound above" in svg(picture)
    line = next(one for one in draw(picture, 120).plain.split("\n") if one.startswith("one end"))
    assert re.search(r"├─*●─+ ", line)


def test_a_picture_is_kept_as_svg_png_and_pdf(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    plot = Plot("scores", every_kind()["rows"])
    assert plot.save(tmp_path / "a.svg").read_text().startswith("<svg")
    png = plot.save(tmp_path / "a.PNG").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert (png[:4], width) == (b"\x89PNG", 2 * WIDE)
    assert height == 2 * float(ET.fromstring(plot.svg()).get("height", "0"))
    assert plot.save(tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")


def test_text_is_drawn_in_a_png_whatever_fonts_the_host_has() -> None:
    convert = pytest.importorskip("vl_convert")
    with_text = convert.svg_to_png(svg(every_kind()["rows"]))
    without = convert.svg_to_png(re.sub(r"<text.*?</text>", "", svg(every_kind()["rows"])))
    assert len(with_text) > 1.5 * len(without)


@pytest.mark.parametrize(("best", "seen"), [(0.8, True), (0.5001, False)])
def test_what_open_attempts_could_make_of_a_figure_is_drawn_where_it_can_be_seen(best: float, seen: bool) -> None:
    drawn = svg(Picture(title="t", marks=(Mark(name="a", value=0.5, low=0.4, high=0.9, best=best),)))
    assert ('class="open"' in drawn, "every open attempt" in drawn) == (seen, seen)


@pytest.mark.parametrize(("last", "unit", "logarithmic"), [(8, "number", False), (8, "dollars", True)])
def test_costs_far_apart_are_on_a_logarithmic_axis(last: int, unit: str, logarithmic: bool) -> None:
    marks = tuple(Mark(name="a", x=at, value=0.5) for at in (1, last))
    axis = across_axis(Picture(title="t", x="x", x_unit=unit, marks=marks))  # type: ignore[arg-type]
    assert axis.logarithmic is logarithmic


def test_a_cost_that_is_a_lower_bound_is_a_triangle_open_to_the_right() -> None:
    marks = tuple(Mark(name=name, x=1.0 + at, value=0.5, is_open=at > 0) for at, name in enumerate(("exact", "least")))
    picture = Picture(title="t", x="x", marks=marks)
    shapes = {group[0].text.partition(":")[0]: group[1].tag for group in ET.fromstring(svg(picture)).iter(f"{SVG}g")
              if len(group) == 2 and group[0].tag == f"{SVG}title"}  # fmt: skip
    assert shapes == {"exact": f"{SVG}circle", "least": f"{SVG}path"}
    assert "►" in draw(picture).plain
    marks = tuple(replace(mark, is_open=True, full=not at) for at, mark in enumerate(marks))
    picture = Picture(title="t", x="x", marks=marks, full="best", hollow="other")
    assert not list(ET.fromstring(svg(picture)).iter(f"{SVG}circle")), "the legend has the signs of the picture"
    assert "► best; ▷ other" in draw(picture).plain


def test_what_cannot_be_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"a\.jpg names no kind of picture; expected a file that ends in \.svg"):
        check_plot_file(tmp_path / "a.jpg")
    with pytest.raises(UserError, match="Cannot write"):
        Plot("x", every_kind()["bars"]).save(tmp_path / "no" / "a.svg")
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    assert check_plot_file(tmp_path / "a.svg")
    with pytest.raises(UserError, match=r"pip install 'ragrounds\[plot\]'"):
        check_plot_file(tmp_path / "a.png")


@pytest.mark.slow
def test_results_have_pictures(command: Cli, tmp_path: Path) -> None:
    result = rr.run(agents=["direct", "vanilla_rag[top_k=2]"], limit=12, progress=False)
    assert result.pictures == ("scores", "differences", "frontier")  # one dataset, no hops
    with pytest.raises(UserError, match="There is no picture 'hops' to draw"):
        result.plot("hops")
    assert len(rr.runs().to_pandas()) == 2
    found = rr.compare(list(result.ids))
    plot = found.plot()
    table = found.comparison.shown_tables()[0][0]
    assert [(row.value, row.low, row.high) for row in plot.picture.marks] == [
        (line.overall.value, line.overall.low, line.overall.high) for line in table.lines
    ]
    shown = plot._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert "vanilla_rag" in str(plot)
    differences = found.plot("differences").picture
    assert [row.value for row in differences.marks] == [pair.tests.difference for pair in table.pairs]
    frontier = found.plot("frontier", tmp_path / "frontier.svg", theme="dark")
    assert frontier.picture.steps
    assert (tmp_path / "frontier.svg").read_text() == frontier.svg()
    with pytest.raises(UserError, match="no attempt of these runs searched more than once"):
        found.plot("hops")
    with pytest.raises(UserError, match=r"no picture 'datasets' to draw: these questions are of one dataset"):
        found.plot("datasets")
    with pytest.raises(UserError, match=r"no picture 'score'. Did you mean 'scores'"):
        found.plot("score")
    with pytest.raises(UserError, match="expected light or dark"):
        found.plot(theme="blue")
    with pytest.raises(UserError, match="LedgerView has no pictures"):
        rr.ledger().plot()
    assert rr.analyse("success", "vanilla_rag[top_k=2]").plot().name == "success"
    commands(command, tmp_path)


def commands(command: Cli, folder: Path) -> None:
    """The same by the command line."""
    runs = ("direct", "vanilla_rag[top_k=2]")
    file = folder / "differences.svg"
    done = succeeded(command("compare", *runs, "--plot", str(file), "--picture", "differences", "--json"))
    assert "Paired differences" in done.stderr
    assert "minus" in file.read_text()
    for wrong in (("--plot", "x.gif"), ("--theme", "dark"), ("--plot", str(file), "--picture", "no")):
        done = command("compare", *runs, *wrong)
        assert done.returncode == 2, wrong
        assert "Traceback" not in done.stderr


def test_a_fresh_drawing_is_the_same_letter_by_letter() -> None:
    for picture in every_kind().values():
        assert svg(picture) == svg(picture)


def test_rows_begin_in_one_column_whatever_the_width_of_their_names() -> None:
    marks = tuple(
        Mark(name=name, value=0.5, note=note) for name, note in (("plain", "n = 1"), ("医学问答" * 3, "共一题"))
    )
    lines = draw(Picture(title="t", marks=marks, bars=True), width=80).plain.split("\n")
    assert len({cell_len(line[: line.index("█")]) for line in lines[:2]}) == 1
    assert max(map(cell_len, lines)) <= 80
