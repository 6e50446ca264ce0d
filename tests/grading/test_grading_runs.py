import pytest

from ragrounds.evals.grading import Equivalence, grade_runs
from ragrounds.evals.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Gold, Question, Run
from tests.judging.doubles import Scripted


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("own", [False, True])
async def test_a_stored_run_is_graded_and_billed(store, own):
    questions = [Question(id=f"og/{i}", benchmark="og", text=f"{i}?", kind="long") for i in range(6)]
    golds = {question.id: Gold(question_id=question.id, answer="yes") for question in questions}
    run = Run(
        id="run",
        agent="direct",
        benchmark="og",
        questions="set",
        count=6,
        epochs=1,
        fingerprint="f",
        identity={"models": {"model": "openai:judge" if own else "openai:other"}},
        created=1.0,
    )
    store.add_run(run, questions, golds)
    made = {"run": run.id, "epoch": 0}
    attempts = [Attempt(**made, question_id="og/0", status="failed", text="")]
    attempts += [Attempt(**made, question_id=f"og/{i}", status="completed", text=f"Answer {i}.") for i in range(1, 6)]
    store.add_attempts(run, attempts)
    judge = Scripted(
        lambda prompt, occurrence: "?" if "Answer 5." in prompt else '{"grade": "equivalent"}', name="openai:judge"
    )
    journal = StoreJournal(store)
    (graded,) = (await grade_runs(store, [run], Equivalence(tries=2), [judge], journal, PromptFolder())).runs
    (again,) = (await grade_runs(store, [run], Equivalence(tries=2), [judge], journal, PromptFolder())).runs
    journal.close()
    assert (graded.attempts, graded.missing, graded.calls, graded.same_model) == (6, 1, 6, own)
    assert graded.spent == graded.cold == pytest.approx(0.006)
    assert (again.spent, again.cold) == (0.0, pytest.approx(0.006))
    values = {score.question_id: score.value for score in store.scores(run, "equivalent")}
    assert values == {"og/0": 0.0, "og/1": 1.0, "og/2": 1.0, "og/3": 1.0, "og/4": 1.0, "og/5": None}
