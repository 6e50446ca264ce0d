"""The list and the compare screen without a terminal."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.trace.attempt_list import (
    AttemptList,
    attempt_cells,
    mark,
)
from ragrounds.ui.trace.layout import fit
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree_view import TreeState, tree_cells


@pytest.fixture
def attempts(pages: Pages) -> AttemptList:
    return AttemptList(pages)


def test_the_cursor_stays_on_its_attempt_when_the_order_changes(attempts: AttemptList) -> None:
    attempts.move(2)
    attempts.arrange(attempts.make_order("wrong", "asked"), "wrong", "asked")
    assert (len(attempts), attempts.row) == (4, 1)
    assert attempts.current is not None
    assert attempts.current.index == 2
    attempts.arrange(None, "", "asked")
    assert (len(attempts), attempts.row) == (12, 2)


def test_next_wrong_and_next_error_go_round(attempts: AttemptList) -> None:
    assert attempts.seek(1, "wrong") == 1
    attempts.move(3)
    assert attempts.seek(1, "wrong") == 10
    assert attempts.seek(-1, "wrong") == 2
    assert attempts.seek(1, "troubled") == 3  # the only one, found again
    assert attempts.seek(1, "blocked") is None


def test_only_rows_near_those_shown_are_read(
    pages: Pages, attempts: AttemptList, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    whole = pages.read

    def counted(indices: object) -> object:
        found = whole(indices)  # type: ignore[arg-type]
        read.append(len(found))
        return found

    monkeypatch.setattr(pages, "read", counted)
    for row in range(12):
        attempts.row_at(row)
    assert sum(read) == 12
    assert attempts.row_at(12) is None


def test_marks_tell_outcomes_apart_without_colour(pages: Pages) -> None:
    assert [mark(one)[0].strip() for one in pages.read(range(6))] == ["✓", "✗", "~", "!", "✓", "·"]


@pytest.mark.parametrize("width", range(18, 120, 7))
def test_rows_fill_their_width_and_no_more(pages: Pages, width: int) -> None:
    agents = names_of_runs(pages.runs)
    for one in pages.read(range(12)):
        assert sum(len(text) for text, _ in attempt_cells(one, width, agents)) == width
    state = TreeState(LoadedAttempt(pages, pages.read([6])[0]))
    for line in state.lines():
        assert sum(len(text) for text, _ in tree_cells(line, state.root.figures, width)) == width


def test_rows_of_one_run_are_recognised_in_any_order(pages: Pages) -> None:
    attempts = AttemptList(pages)
    assert not attempts.is_of_one_run
    for order, is_of_one_run in (([7, 6, 11], True), ([7, 1], False), ([], True)):
        attempts.arrange(array("Q", order), "", "asked")
        assert attempts.is_of_one_run is is_of_one_run


def test_a_narrow_row_begins_with_the_question_and_a_wide_one_with_its_id(pages: Pages) -> None:
    def row(width: int) -> str:
        return "".join(text for text, _ in attempt_cells(pages.read([1])[0], width, {}))

    assert " A      Which remedy" in row(50)
    assert "001  Which remedy helps in case 1?" in row(120)


def test_a_row_shows_answer_and_gold_and_a_score_only_where_it_says_more(pages: Pages) -> None:
    def words(one: AttemptSummary) -> list[str]:
        return "".join(text for text, _ in attempt_cells(one, 60, {})).split()[:4]

    right, wrong, _, failed, *_ = pages.read(range(6))
    assert words(wrong)[:3] == ["✗", "B", "A"]
    assert words(failed)[:2] == ["!", "A"]  # the gold: nothing was answered
    assert words(replace(right, value=2 / 3))[:3] == ["½", "0.67", "A"]
    text = replace(right, value=0.0, question=replace(right.question, options={}))
    assert words(text)[:3] == ["✗", "0.00", "A"]


def test_fit_counts_cells() -> None:
    assert fit("医学", 3) == "医…"
    assert fit("ab", 4, right=True) == "  ab"
    assert fit("abc", 0) == ""
