"""The list of runs has the figure that a comparison has: one estimand, whatever table shows it."""

from __future__ import annotations

import pytest

from ragrounds.api.runs import runs as stored_runs
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.overview import run_overviews
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.run_tables import runs_table
from tests.compare.making import add_run, questions

CASES = {
    "one dataset": (questions(4), [1, 0, 1, 1], {}),
    "two datasets of different sizes": (questions(3) + questions(5, "x/two"), [1, 0, 1, 0, 0, 0, 0, 1], {}),
    "epochs": (questions(3), [[1, 0], [1, 1], [0, 0]], {"epochs": 2}),
    "a judge that failed": (questions(4), [1, None, 1, 0], {}),
    "an answer that nobody scored": (questions(4), [1, "unscored", 1, 0], {}),
    "failed and capped": (questions(4), [1, 0, 0, 1], {"status": {1: "failed", 2: "capped"}}),
    "no known cost": (questions(2), [1, 0], {"cost_uncached": None}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_figure_is_that_of_the_comparison(store: Store, case: str) -> None:
    asked, right, more = CASES[case]
    run = add_run(store, "one", asked, right, **more)
    (found,) = run_overviews(store, [run], {run.id: "First"})
    compared = compare(store, [run])
    ((table, _),) = compared.shown_tables()
    (row,) = compared.rows
    assert found.score == pytest.approx(table.lines[0].overall.value)
    assert (found.scorer, found.unit, found.name) == (table.scorer, table.unit, "First")
    assert found.cost_paid == pytest.approx(row.cost_paid) if row.cost_paid is not None else found.cost_paid is None
    assert found.cost_uncached == (None if row.cost_uncached is None else pytest.approx(row.cost_uncached))
    assert found.seconds == pytest.approx(row.seconds)
    assert found.made == len(asked) * run.epochs - row.statuses.get("not_run", 0)
    assert found.failed == row.statuses.get("failed", 0) + row.statuses.get("capped", 0)


def test_what_is_not_made_does_not_count_as_wrong(store: Store) -> None:
    run = add_run(store, "one", questions(10), [1, 0, 1, 1] + [...] * 6)
    epochs = add_run(store, "two", questions(4), [[1, 0], [1, ...], [..., ...], [1, 1]], epochs=2)
    begun = add_run(store, "three", questions(4), [[1, ...]] * 4, epochs=2)
    whole = add_run(store, "four", questions(4), [1, 0, 1, 1])
    found = run_overviews(store, [run, epochs, begun, whole], {})
    assert [(one.score, one.so_far) for one in found] == [(0.75, True), (0.75, True), (None, True), (0.75, False)]
    lines = runs_table(found, 2.0).rows
    assert [row[4] for row in lines] == ["75.00 so far", "75.00 so far", "-", "75.00"]
    (said,) = verdict_lines(compare(store, [run, whole], common=True), (), {run.id: "one", whole.id: "two"})
    assert "not made" not in said
    (said,) = verdict_lines(compare(store, [run]), (), {run.id: "one"})
    counted = "unfinished, and what is not made counts as not correct; "
    assert said.startswith(f"strict: {counted.replace(',', ' (4 of 10 made),')}one has 30.00 %")
    runs = [add_run(store, name, questions(4), [1, ..., last, last]) for name, last in (("five", ...), ("six", 1))]
    (said,) = verdict_lines(compare(store, runs), (), {run.id: run.agent for run in runs})
    assert said.startswith(f"strict: five (1 of 4 made), six (3 of 4 made) are {counted}six has the best figure, 75.00")


def test_a_run_without_attempts_has_no_figure(store: Store) -> None:
    run = add_run(store, "one", questions(3), [..., ..., ...])
    (found,) = run_overviews(store, [run], {})
    assert (found.made, found.score, found.scorer, found.cost_paid, found.seconds) == (0, None, "", 0.0, None)


def test_runs_are_chosen_by_words_and_what_is_left_out_is_said(store: Store) -> None:
    settings = Settings(home=store.home)
    assert stored_runs(settings=settings).left.startswith("No runs yet in ")
    for name in ("low", "high", "Middle"):
        add_run(store, name, questions(2), [1, 0])

    def listed(*words: str, limit: int | None = None) -> list[str]:
        return [one.agent for one in stored_runs(words, limit=limit, settings=settings)]

    assert listed() == ["low", "high", "Middle"]
    assert listed("MIDDLE") == ["Middle"]
    assert listed("test:model", "high") == ["high"]
    assert listed(limit=2) == ["high", "Middle"]
    assert [one.run.agent for one in stored_runs(limit=2, settings=settings).overviews()] == ["Middle", "high"]
    assert stored_runs(settings=settings).left == ""
    assert stored_runs(limit=2, settings=settings).left == "2 of 3 runs; --limit 3 shows all."
    assert stored_runs("zzz", settings=settings).left.startswith("None of the 3 runs in ")
