import pytest

from ragrounds.base.records import Gold, Question
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from tests.judges.doubles import Scripted, judge_stored, keep_run


@pytest.mark.parametrize("own", [False, True])
async def test_a_stored_run_is_graded_and_billed(store, own):
    identity = {"models": {"model": "openai:judge" if own else "openai:other"}}
    run = one_run(store, [None, *(f"Answer {i}." for i in range(1, 6))], identity=identity)
    judge = Scripted(
        lambda prompt, occurrence: "?" if "Answer 5." in prompt else '{"grade": "equivalent"}', name="openai:judge"
    )
    by = LabelJudge(EQUIVALENCE, tries=2)
    (graded,), (again,) = [(await judge_stored(store, [run], [judge], by)).runs for _ in range(2)]
    assert (graded.attempts, graded.missing, graded.calls, bool(graded.same_model)) == (6, 1, 6, own)
    assert graded.cost_paid == graded.cost_uncached == pytest.approx(0.006)
    assert (again.cost_paid, again.cost_uncached) == (0.0, pytest.approx(0.006))
    values = {score.question_id: score.value for score in store.scores(run, "equivalent")}
    assert values == {"og/0": 0.0, "og/1": 1.0, "og/2": 1.0, "og/3": 1.0, "og/4": 1.0, "og/5": None}


async def test_answers_that_are_equal_are_judged_and_paid_for_once(store):
    run = one_run(store, texts=["the same"] * 5)
    judge = Scripted(lambda prompt, occurrence: '{"grade": "equivalent"}')
    (graded,) = (await judge_stored(store, [run], [judge], at_once=1)).runs
    assert (graded.calls, graded.reused, graded.cost_paid) == (5, 4, pytest.approx(0.001))


def one_run(store, texts=tuple(f"Answer {number}." for number in range(5)), **more):
    """A stored run of a question for each text; equal texts answer equal questions."""
    told = ["?" if len(set(texts)) == 1 else f"{number}?" for number in range(len(texts))]
    questions = [Question(id=f"og/{i}", benchmark="og", text=text, kind="long") for i, text in enumerate(told)]
    golds = {question.id: Gold(question_id=question.id, answer="yes") for question in questions}
    return keep_run(store, questions, golds, texts, **more)
