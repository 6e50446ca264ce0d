"""Thresholds of comparisons and claims at their edges: the last case on one side, and the first on the other."""

import math

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Score
from ragrounds.evals.claims.assertions import OpenShare, at_end
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.findings import LEVEL, conclusions, finding
from ragrounds.evals.compare.question_values import reading_notes
from ragrounds.evals.store.store import Store
from ragrounds.ui.tables.one_screen import conclusion_lines
from tests.compare.making import add_run, questions
from tests.compare.test_claims_checked import checked

LEAST = math.nextafter(0, 1)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with one pair."""
    with Store(tmp_path_factory.mktemp("store")) as opened:
        asked = questions(4)
        return compare(opened, [add_run(opened, name, asked, [1, 0, 0, 1]) for name in ("one", "two")]).tables[0]


@pytest.mark.parametrize(
    ("p", "low", "high", "significant"),
    [
        (math.nextafter(LEVEL, 0), 0.1, 0.5, True),
        (LEVEL, 0.1, 0.5, False),
        (0.01, LEAST, 0.5, True),
        (0.01, 0.0, 0.5, False),
        (0.01, -0.5, -LEAST, True),
        (0.01, -0.5, 0.0, False),
    ],
)
def test_a_difference_is_significant_below_5_percent_and_if_its_interval_leaves_out_0(table, p, low, high, significant):
    (pair,) = table.pairs
    tests = replace(pair.tests, difference=(low + high) / 2, low=low, high=high)
    found = conclusions(replace(table, pairs=(replace(pair, p_holm=p, tests=tests),)))
    assert len(found) == significant
    assert tests.leaves_out_0 == (significant or p == LEVEL)


@pytest.mark.parametrize(("left", "kind"), [(19, "ahead"), (20, "open")])
def test_a_finding_is_open_if_open_attempts_could_make_both_equal(store, left, kind):
    asked = questions(40)
    better = add_run(store, "better", asked, [1] * 30 + [0] * 10)
    worse = add_run(store, "worse", asked, [1] * 10 + [0] * (30 - left) + [...] * left)
    assert finding(compare(store, [better, worse]).tables[0]).kind == kind


@pytest.mark.parametrize(
    ("left", "pairs", "reversible", "ending"),
    [
        (21, {("close", "worse")}, set(), "close. Compared with worse, each additional right answer costs $0.046."),
        (
            22,
            {("close", "worse"), ("best", "worse")},
            {"worse"},
            "close; open attempts could reverse the difference to worse.",
        ),
    ],
)
def test_a_difference_to_the_best_is_reversible_and_none_between_other_runs(store, left, pairs, reversible, ending):
    # With 21 open attempts "worse" can reach 29 right answers: as many as "close" has, and fewer than the best.
    # 19 answers for $0.19 have 8 right, 40 for $1.20 have 30: $1.01 for 22 more.
    asked = questions(40)
    columns = {
        "best": (0.03, [1] * 30 + [0] * 10),
        "close": (0.05, [1] * 29 + [0] * 11),
        "worse": (0.01, [1] * 8 + [0] * (32 - left) + [...] * left),
        "poor": (0.05, [1] * 2 + [0] * 38),
    }
    runs = [add_run(store, name, asked, column, cost_uncached=cost) for name, (cost, column) in columns.items()]
    names = {run.id: run.agent for run in runs}
    result = finding((comparison := compare(store, runs)).tables[0])
    assert {(names[pair.better], names[pair.worse]) for pair in result.open} == pairs
    assert {names[run] for run in result.reversible} == reversible
    assert " ".join(conclusion_lines(comparison, [], names)).endswith(ending)


@pytest.mark.parametrize(("apart", "count", "noted"), [(1, 20, False), (1, 19, True), (2, 40, False), (2, 39, True)])
def test_a_note_says_that_more_than_5_percent_of_answers_are_read_differently(store, apart, count, noted):
    run = add_run(store, "one", questions(1), [1])
    strict, robust = (
        [Score(question_id=str(n), epoch=0, scorer=name, value=float(value := n >= wrong), prediction="AB"[value],
               answer_status="answered") for n in range(count)]
        for name, wrong in (("strict", apart), ("robust", 0))
    )  # fmt: skip
    notes = list(reading_notes([run], {run.id: {"strict": strict, "robust": robust}}, ["strict"]))
    assert len(notes) == noted
    assert all(f"{apart} of {count} answers differently; by robust {apart} more are right" in note for note in notes)


@pytest.mark.parametrize("wrong", [50, 51])
def test_fifty_questions_that_break_a_claim_are_named_and_all_are_counted(store, wrong):
    found = checked(
        store, [add_run(store, "one", questions(60), [0] * wrong + [1] * (60 - wrong))], "accuracy(one) > 0.5"
    )
    assert (len(found.against), found.against_count) == (50, wrong)


@pytest.mark.parametrize(("best", "open_"), [(0.3, False), (0.1 + 0.2, False), (0.3 + 1e-8, True), (None, False)])
def test_a_figure_is_open_if_its_best_value_is_more_than_rounding_above_it(best, open_):
    assert Figure(n=1, missing=0, value=0.3, best=best).is_open == open_


@pytest.mark.parametrize(("factor", "up", "value"), [(1.0, True, 1.0), (1.0, False, 0.9), (-1.0, False, 1.0)])
def test_open_attempts_take_a_share_to_1_at_most(factor, up, value):
    open_ = OpenShare(shares={"q": 0.2}, count=1, of=5)
    assert at_end(factor, {"q": 0.9, "missing": None}, open_, up) == {"q": value, "missing": None}
