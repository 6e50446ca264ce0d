"""The cells of the grid are the rows of the list, and its orders are what a pencil makes of the scores."""

from __future__ import annotations

from array import array
from pathlib import Path

import msgspec
import pytest

from ragrounds.evals.compare.grid import AgentGrid
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from tests.compare.making import add_run, questions

GROUPS = ("heart", "lung", "brain")


@pytest.fixture
def store(tmp_path: Path):
    """Three agents on six questions; of the last two questions each is a duplicate of the other."""
    asked = [msgspec.structs.replace(one, group=GROUPS[place % 3]) for place, one in enumerate(questions(6))]
    asked[4:] = [msgspec.structs.replace(one, cluster="twins") for one in asked[4:]]
    with Store(tmp_path) as made:
        add_run(made, "one", asked, [1, 1, 0, 1, 1, 1])
        add_run(made, "two", asked, [1, 0, 0, 0, 0, 0], status={2: "failed"}, cost_uncached=0.25)
        add_run(made, "half", asked, [1, 0, 1, ..., 0, 1])
        yield made


def grid_of(store: Store, *, scorers: tuple[str, ...] = ("strict",)) -> AgentGrid:
    grid = AgentGrid(Pages(store, store.runs(), scorers))
    grid.load()
    return grid


def test_cells_say_score_and_status(store: Store) -> None:
    grid = grid_of(store)
    assert [grid.cell(0, column).value for column in range(3)] == [1, 1, 1]
    failed, missing = grid.cell(2, 1), grid.cell(3, 2)
    assert (failed.value, failed.outcome) == (0, "failed")
    assert (missing.value, missing.outcome) == (None, "not_run")


def test_each_cell_is_the_row_of_the_list(store: Store) -> None:
    grid = grid_of(store)
    for row in range(grid.rows):
        for column in range(3):
            place = grid.index_of(row, column)
            assert place is not None
            summary = grid.pages.read([place])[0]
            cell = grid.cell(row, column)
            assert (summary.run, summary.question.id) == (grid.runs[column], f"x/one/{row}")
            assert (summary.value, summary.outcome) == (cell.value, cell.outcome)
            assert grid.row_of[place] == row


def test_disagreement_and_orders(store: Store) -> None:
    grid = grid_of(store)
    # Shares right: 3/3, 1/3, 1/3, 1/2, 1/3, 2/3. Four times p(1 - p).
    assert grid.disagreement().tolist() == pytest.approx([0, 8 / 9, 8 / 9, 1, 8 / 9, 8 / 9])
    assert grid.order("disagreement")[0] == 3
    assert grid.order("disagreement", descending=False)[0] == 0
    assert grid.order("score")[0] == 0
    assert grid.order("question", rows=grid.rows_of(array("q", [5, 1]))).tolist() == [1, 5]
    assert grid.order("disagreement").tolist() == [3, 1, 2, 4, 5, 0]  # equal ones as asked


def test_epochs_are_shares(tmp_path: Path) -> None:
    asked = questions(2)
    with Store(tmp_path) as store:
        add_run(store, "one", asked, [[1, 0, 1], [0, 0, ...]], epochs=3)
        add_run(store, "two", asked, [[1, 1, 1], [0, 0, 0]], epochs=3)
        add_run(store, "partly", asked, [[1, 0.9, 0], [0, 0, 0]], epochs=3)
        grid = grid_of(store)
        assert [grid.cell(0, column).value for column in range(3)] == pytest.approx([2 / 3, 1, 1.9 / 3])
        assert grid.cell(1, 0).value == 0
        assert grid.index_of(0, 0) == 1  # the first that is not right


def test_scores_of_two_scorers_are_in_no_mean_together(tmp_path: Path) -> None:
    asked = questions(3)
    with Store(tmp_path) as store:
        add_run(store, "one", asked, [1, 0, 1], scorer="strict")
        add_run(store, "two", asked, [0, 1, 1], scorer="mirage")
        grid = grid_of(store, scorers=("strict", "mirage"))
        assert grid.disagreement().tolist() == pytest.approx([float("nan")] * 3, nan_ok=True)
        assert grid.score().tolist() == [1, 0, 1]
        assert (grid.scorer, grid.other_scorers) == ("strict", ["mirage"])


def test_runs_on_different_questions_are_joined_by_id(tmp_path: Path) -> None:
    asked = questions(4)
    with Store(tmp_path) as store:
        add_run(store, "one", asked[:3], [1, 0, 1])
        add_run(store, "two", asked[1:], [1, 1, 0])
        grid = grid_of(store)
        assert grid.rows == 4
        assert grid.index_of(0, 1) is None
        assert grid.index_of(3, 1) == 5
        assert [grid.cell(row, 1).value for row in range(4)] == [None, 1, 1, 0]
        assert grid.firsts.tolist() == [0, 1, 2, 5]
