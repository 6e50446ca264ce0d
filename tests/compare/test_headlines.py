"""Which scorers tables show where none is named: the headline of each kind of question, and those beside it."""

import json

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Question
from ragrounds.evals.claims.assertions import check_claims
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.figures import QuestionCost
from ragrounds.evals.scorers.base import StoredScorer
from ragrounds.evals.scorers.catalogue import tell
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.tables.comparison_tables import comparison_tables
from ragrounds.ui.tables.comparison_words import unjudged, verdict_lines
from ragrounds.ui.tables.one_screen import conclusion_lines, run_costs, summary_table
from tests.compare.making import add_run, add_scores, questions
from tests.conftest import succeeded


def shown(comparison):
    """Headline → the scorers beside it."""
    return {table.scorer: [one.scorer for one in beside] for table, beside in comparison.shown_tables()}


@pytest.mark.parametrize(
    ("benchmark", "headline", "beside"),
    [
        ("mirage/pubmedqa", "mirage", ["strict", "robust"]),  # its card names it
        ("x/one", "robust", ["strict"]),  # no card: an unreadable answer is nowhere counted as A
    ],
)
def test_a_benchmarks_card_names_the_headline_and_the_columns(store, benchmark, headline, beside):
    asked = questions(2, benchmark)
    run = add_run(store, "one", asked, [1, 0], scorer="strict")
    for scorer in ("mirage", "robust"):
        add_scores(store, run, scorer, {question.id: 1.0 for question in asked})
    found = compare(store, [run])
    assert shown(found) == {headline: beside}
    (table,) = [table for table in comparison_tables(found) if table.key == "scores"]
    assert [column.name for column in table.columns][-len(beside) :] == beside
    assert table.rows[0][-len(beside) :] == tuple("50.00" if scorer == "strict" else "100.00" for scorer in beside)
    assert found.outcomes()[run.id].total() == 2


def test_the_headline_is_the_same_for_all_systems(store):
    asked = questions(2, "mirage/pubmedqa")
    one = add_run(store, "one", asked, [1, 0], scorer="mirage")
    other = add_run(store, "two", asked, [1, 1], scorer="robust")
    add_scores(store, one, "robust", {question.id: 0.0 for question in asked})
    found = compare(store, [one, other], common=True)
    assert shown(found) == {"robust": []}
    assert [line.overall.value for line in found.shown_tables()[0][0].lines] == [0.0, 1.0]


def test_every_kind_of_question_has_a_table_and_an_answer_counts_once(store):
    asked = [*questions(2), *(Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(3))]
    run = add_run(store, "one", asked, [1, 1, "unscored", "unscored", "unscored"])
    for scorer in ("facts", "equivalent", "rouge-l"):
        add_scores(store, run, scorer, {f"k/{n}": 1.0 for n in range(3)})
    found = compare(store, [run])
    assert shown(found) == {"strict": [], "facts": ["equivalent"]}
    assert found.outcomes()[run.id].total() == 5
    # Named ones stand alone.
    assert [(table.scorer, beside) for table, beside in found.shown_tables(["rouge-l"])] == [("rouge-l", [])]
    assert [one.scorer for one in compare(store, [run], scorers=["rouge-l"]).headlines] == ["rouge-l"]


def test_a_scorer_of_several_kinds_counts_no_answer_twice(store):
    asked = questions(2)
    run = add_run(store, "one", asked, [1, 0])
    tell(StoredScorer(name="both", summary="s", method="m", kinds=("choice", "long"), beside=False))
    add_scores(store, run, "both", {question.id: 1.0 for question in asked})
    found = compare(store, [run])
    (line,) = [table.lines[0] for table in found.tables if table.scorer == "both"]
    assert line.outcomes_by_part == {"choice x/one": {"answered": 2}}
    assert found.outcomes()[run.id] == {"answered": 2}
    # One that is for more questions than the headline counts those alone.
    more = [*questions(2, "x/two"), *questions(3, "x/three")]
    other = add_run(store, "two", more, [1, 1, "unscored", "unscored", "unscored"], scorer="strict")
    add_scores(store, other, "equivalent", {question.id: 1.0 for question in more})
    assert compare(store, [other]).outcomes()[other.id].total() == 5


@pytest.mark.parametrize(("values", "beside", "missing"), [([1, 0, 1, 1], 0.5, 0), ([None] * 4, None, 4)])
def test_a_judged_run_is_shown_even_without_a_verdict(store, values, beside, missing):
    asked = [Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(4)]
    run = add_run(store, "one", asked, values, scorer="equivalent")
    add_scores(
        store, run, "facts" if missing else "rouge-l", dict.fromkeys([question.id for question in asked], beside)
    )
    found = compare(store, [run])
    assert [table.scorer for table, _ in found.shown_tables()] == ["equivalent"]
    assert found.tables[0].lines[0].overall.missing == missing
    assert found.outcomes()[run.id].total() == 4


def test_what_scored_nothing_is_not_shown_and_covers_nothing(store):
    asked = [Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(2)]
    run = add_run(store, "one", asked, [None, None], scorer="facts")
    add_scores(store, run, "rouge-l", {"k/0": 0.5, "k/1": 0.5})
    assert shown(compare(store, [run])) == {"rouge-l": []}
    add_scores(store, run, "facts", {"k/0": 1.0})
    assert shown(compare(store, [run])) == {"facts": []}


def test_reference_answers_without_facts_have_a_figure(command, tmp_path):
    lines = [{"id": str(n), "question": f"Why {n}?", "answer": "Because of heparin."} for n in range(2)]
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    asked = ("--benchmark", "jsonl:q.jsonl", "--agent", "direct", "--model", "baseline:extractive", "--display", "none")
    for words in (("run", *asked), ("compare", "direct"), ("score", "direct")):
        told = succeeded(command(*words))
        assert "rouge-l: " in told.stdout
        assert "facts: " not in told.stdout
        assert "missing" not in told.stdout
    claimed = succeeded(command("compare", "direct", "--assert", "score(direct) < 0.5", "--json"))
    assert json.loads(claimed.stdout)["claims"][0]["scorer"] == "rouge-l"
    assert "direct 2 abstained, 2 without a score" in command("compare", "direct", "--scorer", "facts").stdout


@pytest.mark.parametrize(
    ("benchmark", "scorer", "kind"),
    [
        ("ogcarebench", "equivalent-published", "equivalence-published"),
        ("kqa", "comprehensiveness", "statements"),
        ("jsonl/hospital", "equivalent", "equivalence"),
    ],
)
def test_a_verdict_by_wording_alone_says_first_that_a_judge_decides_and_how(store, benchmark, scorer, kind):
    asked = [replace(one, kind="long", options={}, benchmark=benchmark) for one in questions(12)]
    runs = [add_run(store, name, asked, [low] * 12, scorer="rouge-l") for name, low in (("one", 0.1), ("two", 0.2))]
    made = replace(compare(store, runs), benchmark=benchmark)
    names = agent_names(made)
    (said,) = verdict_lines(made, (), names)
    assert said == (
        f"A judge decides whether answers are right ({scorer}), not by rouge-l, and none is judged yet: "
        f"`ragrounds judge one-run two-run --kind {kind} --judge MODEL`."
    )
    assert conclusion_lines(made, (), names)[0] == said
    assert not [line for line in conclusion_lines(made, (), names) if "rouge-l: " in line or "of its tokens" in line]
    assert any(line.startswith("rouge-l: ") for line in verdict_lines(made, ("rouge-l",), names))
    assert not unjudged(benchmark, [scorer, "rouge-l"], [run.id for run in runs])
    assert not unjudged("mirage", ["mirage"], ["one-run"])
    assert not unjudged("mrag/clfqa", ["rouge-l"], ["one-run"])


def test_runs_whose_attempts_all_failed_do_not_tie(store):
    failed = {0: "failed", 1: "failed"}
    runs = [add_run(store, agent, questions(2), [0, 0], status=failed) for agent in ("one", "two")]
    found = compare(store, runs)
    assert list(verdict_lines(found, [], agent_names(found))) == [
        "strict: nothing can be concluded, as every attempt failed."
    ]


def test_costs_of_a_row_are_those_of_the_first_headlines_questions_whatever_its_partner(store):
    long = [Question(id=f"l{place}", benchmark="x/long", text="?", kind="long") for place in range(5)]
    asked = [*questions(4), *questions(6, "x/two"), *long]
    prices = [0.001] * 4 + [0.003] * 6 + [0.1] * 5
    one, priced, unknown = (
        add_run(store, name, asked, [1] * 10 + ["unscored"] * 5, scorer="robust", cost_uncached=cost)
        for name, cost in (("one", prices), ("priced", prices), ("unknown", None))
    )
    for run in (one, priced, unknown):
        add_scores(store, run, "facts", {question.id: 1.0 for question in long})
    costs = []
    for runs in ([one], [one, priced], [one, unknown], [one, priced, unknown]):
        found = compare(store, runs)
        tables = [table for table, _ in found.shown_tables()]
        assert [table.scorer for table in tables] == ["robust", "facts"]
        summary = summary_table(found, tables, {run.id: run.agent for run in runs})
        assert "15 questions (10 robust, 5 facts; costs of the 10)" in summary.title
        by_run = run_costs(found, tables)
        costs.append(by_run[one.id])
        points = {point.run: point.cost.value for point in tables[0].frontier.points} if tables[0].frontier else {}
        if priced in runs and unknown not in runs:
            assert points[one.id] == pytest.approx(by_run[one.id].dollars)
        assert unknown not in runs or by_run[unknown.id].dollars is None
    # The mean over both datasets of choice questions: (.1 + .3) / 2 cents, (250 + 750) / 2 + 10 tokens in all.
    assert set(costs) == {QuestionCost(dollars=0.002, tokens=510.0, seconds=0.5, questions=10)}
    for claim, value in (("cost(one) > 0", 0.002), ("tokens(one) > 0", 510.0), ("seconds(one) > 0", 0.5)):
        (verdict,) = check_claims(store, [one, priced], [claim], scorer="robust")
        assert verdict.conditions[0].value == pytest.approx(value)
