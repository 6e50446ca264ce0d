"""Two attempts side by side: what is aligned with what, what differs, and every key at three sizes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from rich.cells import cell_len

from ragrounds.base.contracts import Request, SearchRequest
from ragrounds.base.records import Call, Message, Passage, Reply
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.hop_reading import HopsOfAttempt
from ragrounds.evals.trace.hops import hops_of
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.differences import AnswerDifference, difference_table
from ragrounds.ui.trace.hop_lines import hop_cells, hop_columns, hop_line
from ragrounds.ui.trace.layout import TextLayout
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.parting import parting_blocks
from ragrounds.ui.trace.views.compare import CompareScreen, counterpart
from tests.ui.trace import making
from tests.ui.trace.seeing import current, press, screen, viewer

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")]

Hunted = tuple[Path, dict[tuple[str, str], str]]


def read_two(pages: Pages, first: int, second: int) -> tuple[LoadedAttempt, LoadedAttempt]:
    one, other = (LoadedAttempt(pages, summary) for summary in pages.read([first, second]))
    return one, other


def made(read: LoadedAttempt, *calls: TracedCall) -> LoadedAttempt:
    """The same attempt with other calls."""
    other = copy.copy(read)
    other.traced, other.hops = calls, hops_of(calls, read.summary.gold)
    return other


def search(query: str, *documents: str) -> TracedCall:
    found = tuple(
        Passage(id=f"{each}#0", document=each, title=each, text=each * 9, corpus="c", rank=rank)
        for rank, each in enumerate(documents, 1)
    )
    call = Call(key="", kind="search", role="searching", node="search", actor="bm25", at=1.0, seconds=0.1)
    return TracedCall(call, searched=SearchRequest(corpus="c", query=query, k=3), passages=found)


def said(text: str) -> TracedCall:
    call = Call(key="", kind="model", role="reading", node="read", actor="m", at=1.0, seconds=0.1)
    return TracedCall(call, asked=Request(messages=(Message("user", "?"),)), reply=Reply(text=text))


def page(left: LoadedAttempt, right: LoadedAttempt, width: int = 80, **how: Any) -> str:
    blocks = parting_blocks((left, right), ["one", "two"], {"A": ["one", "two"]})
    return "\n".join(line.text.rstrip() for line in TextLayout(blocks, width, **how).lines)


def test_both_are_read_from_the_sentence_where_they_part(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    same = "The ankle is swollen. It was a flight. "
    left = made(left, said("First."), said(f"{same}So **rest** it.\n\nBoth say this."))
    right = made(right, said(json.dumps({"why": f"{same} So lift it.\n\nBoth say this.", "answer_choice": "B"})))
    shown = page(left, right, unfolds="o")
    assert "⋯ 2 sentences that both begin with: The" in shown.replace("\n", " ")
    assert f"{'So rest it.':38} │ So lift it." in shown
    assert f"{'':38} │ answer choice: B" in shown
    assert shown.index("So rest it.") < shown.index("replies before the last") < shown.index("First.")
    assert "It was a flight." in page(left, right)
    blocks = parting_blocks((left, right), ["one", "two"], {})
    sides = [one for block in blocks for side in block.beside for one in side if one.markdown]
    quiet = {one.text for one in sides if one.style == "dim"}
    assert quiet == {"Both say this."}


def test_searches_say_what_only_their_side_found_gold_first(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    gold = left.summary.gold.documents[0]
    left = made(left, search("swollen ankle", "a", "b", "c", "d", "e", gold), said("x"))
    right = made(right, search(f" {left.summary.question.text.upper()} ", "a"), said("y"))
    shown = page(left, right)
    found = shown.partition("only this side found")[2]
    assert f"{'1. “swollen ankle” → 6, gold at 6':38} │ 1. the question → 1" in shown
    assert [line[:38].rstrip() for line in found.splitlines() if line.startswith("  ") and ". " in line[:7]] == [
        f"  ★ 6. {gold}", "    2. b", "    3. c",
    ]  # fmt: skip
    assert "    and 2 more only here" in shown


def test_texts_of_others_are_text_and_fit_their_column(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    evil = "[red]x[/red] \x1b[31m<b>漢字</b> " + "a" * 300
    shown = page(made(left, search(evil, evil), said(evil)), made(right, said(evil[::-1])))
    assert "\x1b" not in shown
    assert "[red]x[/red]" in shown
    assert {cell_len(line.partition("│")[0]) for line in shown.splitlines() if "│" in line} == {39}
    assert max(map(cell_len, shown.splitlines())) <= 80


def test_the_same_reasoning_is_shown_once_and_a_shorter_one_ends(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    shown = page(made(left, said("Same. All of it.")), made(right, said("Same.  All of it.")))
    assert "reasoning of both\nSame. All of it." in shown
    assert "where they part" not in shown
    shorter = page(made(left, said("Same.")), made(right, said("Same. All of it.")), unfolds="o")
    assert f"{'(ends here)':38} │ All of it." in shorter
    earlier = page(made(left, said("One.")), made(right, said("First."), said("Two.")))
    assert f"replies before the last\n{'none':38} │ First." in earlier


def test_the_question_stands_once_with_who_chose_what_and_the_cause(hunt_pages: Pages, hunted: Hunted) -> None:
    agent, question = next(place for place, cause in hunted[1].items() if cause == "judge's error")
    row = hunt_pages.row_of([run.agent for run in hunt_pages.runs].index(agent), question)
    assert row is not None
    left, right = read_two(hunt_pages, row, (row + 200) % 600)
    shown = page(left, right, 160)
    assert shown.count(left.summary.question.text) == 1
    assert "likely misjudged: equivalent gives 0" in " ".join(shown.split())


def test_the_counterpart_is_of_the_next_run_else_of_another_epoch(hunt_pages: Pages, tmp_path: Path) -> None:
    assert counterpart(hunt_pages, hunt_pages.read([7])[0]) == 207
    wrong = next(one for one in hunt_pages.read(range(200)) if one.wrong)
    found = counterpart(hunt_pages, wrong)
    assert found is not None
    assert hunt_pages.read([found])[0].value == 1
    assert counterpart(hunt_pages, hunt_pages.read([407])[0]) == 7
    with Store(tmp_path) as store:
        run = making.make_run(store, "plain", 2, epochs=2)
        epochs = Pages(store, [run])
        assert counterpart(epochs, epochs.read([3])[0]) == 2
        alone = Pages(store, [making.make_run(store, "other", 1)])
        assert counterpart(alone, alone.read([0])[0]) is None


async def test_two_runs_open_at_their_first_difference(pages: Pages) -> None:
    async with viewer(pages, view="compare", size=(80, 24)) as (app, pilot):
        shown = current(app, CompareScreen)
        assert shown.pair_indices == [1, 7]
        await press(pilot, "w")
        assert shown.pair_indices == [4, 10]


def test_what_was_answered_and_what_was_counted_are_told_apart(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    wrong = structs.replace(left.summary, value=0.0, outcome="answered", prediction="B")
    default = structs.replace(left.summary, value=0.0, outcome="unreadable", prediction="A")
    other = copy.copy(left)
    for other.summary, title in ((wrong, "one: B"), (default, "one: counted as A")):
        assert title in page(other, right)
    line = hop_line(HopsOfAttempt(summary=default, attempt=left.attempt))
    one = AnswerDifference("q/1", 0, 0, 1.0, 0.0, (default, wrong), (line, line))
    assert difference_table(default.run, default.run, [one]).rows[0][2] == "? A"
    assert "".join(text for text, _ in hop_cells(default, line, hop_columns(80, {}, 1), {})).startswith("? ")


async def test_a_note_goes_with_the_next_key(pages: Pages) -> None:
    async with viewer(pages) as (app, pilot):
        app.notify("They differ on no question.", timeout=60)
        await pilot.pause()
        assert "They differ on no question." in screen(app)
        await press(pilot, "down")
        assert "They differ on no question." not in screen(app)


async def test_attempts_that_were_not_made_are_compared_too(pages: Pages) -> None:
    async with viewer(pages, "c", row=5) as (app, pilot):
        assert screen(app).count("Not run yet.") == 2
        await press(pilot, "enter")
        assert isinstance(app.screen, BrowseScreen)
