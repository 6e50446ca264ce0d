"""Every screen stands on the page of screens, every picture on some page, and none asks anything of the web."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDER = DOCS / "pictures" / "screens"


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(DOCS / "scripts"))
    yield
    for name in ("draw_screens", "terminal_svg"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("docs")
def test_every_screen_stands_on_the_page_and_no_picture_is_shown_nowhere() -> None:
    from draw_screens import NAMES

    page = (DOCS / "reference" / "screens.md").read_text(encoding="utf-8")
    assert {f"{name}-120-dark.svg" for name in NAMES} <= set(re.findall(r"pictures/screens/([\w-]+\.svg)", page))
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    shown = {name for file in pages for name in re.findall(r"pictures/screens/([\w-]+\.svg)", file.read_text("utf-8"))}
    assert {file.name for file in FOLDER.glob("*.svg")} == shown


def test_pictures_ask_nothing_of_the_web_and_stay_small() -> None:
    sizes = []
    for file in FOLDER.glob("*.svg"):
        text = file.read_text(encoding="utf-8")
        sizes.append(len(text.encode()))
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg|127\.0\.0\.1)[\w.]+/", text) == [], file.name
        assert not re.search(r"<(script|image|foreignObject|use)|@import|url\(", text), file.name
    assert sum(sizes) < 6_000_000


@pytest.mark.usefixtures("docs")
def test_a_line_of_a_terminal_as_svg() -> None:
    from terminal_svg import CELL, DARK, terminal_svg

    line = [Segment("a<b"), Segment("   "), Segment("漢字", Style(bold=True, reverse=True))]
    picture = terminal_svg([line], 12, DARK, "one & two")
    assert "<title>one &amp; two</title>" in picture
    assert f'<tspan x="0.0" textLength="{round(3 * CELL, 1)}" class="c0">a&lt;b</tspan>' in picture
    # Two wide letters are four cells, from the seventh on, on a ground of their own.
    assert f'<rect x="{round(6 * CELL, 1)}" y="0.0" width="{round(4 * CELL, 1)}"' in picture
    assert "font-weight:bold" in picture
