"""Following a run that another process writes: rows fill in, nothing under the reader's eyes moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragrounds.base.records import Run
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.app import TraceApp
from ragrounds.ui.trace.browse import BrowseScreen
from tests.ui.trace.making import Journal, attempt, make_run, model_call, rounds, score, step
from tests.ui.trace.seeing import current, press, screen, settle, viewer

COUNT = 200


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Store, Run, Store]]:
    """The viewer's store, its run with 20 of 200 attempts, and the store of who goes on with it."""
    with Store(tmp_path) as reading, Store(tmp_path) as writing:
        run = make_run(writing, "slow", COUNT)
        finish(writing, run, range(20))
        yield reading, run, writing


def finish(store: Store, run: Run, numbers: range, right: bool = True) -> None:
    journal = Journal(store)
    call = model_call(journal, "answer", "Well?", "A.")
    made = [attempt(run, number, step(0, "answer", call)) for number in numbers]
    store.add_attempts(run, made, [score(number, right) for number in numbers])
    journal.close()


def at(app: TraceApp) -> BrowseScreen:
    return current(app, BrowseScreen)


async def test_rows_fill_in_where_they_stand(running: tuple[Store, Run, Store]) -> None:
    reading, run, writing = running
    async with viewer(Pages(reading, [run]), *["pagedown"] * 2, *["up"] * 3, size=(140, 40)) as (app, pilot):
        browse = at(app)
        before = browse.attempt_list.row, browse.attempts.scroll_offset.y
        assert "Not run yet." in screen(app)
        finish(writing, run, range(20, 90))
        browse.look()  # what the clock does every second
        await settle(pilot)
        assert (browse.attempt_list.row, browse.attempts.scroll_offset.y) == before
        assert "Not run yet." not in screen(app)
        assert browse.tree_state is not None
        assert [line.node.label for line in browse.tree_state.lines()][1:] == ["answer"]
        assert len(browse.attempt_list) == COUNT


async def test_a_list_scrolled_away_from_its_cursor_stays_there(running: tuple[Store, Run, Store]) -> None:
    reading, run, writing = running
    async with viewer(Pages(reading, [run]), size=(140, 40)) as (app, pilot):
        rows = at(app).attempts
        rows.scroll_to(y=120, animate=False, immediate=True)
        await settle(pilot)
        finish(writing, run, range(20, 90))
        at(app).look()
        await settle(pilot)
        assert rows.scroll_offset.y == 120
        assert at(app).attempt_list.row == 0


async def test_nothing_is_read_again_while_nothing_is_written(running: tuple[Store, Run, Store]) -> None:
    reading, run, _ = running
    async with viewer(Pages(reading, [run]), size=(140, 40)) as (app, pilot):
        browse = at(app)
        state = browse.tree_state
        browse.look()
        await settle(pilot)
        assert browse.tree_state is state


@pytest.mark.slow
async def test_a_sorted_list_keeps_the_cursor_on_its_attempt_and_on_its_line(running: tuple[Store, Run, Store]) -> None:
    reading, run, writing = running
    async with viewer(Pages(reading, [run]), sort="newest", where="right", size=(140, 40)) as (app, pilot):
        browse = at(app)
        await press(pilot, "end")
        finish(writing, run, range(20, 150))
        browse.look()
        await settle(pilot)
        assert browse.attempt_list.current is not None
        assert browse.attempt_list.current.question.id == "quiz/000"
        await press(pilot, *["up"] * 30)
        current, line = browse.attempt_list.current, browse.attempt_list.row - browse.attempts.scroll_offset.y
        finish(writing, run, range(150, 200))
        browse.look()
        await settle(pilot)
        assert browse.attempt_list.current == current
        assert browse.attempt_list.row - browse.attempts.scroll_offset.y == line


async def test_the_head_of_the_newest_follows_the_run(running: tuple[Store, Run, Store]) -> None:
    reading, run, writing = running
    async with viewer(Pages(reading, [run]), sort="newest", size=(140, 40)) as (app, pilot):
        finish(writing, run, range(20, 31))
        at(app).look()
        await settle(pilot)
        assert at(app).attempt_list.row == 0
        assert at(app).attempt_list.current is not None
        assert at(app).attempt_list.current.question.id == "quiz/030"  # type: ignore[union-attr]


async def test_folds_and_scroll_outlive_another_scoring(running: tuple[Store, Run, Store]) -> None:
    reading, run, writing = running
    journal = Journal(writing)
    writing.add_attempts(run, [attempt(run, 0, rounds(journal, 3))])
    journal.close()
    async with viewer(Pages(reading, [run]), "enter", "minus", "down", "down", size=(140, 40)) as (app, pilot):
        browse = at(app)
        assert browse.tree_state is not None
        before = [line.node.key for line in browse.tree_state.lines()], browse.tree_state.cursor
        writing.add_scores(run, [score(0, False)])
        browse.look()
        await settle(pilot)
        assert ([line.node.key for line in browse.tree_state.lines()], browse.tree_state.cursor) == before
        assert browse.tree_state.loaded.summary.value == 0.0
