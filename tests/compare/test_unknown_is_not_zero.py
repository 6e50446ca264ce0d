"""What nobody counted is unknown in every table, a clipped mean says so, and costs of few questions have a remark."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

import ragrounds as rr
from ragrounds.base.records import Usage
from ragrounds.base.spent import Spent
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.summaries import Pages
from ragrounds.ui.pictures.frontier import frontier_tables
from ragrounds.ui.progress.lines import at_least
from tests.compare.making import add_run, questions
from tests.conftest import Cli

FAILED = {"cost_uncached": 0.0, "usage": Usage(), "status": dict.fromkeys(range(4), "failed")}


def failed_run(store: Store, unanswered: int):
    """A run whose attempts all failed, each after some requests without an answer, or before any request."""
    run = add_run(store, "dead", questions(4), ["unscored"] * 4, **FAILED)
    store.add_attempts(run, [replace(attempt, unanswered=unanswered) for attempt in store.attempts(run)])
    return run


@pytest.mark.parametrize(("unanswered", "paid"), [(2, None), (0, 0.0)])
def test_a_failed_run_has_unknown_costs(home: Path, command: Cli, unanswered: int, paid: float | None) -> None:
    with Store(home) as store:
        run = failed_run(store, unanswered)
        alive = add_run(store, "alive", questions(4), [1, 0, 1, 1])
        row, answered = compare(store, [run, alive]).rows
        assert (row.usage, row.cost_paid, row.cost_uncached) == (None, paid, None)
        assert answered.cost_paid == pytest.approx(0.04)
        listed = Pages(store, [run], ["strict"]).read(range(4))
        assert {(one.tokens, one.cost_paid, one.cost_uncached) for one in listed} == {(None, paid, None)}
    for name in ("runs", "attempts"):
        frame = rr.runs(home=home).to_pandas(name)
        dead = frame[frame["run"] == run.id]
        assert dead[["cost_uncached", "input_tokens", "output_tokens"]].isna().all(axis=None), name
    page = home.parent / "report.html"
    shown = {
        "compare": command("compare", "dead", "alive").stdout,
        "alone": command("compare", "dead").stdout,
        "full": command("compare", "dead", "--full").stdout,
        "list": command("runs", "ls").stdout,
        "show": command("runs", "show", "dead").stdout,
        "attempt": command("show", "dead", "x/one/0").stdout,
    }
    for name, text in shown.items():
        assert "unknown" in text, name
        assert "0 tokens" not in text, name
        if unanswered:
            assert "$0.00" not in text, name
    assert command("report", "dead", "--out", str(page)).returncode == 0
    assert "$0.00" not in page.read_text() or not unanswered


def test_what_an_answer_cost_is_known_beside_failures_and_so_is_an_answer_without_a_model(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        half = add_run(store, "half", questions(4), [1, 0, 1, 1], cost_uncached=[0.0, 0.5, 0.0, 0.0],
                       status=dict.fromkeys((0, 2, 3), "failed"))  # fmt: skip
        free = add_run(store, "free", questions(4), [1, 0, 1, 1], cost_uncached=0.0, usage=Usage())
        assert [row.cost_uncached for row in compare(store, [half, free]).rows] == [0.5, 0.0]
        assert compare(store, [free]).rows[0].usage == Usage()


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        (Spent(unanswered=3), "unknown"),
        (Spent(unanswered=3, cost_paid=0.5), "≥ $0.50"),
        (Spent(), "$0.00"),
        (Spent(cost_paid=None), "unknown"),
    ],
)
def test_the_live_screen_knows_no_cost_of_requests_without_an_answer(spent: Spent, text: str) -> None:
    assert at_least(spent, spent.cost_paid) == text


def test_a_clipped_mean_says_so(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        below = add_run(store, "below", questions(4), [-0.5, 0.5, -0.5, -0.1], scorer="rubric")
        within = add_run(store, "within", questions(4), [-0.5, 0.5, 0.5, 0.5], scorer="rubric")
        comparison = compare(store, [below, within])
        assert [line.overall.value for line in comparison.tables[0].lines] == [0.0, 0.25]
        (note,) = (note for note in comparison.notes if "clipped" in note)
        assert note.startswith("The mean of below-run under rubric is -15.00 and is shown clipped to 0 to 100")


@pytest.mark.parametrize(("count", "remarked"), [(199, True), (200, False)])
def test_costs_of_few_questions_rest_on_no_rare_expensive_one(tmp_path: Path, count: int, remarked: bool) -> None:
    with Store(tmp_path) as store:
        runs = [add_run(store, name, questions(count), [1, 0] * (count // 2) + [1] * (count % 2)) for name in "ab"]
        table = compare(store, runs).tables[0]
    names = {run.id: run.agent for run in runs}
    shown = frontier_tables(table.frontier, table.scorer, names, max(line.overall.n for line in table.lines))[0]
    assert ("a rare expensive question may be missing from the intervals of costs" in shown.about) == remarked
