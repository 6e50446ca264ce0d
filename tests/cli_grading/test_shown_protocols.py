"""Which protocols tables show where none is named."""

from ragrounds.evals.comparability import shown, telling
from ragrounds.evals.comparison import compare
from ragrounds.records import Question, Score
from ragrounds.ui.sheets import distinct_tables, outcomes
from tests.compare.making import add_run


def test_the_usual_ones_and_what_they_leave_out():
    usual = {"mirage": ["a"], "strict": ["a"], "robust": ["a"], "facts": ["a"], "rouge-l": ["a"]}
    assert shown(usual) == ("mirage", "strict", "facts")
    assert shown({**usual, "equivalent": ["a"]}) == ("mirage", "strict", "facts", "equivalent")
    assert shown({"rouge-l": ["k"]}) == ("rouge-l",)
    assert shown({"rouge-l": ["k"], "comprehensiveness": ["k"]}) == ("comprehensiveness",)
    assert shown({"strict": ["a"], "robust": ["a", "link"], "triplets": ["b"]}) == ("strict", "robust", "triplets")


def test_outcomes_count_an_answer_once():
    assert telling({"mirage": ["a"], "strict": ["a"], "facts": ["a"]}) == ("strict", "facts")
    assert telling({"comprehensiveness": ["k"], "contradiction": ["k"]}) == ("comprehensiveness",)


def test_a_judged_run_is_shown(tmp_path):
    from ragrounds.evals.store.store import Store

    asked = [Question(id=f"k/{n}", benchmark="k", text=f"{n}?", kind="long") for n in range(4)]
    with Store(tmp_path) as store:
        run = add_run(store, "one", asked, [1, 0, 1, 1], protocol="equivalent")
        store.add_scores(
            run, [Score(question_id=q.id, epoch=0, protocol="rouge-l", value=0.5, reading="answered") for q in asked]
        )
        found = compare(store, [run])
    assert [table.protocol for table, _ in distinct_tables(found)] == ["equivalent"]
    assert outcomes(found)[run.id].total() == 4
