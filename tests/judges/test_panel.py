import pytest

from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Gold, Question
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.panel import UNDECIDED, as_panel, by_majority
from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from tests.judges.doubles import Scripted, judged

QUESTIONS = {f"q/{i}": Question(id=f"q/{i}", benchmark="q", text=f"{i}?", kind="long") for i in range(4)}
FACTS = (("one",), ("two",), ("three", "nice to have"))
GOLDS = {id: Gold(question_id=id, answer="yes", facts=FACTS) for id in QUESTIONS}
ATTEMPTS = [
    Attempt(run="r", question_id=id, epoch=0, status="completed" if i else "failed", text=f"Answer {i}." if i else "")
    for i, id in enumerate(QUESTIONS)
]


def judge(name, grades):
    """A judge that grades "Answer i." by grades[i - 1]; ``?`` is no verdict."""

    def say(prompt, occurrence):
        number = next(i for i in (1, 2, 3) if f"Answer {i}." in prompt)
        return f'{{"grade": "{grades[number - 1]}"}}'

    return Scripted(say, name=name)


async def panel(grader, judges, journal):
    as_panel(grader, judges)
    by_judge = [await judged(grader, ATTEMPTS, QUESTIONS, GOLDS, judge, journal) for judge in judges]
    return by_majority(grader, ATTEMPTS, GOLDS, by_judge)


async def test_the_majority_counts(journal):
    good, bad = "equivalent", "mismatch"
    judges = [judge("a", [good, bad, good]), judge("b", [good, bad, "?"]), judge("c", [bad, bad, bad])]
    made = await panel(LabelJudge(EQUIVALENCE, tries=1), judges, journal)
    assert [score.value for score in made.scores] == [0.0, 1.0, 0.0, None]
    assert made.scores[-1].reason == f"judge: {UNDECIDED}"
    assert (made.panel.judged, made.panel.undecided) == (3, 1)
    assert len(made.verdicts) == len(made.calls) == 9
    assert made.panel.kappa is not None
    assert made.panel.alpha is not None


async def test_a_majority_for_each_statement(journal):
    def say(name):
        def answer(prompt, occurrence):
            asked = prompt.partition("### Statements")[2]
            said = "entailment" if "one" in asked or (name == "a" and "two" in asked) else "neutral"
            return f'{{"s1": "{said}"}}'

        return Scripted(answer, name=name)

    made = await panel(LabelJudge(STATEMENT_METHOD), [say("a"), say("b"), say("c")], journal)
    comprehensive = [score.value for score in made.scores if score.scorer == "comprehensiveness"]
    assert comprehensive == [0.0, 0.5, 0.5, 0.5]
    assert (made.panel.judged, made.panel.undecided) == (9, 0)


@pytest.mark.parametrize("names", [[], ["a"], ["a", "a"]])
async def test_a_panel_is_two_or_more(journal, names):
    with pytest.raises(UserError, match="two or more different judges"):
        await panel(LabelJudge(EQUIVALENCE), [judge(name, ["equivalent"] * 3) for name in names], journal)
