import pytest
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.evals.benchmarks.families.kqa import STATEMENTS
from ragrounds.evals.judges.attempts import LabelJudge, judges_itself
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from ragrounds.prompts.loader import PromptFolder
from tests.judges.doubles import Scripted

CASE = Question(id="og/1", benchmark="ogcarebench", text="What next?", kind="long")
REFERENCE = Gold(question_id="og/1", answer="methylene blue")
PATIENT = Question(id="kqa/0", benchmark="kqa", text="Is it safe?", kind="long", metadata={"facts": STATEMENTS})
FACTS = Gold(
    question_id="kqa/0", answer="Yes.", facts=(("it is safe",), ("it is cheap",), ("it is blue", "nice to have"))
)
PROMPTS = PromptFolder()


def attempt(question, text="An answer.", status="completed", epoch=0):
    return Attempt(run="r", question_id=question.id, epoch=epoch, status=status, text=text)


@pytest.mark.parametrize(("said", "value"), [("equivalent", 1.0), ("Mismatch", 0.0)])
async def test_equivalence(journal, said, value):
    judge = Scripted(lambda prompt, occurrence: f'The core is … {{"grade": "{said}"}}')
    grade = await LabelJudge(EQUIVALENCE).judge(attempt(CASE), CASE, REFERENCE, judge, journal, PROMPTS)
    (score,) = grade.scores
    assert (score.scorer, score.value, score.answer_status) == ("equivalent", value, "answered")
    assert [call.role for call in grade.calls] == ["judging"]
    assert grade.verdicts[0].outcome == said.casefold()
    prompt = judge.requests[0].messages[-1].content
    assert "methylene blue" in prompt
    assert "An answer." in prompt


async def test_chinese_questions_are_graded_in_chinese(journal):
    judge = Scripted(lambda prompt, occurrence: '结论相同。{"grade": "equivalent"}')
    chinese = replace(CASE, language="zh")
    grade = await LabelJudge(EQUIVALENCE).judge(
        attempt(chinese, "用美蓝。"), chinese, REFERENCE, judge, journal, PROMPTS
    )
    assert grade.scores[0].value == 1.0
    assert "### 待评回答" in judge.requests[0].messages[-1].content


@pytest.mark.parametrize("grader", [LabelJudge(EQUIVALENCE), LabelJudge(STATEMENT_METHOD)])
@pytest.mark.parametrize(("status", "value"), [("failed", 0.0), ("blocked", 0.0), ("not_run", None)])
async def test_no_answer_is_graded_without_a_judge(journal, grader, status, value):
    judge = Scripted(lambda prompt, occurrence: "{}")
    question, gold = (CASE, REFERENCE) if grader.method is EQUIVALENCE else (PATIENT, FACTS)
    grade = await grader.judge(attempt(question, "", status), question, gold, judge, journal, PROMPTS)
    assert not judge.requests
    assert [score.scorer for score in grade.scores] == list(grader.scorers)
    assert {score.value for score in grade.scores} == {value}


@pytest.mark.parametrize(
    ("judge", "candidate", "same"),
    [
        ("openai:gpt-4o[temperature=0]", "openai:GPT-4o", True),
        ("openai:gpt-4o", "azure:gpt-4o", True),
        ("openai:gpt-4o", "openai:gpt-4o-mini", False),
        ("baseline", "baseline[seed=1]", True),
    ],
)
def test_a_judge_of_its_own_answers_is_noticed(judge, candidate, same):
    assert judges_itself(judge, [candidate]) is same
