"""Words that are printed can be read on a light and on a dark terminal: no colour or shade of its palette is theirs.

Measured on the cells with the colours of xterm, in which yellow on white has a contrast of 1.7, and red on black 3.7.
"""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace
from rich.segment import Segment
from rich.terminal_theme import TerminalTheme
from textual.color import Color

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.frame import frame
from ragrounds.ui.tables.comparison_tables import print_comparison
from tests.compare.making import add_run, questions
from tests.ui.contrast import LEAST_CONTRAST, contrast
from tests.ui.progress.test_frame import facts

AGENTS = ("direct_cot", "vanilla_rag[top_k=8]", "search_o1")
_NORMAL = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
]
_BRIGHT = [
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255,) * 3,
]
XTERM = {
    "light": TerminalTheme((255, 255, 255), (0, 0, 0), _NORMAL, _BRIGHT),
    "dark": TerminalTheme((0, 0, 0), (229, 229, 229), _NORMAL, _BRIGHT),
}


def weak_words(segments: list[Segment], theme: TerminalTheme) -> set[str]:
    """Return the texts below the minimal contrast. Dim letters are halfway to their ground; a sign alone is a shape."""
    weak = set[str]()
    for text, style, control in segments:
        if control or style is None or sum(letter.isalnum() for letter in text) < 2:
            continue
        front, ground = (
            Color(*theme.foreground_color if is_front else theme.background_color)
            if color is None
            else Color(*color.get_truecolor(theme, is_front))
            for color, is_front in ((style.color, True), (style.bgcolor, False))
        )
        front = front.blend(ground, 0.5) if style.dim else front
        if contrast(front, ground) < LEAST_CONTRAST:
            weak.add(text)
    return weak


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Segment]]:
    """Name of each screen → its segments."""
    asked = questions(40)
    with Store(tmp_path_factory.mktemp("home")) as store:
        for place, agent in enumerate(AGENTS):
            right = [int(index % 4 <= place) for index in range(40)]
            failed = dict.fromkeys(range(place, place + 4), "failed")
            add_run(store, agent, asked, right, status=failed, cost_uncached=0.01 * (place + 1), unanswered=1)
        compared = compare(store, store.runs())
    compared = replace(compared, notes=("search_o1 has no prices. `ragrounds ledger` adds them.",))
    consoles = {
        name: SafeConsole(width=120, height=60, file=io.StringIO(), force_terminal=True, record=True)
        for name in ("compare", "full", "live")
    }
    print_comparison(compared, console=consoles["compare"])
    print_comparison(compared, console=consoles["full"], full=True)
    consoles["live"].print(frame(facts(), 120, 60, ("A library printed this.",)))
    return {name: console._record_buffer for name, console in consoles.items()}


@pytest.mark.parametrize("theme", XTERM)
@pytest.mark.parametrize(("screen", "words"), [
    ("compare", ("vanilla_rag[top_k=8]", "percent right", "Note: search_o1")),
    ("full", ("vanilla_rag[top_k=8]", "error bars", "Note: search_o1")),
    ("live", ("RAG of 3 passages", "tried again", "A library printed", "last results", "Ctrl-C")),
])  # fmt: skip
def test_printed_words_can_be_read(screens, screen: str, words: tuple[str, ...], theme: str) -> None:
    printed = "".join(segment.text for segment in screens[screen])
    assert all(word in printed for word in words)
    assert weak_words(screens[screen], XTERM[theme]) == set()
