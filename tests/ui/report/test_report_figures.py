"""The report shows the same numbers as `ragrounds compare --json`: every figure, in reports of every kind."""

import json

import msgspec
import pytest
from msgspec.structs import replace

from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.store.store import Store
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.report.page import PageOptions, report_page
from tests.compare.making import add_run, add_scores, questions
from tests.ui.report.figures import figures, sheets, shows
from tests.ui.report.making import traced_events


def searching(store: Store):
    """Three agents on two datasets, with calls, costs and a property to group by."""
    asked = questions(24, "x/large", group="heart") + questions(9, "x/small", group="lung")
    events = {0: traced_events(store, 5)}
    costs = [0.01 + 0.001 * (place % 5) for place in range(33)]
    return [
        add_run(store, "direct", asked, [1, 0, 0] * 11, cost_uncached=0.002),
        add_run(store, "vanilla_rag[top_k=8]", asked, [1, 1, 0] * 11, cost_uncached=costs, events=events),
        add_run(store, "search_o1", asked, [1, 1, 1, 0, 1, 0] * 5 + [1, 1, 1], cost_uncached=0.04, events=events),
    ]


def imported(store: Store):
    """Answers made elsewhere: no cost is known."""
    asked = questions(60) + questions(20, "x/two")
    more = {"origin": "imported", "cost_uncached": None, "scorer": "mirage"}
    return [
        add_run(store, name, asked, ([1] * right + [0] * (60 - right)) + [1, 0] * 10, **more)
        for name, right in (("cot", 31), ("rag", 44))
    ]


def judged(store: Store):
    """Long answers that a judge graded, with failures of the judge, and another scorer beside."""
    asked = [replace(one, kind="long", options={}) for one in questions(40)]
    runs = []
    for name, right in (("short", 12), ("long", 25)):
        run = add_run(store, name, asked, [1.0] * right + [0.0] * (37 - right) + [None] * 3, scorer="equivalent")
        add_scores(store, run, "rouge-l", {one.id: 0.25 for one in asked})
        runs.append(run)
    return runs


def interrupted(store: Store):
    """Runs that were stopped: attempts that failed, were capped, are not made."""
    # No long question is answered yet, so no table is of them.
    asked = [*questions(45), *(replace(one, id=f"l{one.id}", kind="long", options={}) for one in questions(5))]
    ended = {3: "failed", 4: "failed", 7: "capped"}
    return [
        add_run(store, "direct", asked, [1, 0] * 20 + [...] * 10),
        add_run(store, "search_o1", asked, [1, 0, 0, 0, 0] * 6 + [...] * 20, status=ended),
    ]


@pytest.mark.parametrize("kind", [searching, imported, judged, interrupted])
def test_every_figure_is_that_of_compare_json(store, kind):
    runs = kind(store)
    made = compare(store, runs, group_by=["subject"] if kind is searching else ())
    compared = json.loads(msgspec.json.encode(made))
    page = "".join(report_page(store, runs, made, PageOptions(attempts=False)))
    found = list(figures(compared, page, agent_names(made)))
    wrong = [one for one in found if not shows(*one[1:])]
    assert not wrong
    assert len(found) > 30
    for table in compared["tables"]:  # what a picture writes beside a row is the same figure
        if table["scorer"] not in {one["scorer"] for one in compared["headlines"]}:
            continue
        for line in table["lines"]:
            assert f"{100 * line['overall']['value']:.1f} (" in page


def test_a_figure_that_is_not_there_is_found_out(store):
    runs = searching(store)
    made = compare(store, runs)
    compared = json.loads(msgspec.json.encode(made))
    page = "".join(report_page(store, runs, made, PageOptions(attempts=False)))
    compared["tables"][0]["pairs"][0]["tests"]["difference"] += 0.001
    (wrong,) = [one for one in figures(compared, page, agent_names(made)) if not shows(*one[1:])]
    assert wrong[0].endswith(" difference")


def test_numbers_are_read_as_they_are_written():
    assert shows("$0.0012", 0, 0.00118)
    assert not shows("$0.0012", 0, 0.00131)
    assert shows("104.9 k", 0, 104_912)
    assert shows("unknown", 0, None)
    assert not shows("unknown", 0, 0.0)
    assert shows("-12.4 to +3.0", 1, 3.04)
    (sheet,) = sheets("<figcaption>a, b</figcaption><table><tr><th>x</th><th>y</th></tr><tr><td>r</td><td>1</td></tr>")
    assert (sheet.caption, sheet.heads, sheet.cell("r", "y")) == ("a, b", ["x", "y"], "1")
