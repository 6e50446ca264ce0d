"""The tree pane without a terminal: folding, searching, moving."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree_view import TreeState
from tests.ui.trace.making import Journal, attempt, make_run, passages, search_call, step


@pytest.fixture
def state(pages: Pages) -> TreeState:
    return TreeState(LoadedAttempt(pages, pages.read([6])[0]))


def lines(state: TreeState) -> list[str]:
    return ["  " * line.depth + line.node.label for line in state.lines()]


def test_folding_one_and_all(state: TreeState) -> None:
    assert lines(state)[:5] == ["quiz/000", "  round 1", "    search", "    read", "  round 2"]
    whole = len(lines(state))
    state.move(1)
    state.toggle()
    assert lines(state)[:4] == ["quiz/000", "  round 1", "  round 2", "    search"]
    state.toggle(False)
    assert len(lines(state)) == whole
    state.move(3)
    assert state.node.label == "read"
    state.fold_all(True)
    assert lines(state) == ["quiz/000", "  round 1", "  round 2", "  round 3", "  answer"]
    assert state.node.kind == "round"  # the cursor is where it can be seen
    state.fold_all(False)
    assert len(lines(state)) == whole


def test_folding_what_is_folded_goes_up(state: TreeState) -> None:
    state.move(3)
    for expected in ("round step 0", "round step 0", "attempt"):
        state.toggle(True)
        assert state.cursor == expected


def test_a_search_keeps_what_holds_it_and_the_way_there(state: TreeState) -> None:
    state.fold_all(True)
    assert state.search("query 1") == 1
    assert lines(state) == ["quiz/000", "  round 2", "    search"]
    assert state.next_match(1)
    assert state.node.call is not None
    state.search("")
    assert len(lines(state)) > 5


def test_a_search_looks_into_prompts_replies_passages_and_errors(pages: Pages, state: TreeState) -> None:
    assert state.search("YOU ARE CAREFUL") == 4
    assert state.search("kept in round 2") == 1  # the reply itself, not what other details tell of it
    assert state.search("slow down") == 1
    assert state.search("nowhere to be found") == 0
    failed = TreeState(LoadedAttempt(pages, pages.read([3])[0]))
    assert failed.search("Traceback: it broke") == 1


def test_matches_go_round_both_ways(state: TreeState) -> None:
    state.search("You are careful")
    seen = []
    for _ in range(5):
        state.next_match(1)
        seen.append(state.cursor)
    assert seen[0] == seen[4]
    assert len(set(seen)) == 4
    state.next_match(-1)
    assert state.cursor == seen[3]


def test_what_was_not_run_is_a_tree_of_one_node(pages: Pages) -> None:
    state = TreeState(LoadedAttempt(pages, pages.read([5])[0]))
    assert lines(state) == ["quiz/005"]
    assert "Not run yet" in state.blocks()[-1].text


def test_another_opening_takes_over_folds_cursor_and_search(pages: Pages, state: TreeState) -> None:
    state.search("query 1")
    state.next_match(1)
    again = TreeState(LoadedAttempt(pages, pages.read([6])[0]))
    again.adopt(state)
    assert (again.cursor, again.pattern, lines(again)) == (state.cursor, "query 1", lines(state))


def test_a_search_counts_a_call_and_not_the_step_around_it(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run, journal = make_run(store, "seeker", 1), Journal(store)
        searches = [
            search_call(journal, "search", f"{word} query", passages(0, "text")) for word in ("first", "second")
        ]
        store.add_attempts(run, [attempt(run, 0, step(0, "search", *searches), "completed")], [])
        journal.close()
        pages = Pages(store, [run])
        state = TreeState(LoadedAttempt(pages, pages.read([0])[0]))
        assert len(state.node.children[0].children) == 2
        assert state.search("second query") == 1
