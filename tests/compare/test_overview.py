"""The list of runs has the figure that a comparison has: one estimand, whatever table shows it."""

from __future__ import annotations

from ragrounds.api.runs import runs as stored_runs
from ragrounds.base.settings import Settings
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.overview import run_overviews
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.comparison_words import verdict_lines
from ragrounds.ui.tables.run_tables import runs_table
from tests.compare.making import add_run, questions


def test_the_sums_are_those_of_the_comparison(store: Store) -> None:
    """The figure itself: test_one_figure_everywhere."""
    status = {1: "failed", 2: "capped"}
    runs = [
        add_run(store, name, questions(4), [1, 0, 0, 1], status=status, cost_uncached=cost)
        for name, cost in (("one", 0.01), ("two", None))
    ]
    compared = compare(store, runs)
    ((table, _),) = compared.shown_tables()
    for found, row in zip(run_overviews(store, runs, {runs[0].id: "First"}), compared.rows, strict=True):
        assert (found.scorer, found.unit, found.made, found.failed) == (table.scorer, table.unit, 4, 2)
        assert (found.cost_paid, found.cost_uncached) == (row.cost_paid, row.cost_uncached)
        assert (found.name, row.cost_paid is None) == (("First", False) if found.run == runs[0] else ("", True))


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
