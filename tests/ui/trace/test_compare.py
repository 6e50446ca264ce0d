"""Two attempts side by side: what is aligned with what, what differs, and every key at three sizes."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from msgspec import structs
from rich.cells import cell_len

from ragrounds.contracts import Request, SearchRequest
from ragrounds.evals.store.hop_reading import HopsOfAttempt
from ragrounds.evals.store.hops import hops_of
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.summaries import Pages
from ragrounds.evals.store.traces import TracedCall
from ragrounds.records import Call, Called, Message, Passage, Reply
from ragrounds.ui.trace.aligned import align, move_cells, question_blocks, side_blocks, side_title
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.differences import AnswerDifference, difference_table
from ragrounds.ui.trace.hop_lines import hop_cells, hop_columns, hop_line
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.row_text import RowText
from ragrounds.ui.trace.search_details import new_words
from ragrounds.ui.trace.tree import NodeFigures, event_tree
from ragrounds.ui.trace.views.compare import CompareScreen, counterpart
from tests.ui.trace import making
from tests.ui.trace.seeing import press, screen, settle

pytestmark = pytest.mark.slow

Hunted = tuple[Path, dict[tuple[str, str], str]]


def read_two(pages: Pages, first: int, second: int) -> tuple[LoadedAttempt, LoadedAttempt]:
    one, other = (LoadedAttempt(pages, summary) for summary in pages.read([first, second]))
    return one, other


def made(read: LoadedAttempt, *calls: TracedCall) -> LoadedAttempt:
    """The same attempt with other calls."""
    other = copy.copy(read)
    other.traced, other.hops = calls, hops_of(calls, read.summary.gold)
    events = [Called(step=-1, call=one.call) for one in calls]
    other.root = event_tree(events, NodeFigures(), None, RowText("x"))
    return other


def search(query: str, *documents: str) -> TracedCall:
    found = tuple(Passage(id=f"{each}#0", document=each, title=each, text=each * 9, corpus="c") for each in documents)
    call = Call(key="", kind="search", role="searching", node="search", actor="bm25", at=1.0, seconds=0.1)
    return TracedCall(call, searched=SearchRequest(corpus="c", query=query, k=3), passages=found)


def said(text: str, role: str = "reading", node: str = "read") -> TracedCall:
    call = Call(key="", kind="model", role=role, node=node, actor="m", at=1.0, seconds=0.1)
    return TracedCall(call, asked=Request(messages=(Message("user", "?"),)), reply=Reply(text=text))


def table(left: LoadedAttempt, right: LoadedAttempt) -> list[tuple[str, str, str]]:
    def name(read: LoadedAttempt, width: int = 30) -> list[str]:
        index = 0 if read is left else 1
        return ["".join(text for text, _ in move_cells(read, (line.left, line.right)[index], width)).strip()
                for line in align(left, right)]  # fmt: skip

    return list(zip(name(left), [line.difference for line in align(left, right)], name(right), strict=True))


def test_equal_attempts_differ_nowhere_and_the_answer_is_last(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 450, 450)
    lines = align(left, right)
    assert {one.difference for one in lines} == {"same"}
    assert lines[-1].left is not None
    assert lines[-1].left.traced is None
    assert len(lines) == len(left.traced) + 1


def test_words_that_the_other_query_lacks_are_marked() -> None:
    text = "edema of the upper lower limb"
    spans = new_words(text, "edema upper limb")
    assert [text[begin:end] for begin, end, _ in spans] == ["of the", "lower"]
    assert {style for _, _, style in spans} == {"new"}
    assert new_words(text, text.upper()) == ()


def test_a_search_says_what_only_it_found_and_where_the_other_has_the_rest(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    gold = left.summary.gold.documents[0]
    left = made(left, search("ankle swollen", gold, "a", "b"))
    right = made(right, search("ankle", "a", "b"))
    (line, _) = align(left, right)
    texts = "\n".join(block.text for block in side_blocks(left, line.left, line.right))
    assert f"★  1. {gold}   gold, only here" in texts
    assert "2. a   there 1" in texts
    assert "3 passages: gold at 1 (1 of 1 gold document); 1 only here" in texts
    other = "\n".join(block.text for block in side_blocks(right, line.right, line.left))
    assert "without: swollen" in other
    assert "2 passages: no gold (0 of 1 gold document); 0 only here" in other


def test_the_question_stands_once_with_what_each_side_chose(hunt_pages: Pages, hunted: Hunted) -> None:
    agent, question = next(
        place for place, cause in hunted[1].items() if cause == "ignored" and place[0] == "search_o1"
    )
    rows = [hunt_pages.row_of(number, question) for number in (0, 2)]
    left, right = read_two(hunt_pages, *(row for row in rows if row is not None))
    texts = [block.text for block in question_blocks(left, right)]
    assert sum(left.summary.question.text in text for text in texts) == 1
    assert agent == "search_o1"
    two = read_two(hunt_pages, 0, 401)
    assert [text for text in (block.text for block in question_blocks(*two)) if text.startswith(("left: ", "right: "))]


def test_a_judges_error_is_named_beside_the_answer(hunt_pages: Pages, hunted: Hunted) -> None:
    agent, question = next(place for place, cause in hunted[1].items() if cause == "judge's error")
    row = hunt_pages.row_of([run.agent for run in hunt_pages.runs].index(agent), question)
    assert row is not None
    left, right = read_two(hunt_pages, row, (row + 200) % 600)
    line = align(left, right)[-1]
    texts = "\n".join(block.text for block in side_blocks(left, line.left, line.right))
    assert "equivalent: wrong  0.0" in texts
    assert "likely misjudged: equivalent gives 0" in texts


@pytest.mark.parametrize("width", [20, 37, 60, 97])
def test_a_side_has_exactly_its_width(hunt_pages: Pages, width: int) -> None:
    left, right = read_two(hunt_pages, 210, 410)
    for line in align(left, right):
        for read, move in ((left, line.left), (right, line.right)):
            assert cell_len("".join(text for text, _ in move_cells(read, move, width))) == width


def test_the_counterpart_is_of_the_next_run_else_of_another_epoch(hunt_pages: Pages, tmp_path: Path) -> None:
    assert counterpart(hunt_pages, hunt_pages.read([7])[0]) == 207
    assert counterpart(hunt_pages, hunt_pages.read([407])[0]) == 7
    with Store(tmp_path) as store:
        run = making.make_run(store, "plain", 2, epochs=2)
        epochs = Pages(store, [run])
        assert counterpart(epochs, epochs.read([3])[0]) == 2
        alone = Pages(store, [making.make_run(store, "other", 1)])
        assert counterpart(alone, alone.read([0])[0]) is None


async def test_two_runs_open_at_their_first_difference(pages: Pages) -> None:
    app = TraceApp(pages, view="compare")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.pause()  # the view opens once the list is drawn
        await settle(pilot)
        shown = app.screen
        assert isinstance(shown, CompareScreen)
        assert shown.chosen == [1, 7]
        await press(pilot, "w")
        assert shown.chosen == [4, 10]


def test_a_title_says_what_was_answered_and_a_query_that_is_the_question_is_not_repeated(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    asked = left.summary.question.text
    left = made(left, search(f" {asked.upper()} ", "a"), said("x"))
    right = made(right, search(asked, "b"), said("y"))
    line = align(left, right)[0]
    assert "(the question)" in "".join(text for text, _ in move_cells(left, line.left, 40))
    wrong = structs.replace(left.summary, value=0.0, outcome="answered", prediction="B")
    other = copy.copy(left)
    other.summary = wrong
    assert f"X: B · gold {left.summary.gold.answer}" in side_title(other, "X")
    default = structs.replace(left.summary, value=0.0, outcome="unreadable", prediction="A")
    other.summary = default
    assert "X: counted as A" in side_title(other, "X")
    line = hop_line(HopsOfAttempt(summary=default, attempt=left.attempt))
    assert line.answer == "A (unread)"
    one = AnswerDifference("q/1", 0, 0, 1.0, 0.0, (default, wrong), (line, line))
    assert "A (unread)" in difference_table(default.run, default.run, [one]).rows[0][2]
    for width, shown in ((80, " A? "), (120, " A (unread) ")):
        cells = hop_cells(default, line, hop_columns(width, {}, 1), {})
        assert shown in "".join(text for text, _ in cells)


async def test_a_note_goes_with_the_next_key(pages: Pages) -> None:
    app = TraceApp(pages)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        app.notify("They differ on no question.", timeout=60)
        await pilot.pause()
        assert "They differ on no question." in screen(app)
        await press(pilot, "down")
        assert "They differ on no question." not in screen(app)


async def test_c_compares_the_attempt_under_the_cursor_whether_or_not_it_differs(pages: Pages) -> None:
    app = TraceApp(pages)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await press(pilot, "c")
        assert isinstance(app.screen, CompareScreen)
        assert app.screen.chosen == [0, 6]


async def test_enter_opens_the_side_with_the_focus(hunt_pages: Pages) -> None:
    app = TraceApp(hunt_pages)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for focus, place in (("#sides", 210), ("#right", 410)):
            opened: list[int | None] = []
            compared = CompareScreen(app.attempt_list, app.browse.notes, 210, 410)
            app.push_screen(compared, opened.append)  # type: ignore[arg-type]
            await settle(pilot)
            compared.query_one(focus).focus()
            await press(pilot, "enter")
            assert opened == [place]
            assert compared.chosen_place is not None


async def test_attempts_that_were_not_made_are_compared_too(pages: Pages) -> None:
    app = TraceApp(pages, row=5)
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "c")
        assert screen(app).count("Not made yet.") == 2
        await press(pilot, "enter")
        assert isinstance(app.screen, BrowseScreen)


async def test_on_a_narrow_terminal_the_list_stands_in_the_place_of_the_lines(hunt_pages: Pages) -> None:
    app = TraceApp(hunt_pages)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "4", "d")
        shown = app.screen
        assert isinstance(shown, CompareScreen)
        questions, sides = shown.query_one("#questions"), shown.query_one("#sides")
        assert questions.display
        assert questions.has_focus
        assert not sides.display
        before = shown.chosen
        await press(pilot, "down", "enter")
        assert shown.chosen != before
        assert sides.has_focus
        assert not questions.display
        await press(pilot, *"dddd")
        assert not questions.display
        assert sides.has_focus


def test_searches_stand_beside_searches_and_calls_beside_those_of_their_role(hunt_pages: Pages) -> None:
    left, right = read_two(hunt_pages, 200, 400)
    left = made(left, search("swollen ankle", "a"), said("x"), search("flight", "b"))
    right = made(right, search("swollen ankle", "a"), said("y"), said("z", "writing", "write"), search("ankle"))
    lines = align(left, right)
    assert [(one.left and one.left.place, one.right and one.right.place, one.difference) for one in lines[:-1]] == [
        (0, 0, "same"),
        (1, 1, "differs"),
        (None, 2, "right only"),
        (2, 3, "differs"),
    ]
