"""Every key of every screen is pressed, the cases in turn at three sizes, and something that it is for is looked at.

A case names the class and the id of a binding, the keys that lead to where it applies, and what is looked at before and
after. A binding without a case fails :func:`test_no_key_is_left_out`; a new one gets a line in :data:`CASES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from msgspec import Struct
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import HelpPanel, Input

from ragrounds.evals.store.attempt_notes import notes_of, write_note
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from ragrounds.ui.trace.dialogs import FindBar
from ragrounds.ui.trace.widgets import Pager, Rows
from tests.ui.trace.making import AT, Journal, attempt, fill, make_run, model_call, question, score, step
from tests.ui.trace.seeing import owners_of_keys, press, screen, settle, viewer

SIZES = ((80, 24), (120, 40), (200, 60))
Look = Callable[[TraceApp], object]


def main(app: TraceApp) -> BrowseScreen:
    return app.browse


def drawn(app: TraceApp) -> object:
    """All that can be seen: which screen, what has the focus, and every character."""
    return type(app.screen).__name__, app.focused.id if app.focused else "", screen(app)


def where(app: TraceApp) -> object:
    return type(app.screen).__name__


def row(app: TraceApp) -> object:
    return main(app).attempt_list.row


def listed(app: TraceApp) -> object:
    return main(app).attempt_list.where, main(app).attempt_list.sort, main(app).attempt_list.descending


def focus_row(app: TraceApp) -> object:
    assert isinstance(app.focused, Rows)
    return app.focused.row


def scrolled(app: TraceApp) -> object:
    assert isinstance(app.focused, Pager)
    return app.focused.scroll_offset.y


def typed(app: TraceApp) -> object:
    return app.screen.query_one(Input).value


def offered(app: TraceApp) -> object:
    return app.screen.query_one("#offered", Rows).row


def folded(app: TraceApp) -> object:
    state = main(app).tree_state
    assert state is not None
    return len(state.lines())


def match(app: TraceApp) -> object:
    """The step, and the line of its detail, that a search has come to."""
    state = main(app).tree_state
    assert state is not None
    return state.cursor, main(app).pager.scroll_offset.y


def notes(app: TraceApp) -> object:
    return notes_of(app.store, app.store.runs())


def bar(app: TraceApp) -> object:
    return main(app).query_one(FindBar).has_class("-open")


class Case(Struct, frozen=True):
    owner: str
    id: str
    before: str = ""
    look: Look = drawn
    after: object = ...
    """What is seen afterwards; an ellipsis: something else than before."""


TREE, DETAIL = "down down down down down down tab", "end tab tab"
"""To an attempt that searched, in its steps; to one with a long answer, in its detail."""

CASES = (
    Case("TraceApp", "view.attempts", "2", where, "BrowseScreen"),
    Case("TraceApp", "view.hops", "", where, "HopScreen"),
    Case("TraceApp", "view.grid", "2", where, "GridScreen"),
    Case("TraceApp", "view.compare", "3", where, "CompareScreen"),
    Case("TraceApp", "view.home", "2", where, "HomeScreen"),
    Case("HomeScreen", "home.pick", "0 down", lambda app: len(app.screen.picked), 1),  # type: ignore[attr-defined]
    Case("HomeScreen", "home.clear", "0 down space", lambda app: app.screen.picked, []),  # type: ignore[attr-defined]
    Case("HomeScreen", "home.compare", "0 down", where, "CompareScreen"),
    Case("HomeScreen", "home.fold", "0"),
    Case("HomeScreen", "home.unfold", "0 left"),
    Case("TraceApp", "help", "", lambda app: len(app.screen.query(HelpPanel)), 1),
    Case("TraceApp", "theme", "", lambda app: app.theme),
    Case("TraceApp", "quit", "", lambda app: app._exit, True),
    Case("BrowseScreen", "find", "", bar, True),
    Case("BrowseScreen", "match.next", f"{TREE} slash a s p i r i n enter", match),
    Case("BrowseScreen", "match.previous", f"{TREE} slash a s p i r i n enter n n", match),
    Case("BrowseScreen", "wrong.next", "", row, 1),
    Case("BrowseScreen", "wrong.previous", "down down", row, 1),
    Case("BrowseScreen", "error.next", "", row, 3),
    Case("BrowseScreen", "error.previous", "end", row, 3),
    Case("BrowseScreen", "filter", "", where, "FilterScreen"),
    Case("BrowseScreen", "sort", "", where, "MenuScreen"),
    Case("BrowseScreen", "sort.reverse", "s c enter", listed, ("", "cost", False)),
    Case("BrowseScreen", "compare", "", where, "CompareScreen"),
    Case("BrowseScreen", "fold", f"{TREE} down", folded),
    Case("BrowseScreen", "fold.close", f"{TREE} down", folded),
    Case("BrowseScreen", "fold.open", f"{TREE} down left", folded),
    Case("BrowseScreen", "fold.all", TREE, folded),
    Case("BrowseScreen", "fold.none", f"{TREE} minus", folded),
    Case("BrowseScreen", "zoom", "tab", lambda app: main(app).maximized is main(app).tree_pane, True),
    Case("BrowseScreen", "clear", "f r i g h t enter", listed, ("", "asked", True)),
    Case("BrowseScreen", "mark", "", where, "MenuScreen"),
    Case("BrowseScreen", "note", "", where, "NoteScreen"),
    Case("ViewScreen", "copy", "down", lambda app: app.clipboard),
    Case("ViewScreen", "texts.raw", "", lambda app: main(app).pager.raw, True),
    Case("ViewScreen", "texts.whole", "", lambda app: main(app).pager.shows_whole, True),
    Case("HopScreen", "hops.before", "down down down down down down 2 right"),
    Case("HopScreen", "hops.next", "down down down down down down 2"),
    Case("HopScreen", "hops.wrong", "2", row, 1),
    Case("HopScreen", "hops.wrong_before", "down down 2", row, 1),
    Case("HopScreen", "hops.back", "2", where, "BrowseScreen"),
    Case("HopScreen", "filter", "2", where, "FilterScreen"),
    Case("HopScreen", "mark", "2", where, "MenuScreen"),
    Case("HopScreen", "note", "2", where, "NoteScreen"),
    Case("ViewScreen", "copy", "down 2", lambda app: app.clipboard),
    Case("GridScreen", "grid.compare", "3 home right", where, "CompareScreen"),
    Case("GridScreen", "grid.sort", "3"),
    Case("GridScreen", "grid.reverse", "3"),
    Case("GridScreen", "grid.back", "3", where, "BrowseScreen"),
    Case("GridScreen", "filter", "3", where, "FilterScreen"),
    Case("ViewScreen", "copy", "3 down", lambda app: app.clipboard),
    Case("GridPane", "grid.left", "3 home right"),
    Case("GridPane", "grid.right", "3 home left"),
    Case("CompareScreen", "compare.next", "4"),
    Case("CompareScreen", "compare.before", "4"),
    Case("CompareScreen", "compare.open", "4", where, "BrowseScreen"),
    Case("CompareScreen", "compare.open_right", "down 4", row, 7),
    Case("CompareScreen", "compare.left", "4"),
    Case("CompareScreen", "compare.right", "4"),
    Case("CompareScreen", "compare.back", "4", where, "BrowseScreen"),
    Case("ViewScreen", "copy", "4", lambda app: app.clipboard),
    Case("FilterScreen", "filter.apply", "f r i g h t", listed, ("right", "asked", True)),
    Case("FilterScreen", "filter.take", "f f a i", typed, "failed "),
    Case("FilterScreen", "filter.down", "f s", offered, 1),
    Case("FilterScreen", "filter.up", "f s down down", offered, 1),
    Case("FilterScreen", "filter.leave", "f r i g h t", listed, ("", "asked", True)),
    Case("FindBar", "find.leave", "slash x", bar, False),
    Case("MenuScreen", "menu.leave", "s", where, "BrowseScreen"),
    Case("NoteScreen", "note.save", "a h i", notes),
    Case("NoteScreen", "note.leave", "a h i", notes, {}),
    Case("Rows", "rows.up", "down down", focus_row, 1),
    Case("Rows", "rows.down", "", focus_row, 1),
    Case("Rows", "rows.page_up", "end", focus_row),
    Case("Rows", "rows.page_down", "", focus_row),
    Case("Rows", "rows.first", "down down", focus_row, 0),
    Case("Rows", "rows.last", "", focus_row, 17),
    Case("Rows", "rows.open", "", lambda app: app.focused.id if app.focused else "", "tree"),
    Case("Pager", "detail.up", f"{DETAIL} down down", scrolled, 1),
    Case("Pager", "detail.down", DETAIL, scrolled, 1),
    Case("Pager", "detail.top", f"{DETAIL} down down", scrolled, 0),
    Case("Pager", "detail.end", DETAIL, scrolled),
    Case("Pager", "detail.page_up", f"{DETAIL} end", scrolled),
    Case("Pager", "detail.page_down", DETAIL, scrolled),
)


def every_binding() -> Iterator[tuple[str, Binding]]:
    for owner in owners_of_keys():
        for binding in owner.__dict__.get("BINDINGS", ()):
            assert isinstance(binding, Binding)
            yield owner.__name__, binding


def test_no_key_is_left_out() -> None:
    known = {(case.owner, case.id) for case in CASES}
    there = {(owner, binding.id or "") for owner, binding in every_binding()}
    assert there == known


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The quiz, and a third agent whose last answer is long."""
    with Store(tmp_path_factory.mktemp("long")) as store:
        fill(store)
        run, journal = make_run(store, "wordy", 6, questions=[question(number) for number in range(6)]), Journal(store)
        made = attempt(run, 5, step(0, "answer", model_call(journal, "answer", "Case 5?", "B")))
        told = "\n".join(f"Line {number} of an answer." for number in range(200))
        store.add_attempts(run, [msgspec.structs.replace(made, text=told, at=AT)], [score(5, True)])
        journal.close()
        yield store


async def begin_anew(pilot: Pilot[None]) -> None:
    """The main screen as it was opened."""
    app = pilot.app
    assert isinstance(app, TraceApp)
    while len(app.screen_stack) > 1:  # also a list of some runs that the home opened
        app.pop_screen()
    browse = main(app)
    if browse.maximized is not None:
        browse.minimize()
    browse.query_one(FindBar).action_leave()
    browse.attempt_list.arrange(None, "", "asked")
    browse.attempt_list.move(0)
    browse.tree_state = None
    app._clipboard = ""
    pages = browse.attempt_list.pages
    for (run, question_id, epoch), held in notes_of(pages.store, pages.runs).items():
        for note in held:
            where_left = next(one for one in pages.runs if one.id == run)
            write_note(pages.store, where_left, question_id, epoch, author=note.author, mark="", text="")
    browse.notes.read()
    browse.attempts.focus()
    browse.list_changed()
    browse.open()
    await settle(pilot)


async def check(pilot: Pilot[None], case: Case, key: str, others: Sequence[str]) -> str:
    """What is wrong with a key, or with others that are bound to the same; empty: nothing."""
    await begin_anew(pilot)
    app = pilot.app
    assert isinstance(app, TraceApp)
    await press(pilot, *case.before.split())
    said = f"{case.owner} {case.id} ({key}) after {case.before!r}"
    active = app.screen.active_bindings
    if any(active[other].binding.action != active[key].binding.action for other in others):
        return f"{said}: {', '.join(others)} do something else"
    seen = case.look(app)
    await press(pilot, key)
    now = case.look(app)
    if case.after is ...:
        return "" if now != seen else f"{said}: nothing has changed"
    return "" if now == case.after else f"{said}: {now!r}, not {case.after!r}"


@pytest.mark.slow
@pytest.mark.usefixtures("only_what_a_test_looks_at_is_rendered")
@pytest.mark.parametrize("size", SIZES)
async def test_every_key(long_store: Store, size: tuple[int, int]) -> None:
    keys = {(owner, binding.id): binding.key.split(",") for owner, binding in every_binding()}
    async with viewer(Pages(long_store, long_store.runs()), size=size) as (_, pilot):
        # What ends the application comes last.
        cases = sorted(CASES[SIZES.index(size) :: len(SIZES)], key=lambda one: one.id == "quit")
        wrong = [await check(pilot, case, *_first(keys[case.owner, case.id])) for case in cases]
    assert list(filter(None, wrong)) == []


def _first(keys: list[str]) -> tuple[str, list[str]]:
    return keys[0], keys[1:]


async def test_the_keys_of_the_pane_stand_below_and_can_be_clicked(pages: Pages) -> None:
    async with viewer(pages) as (app, pilot):
        for keys, words in (("", "w Next wrong"), ("slash", "esc Leave"), ("escape", "f Filter"), ("3", "c Compare")):
            await press(pilot, *keys.split())
            assert words in screen(app).splitlines()[-1]
        await pilot.click("KeyBar", offset=(screen(app).splitlines()[-1].index("f Filter"), 0))
        await settle(pilot)
        assert where(app) == "FilterScreen"
