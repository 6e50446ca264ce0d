"""Which scorers tables show where none is named."""

import json

from ragrounds.evals.compare.comparability import outcome_scorers, shown_scorers
from ragrounds.evals.compare.comparison import compare
from ragrounds.records import Question, Score
from ragrounds.ui.comparison_tables import distinct_tables, outcomes
from tests.compare.making import add_run


def test_the_usual_ones_and_what_they_leave_out():
    usual = {"mirage": ["a"], "strict": ["a"], "robust": ["a"], "facts": ["a"], "rouge-l": ["a"]}
    assert shown_scorers(usual) == ("mirage", "strict", "facts")
    assert shown_scorers({**usual, "equivalent": ["a"]}) == ("mirage", "strict", "facts", "equivalent")
    assert shown_scorers({"rouge-l": ["k"]}) == ("rouge-l",)
    assert shown_scorers({"rouge-l": ["k"], "comprehensiveness": ["k"]}) == ("comprehensiveness",)
    assert shown_scorers({"strict": ["a"], "robust": ["a", "link"], "triplets": ["b"]}) == (
        "strict",
        "robust",
        "triplets",
    )


def test_outcomes_count_an_answer_once():
    assert outcome_scorers({"mirage": ["a"], "strict": ["a"], "facts": ["a"]}) == ("strict", "facts")
    assert outcome_scorers({"comprehensiveness": ["k"], "contradiction": ["k"]}) == ("comprehensiveness",)


def test_a_judged_run_is_shown(tmp_path):
    from ragrounds.evals.store.store import Store

    asked = [Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(4)]
    with Store(tmp_path) as store:
        run = add_run(store, "one", asked, [1, 0, 1, 1], scorer="equivalent")
        store.add_scores(
            run,
            [Score(question_id=q.id, epoch=0, scorer="rouge-l", value=0.5, answer_status="answered") for q in asked],
        )
        found = compare(store, [run])
    assert [table.scorer for table, _ in distinct_tables(found)] == ["equivalent"]
    assert outcomes(found)[run.id].total() == 4


def test_what_scored_nothing_is_not_shown_and_covers_nothing():
    assert shown_scorers({"facts": [], "rouge-l": ["q"]}) == ("rouge-l",)
    assert shown_scorers({"facts": ["a"], "rouge-l": ["a", "q"]}) == ("facts", "rouge-l")
    assert shown_scorers({"strict": []}) == ()


def test_reference_answers_without_facts_have_a_figure(command, tmp_path):
    lines = [{"id": str(n), "question": f"Why {n}?", "answer": "Because of heparin."} for n in range(2)]
    (tmp_path / "q.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    asked = ("--benchmark", "jsonl:q.jsonl", "--agent", "direct", "--model", "baseline:extractive", "--display", "none")
    for words in (("run", *asked), ("compare", "direct"), ("score", "direct")):
        told = command(*words)
        assert told.returncode == 0, told.stderr
        assert "rouge-l: " in told.stdout
        assert "facts: " not in told.stdout
        assert "missing" not in told.stdout
    claimed = command("compare", "direct", "--assert", "accuracy(direct) < 0.5", "--json")
    assert claimed.returncode == 0, claimed.stderr
    assert json.loads(claimed.stdout)["claims"][0]["scorer"] == "rouge-l"
    assert "0 (2 missing)" in command("compare", "direct", "--scorer", "facts").stdout


def test_a_judge_that_gave_no_verdict_is_shown(tmp_path):
    from ragrounds.evals.store.store import Store

    asked = [Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(2)]
    with Store(tmp_path) as store:
        run = add_run(store, "one", asked, [None, None], scorer="equivalent")
        store.add_scores(
            run, [Score(question_id=q.id, epoch=0, scorer="facts", value=None, answer_status="answered") for q in asked]
        )
        found = compare(store, [run])
    assert [table.scorer for table, _ in distinct_tables(found)] == ["equivalent"]
    assert found.tables[0].lines[0].overall.missing == 2
