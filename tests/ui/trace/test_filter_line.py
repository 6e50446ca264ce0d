"""The filter line: typed, completed, corrected while one types; and the words it is completed with."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from ragrounds.evals.trace.summaries import Pages, UnknownFacts
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.completion import Suggestion, suggestions
from ragrounds.ui.trace.filter_screen import FilterScreen
from ragrounds.ui.trace.lists import unknown_words
from ragrounds.ui.trace.view import ViewScreen
from tests.ui.trace.seeing import current, matches, press, screen, settle, until, viewer

pytestmark = pytest.mark.slow


@pytest.fixture
async def pilot(pages: Pages) -> AsyncIterator[Pilot[None]]:
    async with viewer(pages, size=(80, 24)) as (_, pilot):
        yield pilot


def browse(pilot: Pilot[None]) -> BrowseScreen:
    return current(pilot.app, BrowseScreen)


def values(field: str) -> list[tuple[str, int]]:
    return {"agent": [("direct", 20), ("seeker[rounds=3]", 4)], "subject": [("heart and blood", 1)]}.get(field, [])


def offered(text: str) -> list[Suggestion]:
    return suggestions(text, len(text), values)


@pytest.mark.parametrize(
    ("typed", "first", "line"),
    [
        ("wro", "wrong", "wrong "),
        ("wrong and ho", "hops>", "wrong and hops>"),
        ("wrong and gold", "gold found", "wrong and gold found "),
        ("(wrong an", "answered", "(wrong answered "),
        ("agent:s", '"seeker[rounds=3]"', None),
        ("wrong status:fai", "status:failed", "wrong status:failed "),
        ("wrong and gold not", "gold not found", "wrong and gold not found "),
        ("gold not s", "gold not seen", "gold not seen "),
        ("(gold r", "gold rank<=", "(gold rank<="),
        ("gold found wro", "wrong", "gold found wrong "),
        ("subject:he", 'subject:"heart and blood"', 'subject:"heart and blood" '),
    ],
)
def test_a_word_is_completed(typed: str, first: str, line: str | None) -> None:
    found = offered(typed)[0]
    assert first.strip('"') in found.label
    if line is not None:
        assert (found.text, found.cursor) == (line, len(line))


def test_values_say_how_many_attempts_have_them() -> None:
    assert [(one.label, one.about) for one in offered("agent:dir")] == [("agent:direct", "20 attempts")]


def test_what_stands_behind_the_cursor_stays() -> None:
    found = suggestions("wro and failed", 3, values)[0]
    assert (found.text, found.cursor) == ("wrong and failed", 5)


def test_what_cannot_be_asked_is_said() -> None:
    assert unknown_words(UnknownFacts()) == ""
    assert unknown_words(UnknownFacts(no_gold=1, no_facts=2)) == (
        "Not judged by this filter: 1 attempt with no gold documents known, 2 attempts whose steps were not read yet."
    )


async def test_an_expression_is_typed_counted_and_listed(pilot: Pilot[None]) -> None:
    await press(pilot, "f", *"wrong and agent:plain")
    assert "3 of 12 attempts" in screen(pilot.app)
    matches(pilot.app, "filter-line")
    await press(pilot, "enter")
    rows = browse(pilot).attempt_list
    assert [one.question.id for row in range(len(rows)) if (one := rows.row_at(row))] == [
        "quiz/001",
        "quiz/002",
        "quiz/003",
    ]
    assert "1 of 3 (all: 12)" in screen(pilot.app)
    assert "wrong and agent:plain" in screen(pilot.app)
    await press(pilot, "f", "escape")
    assert len(rows) == 3
    await press(pilot, "f", "ctrl+u", "enter")
    assert len(rows) == 12


async def test_attempts_that_are_still_to_be_read_are_not_counted(pilot: Pilot[None]) -> None:
    """The list then has more than were known before it read them."""
    await press(pilot, "f", *"hops>0")
    assert "8 of 12 attempts are looked through when it is listed" in screen(pilot.app)
    assert "Not judged" not in screen(pilot.app)


async def test_a_mistake_is_said_under_its_place_and_not_listed(pilot: Pilot[None]) -> None:
    await press(pilot, "f", *"wrong and hopps>3")
    lines = screen(pilot.app).splitlines()
    at = next(row for row, line in enumerate(lines) if "wrong and hopps>3" in line)
    assert lines[at + 1].index("^^^^^") == lines[at].index("hopps")
    assert "Did you mean 'hops'" in lines[at + 2]
    await press(pilot, "enter")
    assert isinstance(pilot.app.screen, FilterScreen)


async def test_enter_takes_what_was_typed_in_the_same_breath(pilot: Pilot[None]) -> None:
    """Keys as a terminal gives them: all at once, before any of them is worked off."""
    app = pilot.app
    for key in ["f", *"wrong", "enter"]:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    await settle(pilot)
    await settle(pilot)
    assert browse(pilot).attempt_list.where == "wrong"
    for key in ["f", "enter", "enter", "escape", "f", "enter", "escape"]:
        app.post_message(events.Key(key, key if len(key) == 1 else None))
    await settle(pilot)
    await settle(pilot)
    assert browse(pilot).attempt_list.where in ("wrong", ""), "the last Escape may be the list's"


async def test_a_text_that_is_too_long_is_said_at_once_and_asks_the_store_nothing(
    pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    await press(pilot, "f", "w")
    monkeypatch.setattr(Pages, "order", lambda *_: pytest.fail("the store was asked"))
    monkeypatch.setattr(Pages, "values", lambda *_: pytest.fail("the store was asked"))
    pilot.app.screen.query_one(Input).value = "agent:" + "a" * 5_000
    await pilot.pause()
    await settle(pilot)
    assert "The filter has 5,006 characters; at most 4,000 can be read." in screen(pilot.app)
    await press(pilot, "enter")
    assert isinstance(pilot.app.screen, FilterScreen)


async def test_a_changed_text_has_no_old_count(pilot: Pilot[None], monkeypatch: pytest.MonkeyPatch) -> None:
    await press(pilot, "f", *"wrong")
    await until(pilot, lambda: "4 of 12 attempts" in screen(pilot.app))
    counted, order = threading.Event(), Pages.order
    monkeypatch.setattr(Pages, "order", lambda *given: counted.wait() and order(*given))
    pilot.app.screen.query_one(Input).value = "wrong " * 100
    await pilot.pause()
    assert "of 12 attempts" not in screen(pilot.app)
    counted.set()
    await until(pilot, lambda: "4 of 12 attempts" in screen(pilot.app))


@pytest.mark.parametrize("view", ["2", "3"])
async def test_the_filter_of_another_view_holds_in_all(pilot: Pilot[None], view: str) -> None:
    rows = browse(pilot).attempt_list
    await press(pilot, view, "f", *"wrong", "enter")
    assert not isinstance(pilot.app.screen, FilterScreen | BrowseScreen)
    assert rows.where == "wrong"
    assert "wrong" in screen(pilot.app).splitlines()[0]
    assert "filters by example" not in screen(pilot.app)
    await press(pilot, "f", *"x", "enter")
    assert rows.where == "wrong", "a filter that leaves nothing is not applied"
    await press(pilot, "1")
    assert len(browse(pilot).attempt_list) == 4


async def test_hops_mark_and_annotate_the_attempt_under_the_cursor(pilot: Pilot[None]) -> None:
    await press(pilot, "2", "down", "asterisk", "s", "a", *"fa", "ctrl+s")
    assert "★✎" in screen(pilot.app).splitlines()[0]
    await press(pilot, "1")
    assert "reader ★ star" in screen(pilot.app)
    assert browse(pilot).attempt_list.row == 1


@pytest.mark.parametrize("back", ["1", "escape"])
@pytest.mark.parametrize("view", ["2", "3"])
async def test_the_cursor_goes_with_the_reader(pilot: Pilot[None], view: str, back: str) -> None:
    await press(pilot, "down", "down", view)
    here = current(pilot.app, ViewScreen)
    assert view == "3" or here.place_here() == 2, "the hops begin where the list was"
    await press(pilot, "home", "down", *(["down"] if view == "3" else []))
    place = here.place_here()
    assert place not in (None, 2)
    await press(pilot, back)
    shown, state = browse(pilot).attempt_list.current, browse(pilot).tree_state
    assert shown is not None
    assert state is not None
    assert shown.index == place == state.loaded.summary.index
    await press(pilot, "3" if view == "2" else "2")
    now = current(pilot.app, ViewScreen)
    assert now.place_here() == place


async def test_what_is_offered_is_taken(pilot: Pilot[None]) -> None:
    await press(pilot, "f", *"fai", "tab")
    assert pilot.app.screen.query_one(Input).value == "failed "
    await press(pilot, "enter")
    assert len(browse(pilot).attempt_list) == 1
    await press(pilot, "f", "ctrl+u", "down", "enter")
    assert pilot.app.screen.query_one(Input).value == "wrong and hops>3 and gold not seen"


async def test_words_of_a_filter_are_marked_where_they_stand(pilot: Pilot[None]) -> None:
    await press(pilot, "f", *'reply:"aspirin"', "enter")
    state = browse(pilot).tree_state
    assert state is not None
    assert (state.pattern, browse(pilot).pager.pattern) == ("aspirin", "aspirin")
    assert state.node is not state.root
    await press(pilot, "f", "ctrl+u", *"right", "enter")
    assert browse(pilot).pager.pattern == "aspirin", "a search goes on until Escape"


async def test_marks_and_notes_are_kept_listed_and_shown(pilot: Pilot[None], pages: Pages) -> None:
    await press(pilot, "asterisk", "s", "a", *"look here", "ctrl+s")
    shown = screen(pilot.app)
    assert "★✎" in shown.splitlines()[3]
    assert "reader ★ star" in shown
    assert "look here" in shown
    await press(pilot, "f", *"mark:star", "enter")
    assert len(browse(pilot).attempt_list) == 1
    await press(pilot, "escape")
    await press(pilot, "asterisk", "n", "a", *["backspace"] * 9, "f2")
    assert not browse(pilot).notes
