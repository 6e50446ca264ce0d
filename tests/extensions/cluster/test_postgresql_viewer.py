"""The viewer's reads give the same from PostgreSQL as from SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragrounds.base.records import OUTCOMES
from ragrounds.evals.compare.grid import AgentGrid
from ragrounds.evals.store.arenas import answer_verdicts
from ragrounds.evals.store.attempt_notes import write_note
from ragrounds.evals.store.database import ChangeWatch
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import SORTS, Pages
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.tree_view import TreeState
from tests.servers.postgresql import database
from tests.store.test_attempt_filter import COMPILED
from tests.ui.trace.making import fill, score

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory, postgresql_server: str) -> Iterator[Pages]:
    """The quiz in a database of its own."""
    with Store(tmp_path_factory.mktemp("pg"), database(postgresql_server)) as store:
        fill(store)
        yield Pages(store, store.runs())


def test_rows_orders_counts_and_differences(pages: Pages, other: Pages, tmp_path: Path) -> None:
    assert other.read(range(12)) == pages.read(range(12))
    for sort in SORTS:
        for descending in (True, False):
            assert other.order("wrong or unscored", sort, descending) == pages.order(
                "wrong or unscored", sort, descending
            )
    for shown in (pages, other):
        for number, mark in ((0, "star"), (4, "later")):
            write_note(shown.store, shown.runs[1], f"quiz/00{number}", 0, author="ada", mark=mark, text="Look AGAIN")
    for where in (*COMPILED, "aspirin and hops>2", 'reply:"kept in" or query:"query 2"', "not aspirin"):
        other.complete(where)
        pages.complete(where)
        assert other.order(where) == pages.order(where), where
        assert other.seek(where, 3, 1) == pages.seek(where, 3, 1), where
        assert other.seek(where, 3, -1, list(range(12))[::-1]) == pages.seek(where, 3, -1, list(range(12))[::-1]), where
        assert other.unknown(where) == pages.unknown(where), where
    for field in ("status", "mark", "author", "note", "subject", "question"):
        assert other.values(field) == pages.values(field)
    assert [one.facts for one in other.read(range(12))] == [one.facts for one in pages.read(range(12))]
    for name in OUTCOMES:
        assert other.order(f"status:{name}") == pages.order(f"status:{name}")
    assert list(other.differing(0, 1)) == list(pages.differing(0, 1))
    assert [other.row_of(1, "quiz/004"), other.row_of(1, "quiz/099")] == [10, None]
    assert other.scores(other.read([0])[0]) == pages.scores(pages.read([0])[0])
    assert answer_verdicts(other.store, "plain-run", "quiz/000") == []


def test_an_attempt_is_opened_and_searched(other: Pages) -> None:
    state = TreeState(LoadedAttempt(other, other.read([6])[0]))
    assert state.search("query 1") == 1


def test_a_watch_sees_what_was_written_when_the_server_has_counted_it(other: Pages) -> None:
    watch = ChangeWatch(other.store.engine)
    other.store.add_scores(other.store.runs()[1], [score(0, True)])
    other.store.engine.dispose()  # a connection hands in its counts when it closes; one that is idle, after ten seconds
    assert any(watch.changed() or time.sleep(0.1) for _ in range(300))
    watch.close()


def test_the_grid(pages: Pages, other: Pages) -> None:
    read = []
    for shown in (pages, other):
        grid = AgentGrid(shown)
        grid.load()
        cells = [[grid.cell(row, column) for column in range(len(grid.runs))] for row in range(grid.rows)]
        read.append((grid.ids, cells, np.nan_to_num(grid.disagreement(), nan=-1).tolist()))
    assert read[0] == read[1]
    assert len(read[0][0]) == 6
