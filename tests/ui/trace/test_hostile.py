"""Text that would like to be more than text: it is shown as text, everywhere."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from ragrounds.base.records import Question
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.attempt_filter import quoted
from ragrounds.evals.trace.hop_reading import HopReader
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import trace
from ragrounds.ui.tables.text_tables import markdown
from ragrounds.ui.trace import headless, hop_lines, lists
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.attempt_list import differences
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.differences import answer_differences, difference_table
from ragrounds.ui.trace.layout import TextBlock, TextLayout
from ragrounds.ui.trace.loaded import LoadedAttempt
from tests.ui.trace.making import Journal, attempt, make_run, model_call, passages, score, search_call, step
from tests.ui.trace.seeing import press, screen, settle, viewer

ESCAPE, TITLE = "\x1b[31mred\x1b[0m", "\x1b]0;taken over\x07"
MARKUP = "[bold red]loud[/bold red] [@click=app.quit]click[/] [/]"
TURNED, HIDDEN = "left \u202eright\u202c", "a\u200bb\ufeffc\u2060d\U000e0041e\ufe0ff\u3164g"
ENTITY = "&#27;[2J &#x202e;turned&#8203; &lt;b&gt; <script>alert(1)</script> ```` end"
HOSTILE = " ".join((ESCAPE, TITLE, MARKUP, TURNED, HIDDEN, ENTITY))
RAW = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufe00-\ufe0f\u3164\U000e0000-\U000e0fff]"
)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Pages]:
    with Store(tmp_path) as store:
        journal = Journal(store)
        asked = [
            Question(
                id=f"quiz/{number:03}", benchmark=MARKUP, text=HOSTILE, options={"A": HOSTILE, "B": "b"}, group=MARKUP
            )
            for number in range(3)
        ]
        for agent in (f"bad{MARKUP}{ESCAPE}", f"worse{MARKUP}{ESCAPE}"):
            run = make_run(store, agent, 3, questions=asked)
            events = [
                *step(0, MARKUP, search_call(journal, MARKUP, HOSTILE, passages(0, HOSTILE)), error=HOSTILE),
                *step(1, ESCAPE, model_call(journal, ESCAPE, HOSTILE, f"# {HOSTILE}\n\n- {HOSTILE}")),
                *step(2, "long", model_call(journal, "long", "x" * 1_000_000, "[" * 200_000), changes={"a": HOSTILE}),
            ]
            right = agent.startswith("bad")
            store.add_attempts(run, [attempt(run, 0, events)], [score(0, right)])
        journal.close()
        yield Pages(store, store.runs())


@pytest.mark.slow
async def test_nothing_is_interpreted_on_any_screen(hostile: Pages) -> None:
    app = TraceApp(hostile)
    seen = []
    async with app.run_test(size=(150, 45), notifications=True) as pilot:
        await settle(pilot)
        walk = ["tab", *["down"] * 9, "slash [ / enter", "escape", "f", "escape", "question_mark", "question_mark"]
        for keys in [*walk, "c", "tab", "down", "down", "2", "right", "tab", "down", "4", "end"]:
            await press(pilot, *keys.split())
            for strip in app.screen._compositor.render_strips():  # what goes to the terminal
                assert not RAW.search("".join(segment.text for segment in strip)), keys
                # Nothing that text could say has become a link or something to click on.
                assert not any(segment.style and segment.style.link for segment in strip)
                assert not any("@click" in (segment.style.meta if segment.style else {}) for segment in strip)
            seen.append(screen(app))
    whole = "\n".join(seen)
    assert "[bold red]loud[/bold red]" in whole
    assert "<U+001B>[31mred" in whole
    assert "<U+202E>" in whole
    assert "<U+E0041>" in whole


async def test_a_search_for_markup_is_a_search_for_text(hostile: Pages) -> None:
    async with viewer(hostile, "tab", "slash", *"[/]", "enter", size=(150, 45)) as (app, pilot):
        assert isinstance(app.screen, BrowseScreen)
        assert app.screen.tree_state is not None
        assert len(app.screen.tree_state.lines()) > 3
        await press(pilot, "slash", *"[/nope", "enter")
        assert "[/nope" in screen(app)


@pytest.mark.parametrize(
    "text", [ESCAPE, TITLE, MARKUP, TURNED, HIDDEN, ENTITY, "&#x1b;]8;;http://x\x07", "e" + "\u0301" * 5000]
)
def test_lines_hold_no_codes_and_keep_their_width(text: str) -> None:
    page = TextLayout([TextBlock(f"{text}\n\n- {text}")], 60)
    for line in page.lines:
        assert not RAW.search(line.text)
        assert cell_len(line.text) <= 60


def test_headless_output_holds_no_codes(hostile: Pages) -> None:
    summary = hostile.read([0])[0]
    found = trace(hostile.store, summary.run, "quiz/000")
    differing = answer_differences(hostile, differences(hostile, 0, 1))
    tables = [
        lists.list_table(hostile.read(range(len(hostile)))),
        difference_table(*hostile.runs[:2], differing),
    ]
    shown = [
        "\n".join(text for line in headless.tree_lines(LoadedAttempt(hostile, summary), 150) for text, _ in line),
        *("\n".join(itertools.chain.from_iterable(table.rows)) for table in tables),
        markdown(tables),
        hop_lines.hop_text(HopReader(hostile).read([summary]), 200, {}),
    ]
    assert not any(RAW.search(text) for text in shown)
    assert "[bold red]" in shown[1]
    assert r"\[bold red\]" in shown[3]
    assert found.attempt.text == "A"


def test_subjects_and_agents_are_only_names(hostile: Pages) -> None:
    assert hostile.values("subject") == [(MARKUP, 6)]
    assert list(hostile.order(f"subject={quoted(MARKUP)}")) == list(range(6))
