"""The grid's figures are those of the tables, and its orders are what a pencil makes of the scores."""

from __future__ import annotations

from array import array
from pathlib import Path

import msgspec
import pytest

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.grid import AgentGrid
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.trace.grid_pane import figure_name
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


def test_cells_say_score_status_and_cost(store: Store) -> None:
    grid = grid_of(store)
    assert [grid.cell(0, column).value for column in range(3)] == [1, 1, 1]
    failed = grid.cell(2, 1)
    assert (failed.value, failed.outcome, failed.cost) == (0, "failed", 0.25)
    missing = grid.cell(3, 2)
    assert (missing.value, missing.scored, missing.outcome, missing.cost) == (None, 0, "not_run", None)


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
            assert grid.row_of(place) == (row, column)


def test_disagreement_and_orders(store: Store) -> None:
    grid = grid_of(store)
    # Shares right: 3/3, 1/3, 1/3, 1/2, 1/3, 2/3. Four times p(1 - p).
    assert grid.disagreement().tolist() == pytest.approx([0, 8 / 9, 8 / 9, 1, 8 / 9, 8 / 9])
    assert grid.order("disagreement")[0] == 3
    assert grid.order("disagreement", descending=False)[0] == 0
    assert grid.order("score")[0] == 0
    assert grid.order("question", rows=grid.rows_of(array("q", [5, 1]))).tolist() == [1, 5]
    assert grid.order("disagreement").tolist() == [3, 1, 2, 4, 5, 0]  # equal ones as asked


def test_costs_of_what_was_not_made_are_not_known_to_be_zero(store: Store) -> None:
    costs = grid_of(store).costs()
    assert costs[0] == pytest.approx(0.27)
    assert costs[3] == pytest.approx(0.26)  # one agent was not asked yet


def test_agents_have_means_of_what_has_a_score(store: Store) -> None:
    assert grid_of(store).figures() == pytest.approx((5 / 6, 1 / 6, 3 / 5))


def test_the_figure_below_a_name_is_the_table_s(tmp_path: Path) -> None:
    asked = [*questions(8, "x/large"), *questions(2, "x/small")]
    with Store(tmp_path) as store:
        # Two attempts failed, of which nothing is scored; one score is missing.
        add_run(store, "one", asked, [1, 1, 1, "unscored", 0, 0, 0, 1, 1, 1], status={3: "failed"})
        add_run(store, "two", asked, [1, 1, 1, 1, 0, 1, None, 1, "unscored", 1], status={8: "failed"})
        table = compare(store, store.runs()).tables[0]
        overall = {line.run: line.overall for line in table.lines}
        assert overall["one-run"].value == pytest.approx((4 / 8 + 1) / 2)
        assert overall["one-run"].pooled == pytest.approx(6 / 10)
        grid = grid_of(store)
        ids = [run.id for run in grid.runs]
        assert grid.figures() == pytest.approx([overall[id].value for id in ids])
        assert list(grid.counts) == [overall[id].n for id in ids]
        assert figure_name(grid) == "average"


def test_epochs_are_shares(tmp_path: Path) -> None:
    asked = questions(2)
    with Store(tmp_path) as store:
        add_run(store, "one", asked, [[1, 0, 1], [0, 0, ...]], epochs=3)
        add_run(store, "two", asked, [[1, 1, 1], [0, 0, 0]], epochs=3)
        add_run(store, "partly", asked, [[1, 0.9, 0], [0, 0, 0]], epochs=3)
        grid = grid_of(store)
        cells = [grid.cell(0, column) for column in range(3)]
        assert [(cell.right, cell.scored, cell.epochs, cell.fractional) for cell in cells] == [
            (2, 3, 3, False), (3, 3, 3, False), (1, 3, 3, True)
        ]  # fmt: skip
        assert cells[0].value == pytest.approx(2 / 3)
        assert grid.cell(1, 0).scored == 2
        assert grid.index_of(0, 0, 1) == grid.index_of(0, 0, None) == 1  # the first that is not right
        assert (grid.index_of(0, 0, 2), grid.index_of(0, 0, 3)) == (2, None)


def test_scores_of_two_scorers_are_in_no_mean_together(tmp_path: Path) -> None:
    asked = questions(3)
    with Store(tmp_path) as store:
        add_run(store, "one", asked, [1, 0, 1], scorer="strict")
        add_run(store, "two", asked, [0, 1, 1], scorer="mirage")
        grid = grid_of(store, scorers=("strict", "mirage"))
        assert grid.used_scorers() == {"strict": 3, "mirage": 3}
        assert grid.figures() == (2 / 3, None)
        assert grid.disagreement().tolist() == pytest.approx([float("nan")] * 3, nan_ok=True)
        assert grid.counts == (3, 0)


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
