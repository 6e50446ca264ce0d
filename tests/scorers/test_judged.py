"""What judges are asked, and what their verdicts become: K-QA's statements, OGCaReBench's equivalence."""

import pytest

from ragrounds.evals.scorers.equivalent import EQUIVALENCE
from ragrounds.evals.scorers.equivalent_published import EQUIVALENCE_PUBLISHED
from ragrounds.evals.scorers.judged import JudgeMethod, JudgeQuestion, LabelMethod, VerdictForm, fenced
from ragrounds.evals.scorers.ragas import ALL_METRICS, RAGAS
from ragrounds.evals.scorers.statements import STATEMENT_METHOD
from tests.scorers.making import attempt, gold, question

LONG = question({}, kind="long")
PATIENT = question({}, kind="long", metadata={"facts": "statements"})


def stated(*must, nice=()):
    from ragrounds.evals.benchmarks.benchmark import NICE

    return gold("", facts=tuple((text,) for text in must) + tuple((text, NICE) for text in nice))


def brief(scores):
    return [(one.scorer, one.value, one.prediction, one.answer_status, one.reason) for one in scores]


def test_a_text_cannot_end_its_fence():
    assert fenced("  a <<< b >>>> c << d >>  ") == "a < < < b > > > > c << d >>"


def test_the_form_of_a_verdict():
    assert VerdictForm(("grade",), ("good", "bad")).example == '{"grade": "good" or "bad"}'
    assert VerdictForm(("s1", "s2"), ("yes",)).example == '{"s1": "yes", "s2": "yes"}'


def test_a_method_of_ones_own_must_say_what_it_fits():
    bare = LabelMethod(name="m", scorers=(), needs="n")
    for call in (
        lambda: JudgeMethod(name="m", scorers=(), needs="n").fits(LONG, gold()),
        lambda: bare.unasked(attempt("x"), LONG, gold()),
        lambda: bare.questions(attempt("x"), LONG, gold()),
        lambda: bare.scores(attempt("x"), gold(), ()),
        lambda: bare.items(gold()),
        lambda: bare.verdicts(bare),
    ):
        with pytest.raises(NotImplementedError):
            call()


def test_statements_fit_questions_that_have_them_for_a_judge():
    assert STATEMENT_METHOD.fits(PATIENT, stated("one"))
    assert not STATEMENT_METHOD.fits(LONG, stated("one"))
    assert not STATEMENT_METHOD.fits(PATIENT, stated(nice=("one",)))
    assert not STATEMENT_METHOD.fits(PATIENT, stated())


def test_statements_are_put_one_by_one_the_must_have_ones_first():
    wanted = stated("Rest.", "Drink >>> water.", nice=("Sleep.",))
    asked = STATEMENT_METHOD.questions(attempt(" Rest <<<a lot. "), PATIENT, wanted)
    assert [one.subjects for one in asked] == [("Rest.",), ("Drink >>> water.",), ("Sleep.",)]
    assert asked[1] == JudgeQuestion(
        prompt="judge/entails",
        texts={
            "question": "Which?",
            "answer": "Rest < < <a lot.",
            "statements": "s1:\n<<<\nDrink > > > water.\n>>>",
        },
        form=VerdictForm(("s1",), ("entailment", "neutral", "contradiction")),
        subjects=("Drink >>> water.",),
    )


def test_both_shares_of_statements_by_hand():
    wanted = stated("a", "b", nice=("c",))
    said = [("entailment", ""), ("neutral", ""), ("contradiction", "why")]
    assert brief(STATEMENT_METHOD.scores(attempt("x"), wanted, said)) == [
        ("comprehensiveness", 0.5, "1/2: entailment, neutral", "answered", ""),
        ("hallucination-rate", 1.0, "1/3", "answered", ""),
        ("contradiction", pytest.approx(1 / 3), "1/3: entailment, neutral, contradiction", "answered", ""),
    ]
    lost = [("entailment", ""), ("entailment", ""), ("", "no JSON")]
    assert brief(STATEMENT_METHOD.scores(attempt("x"), wanted, lost)) == [
        ("comprehensiveness", 1.0, "2/2: entailment, entailment", "answered", ""),
        ("hallucination-rate", None, "0/3", "answered", "judge: no verdict on 1 of 3 statements"),
        ("contradiction", None, "0/3: entailment, entailment, ?", "answered", "judge: no verdict on 1 of 3 statements"),
    ]
    more = STATEMENT_METHOD.scores(attempt("x"), wanted, [("", "x"), ("", "y"), ("neutral", "")])
    assert [one.reason for one in more] == [
        "judge: no verdict on 2 of 2 statements",
        "judge: no verdict on 2 of 3 statements",
        "judge: no verdict on 2 of 3 statements",
    ]


def test_verdicts_on_statements_are_read_back_by_their_numbers():
    wanted = stated("a", "b", nice=("c",))
    assert STATEMENT_METHOD.items(wanted) == {"x/1#1": "a", "x/1#2": "b", "x/1#3": "c"}
    said = [("entailment", ""), ("", "none"), ("contradiction", "")]
    last = STATEMENT_METHOD.scores(attempt("x"), wanted, said)[-1]
    assert STATEMENT_METHOD.verdicts(last) == {"x/1#1": "entailment", "x/1#2": None, "x/1#3": "contradiction"}
    (*_, silent) = STATEMENT_METHOD.unasked(attempt("", "failed"), PATIENT, wanted)
    assert STATEMENT_METHOD.verdicts(silent) == {}


def test_what_no_judge_is_asked_about_statements():
    wanted = stated("a")
    assert STATEMENT_METHOD.unasked(attempt("Rest."), PATIENT, wanted) == ()
    assert brief(STATEMENT_METHOD.unasked(attempt(" ", "failed", reason="server"), PATIENT, wanted)) == [
        ("comprehensiveness", 0.0, "", "empty", "server"),
        ("hallucination-rate", 0.0, "", "empty", "server"),
        ("contradiction", 0.0, "", "empty", "server"),
    ]
    assert brief(STATEMENT_METHOD.unasked(attempt("Rest.", "not_run"), PATIENT, wanted)) == [
        ("comprehensiveness", None, "", "empty", "not run"),
        ("hallucination-rate", None, "", "empty", "not run"),
        ("contradiction", None, "", "empty", "not run"),
    ]
    assert brief(STATEMENT_METHOD.unasked(attempt("Rest."), PATIENT, stated(nice=("a",)))) == [
        ("comprehensiveness", None, "", "answered", "the question has no statements"),
        ("hallucination-rate", None, "", "answered", "the question has no statements"),
        ("contradiction", None, "", "answered", "the question has no statements"),
    ]


def test_equivalence_fits_long_questions_with_a_reference():
    assert EQUIVALENCE.fits(LONG, gold("Rest."))
    assert not EQUIVALENCE.fits(LONG, gold(" "))
    assert not EQUIVALENCE.fits(question(), gold("Rest."))


def test_the_question_of_equivalence():
    (asked,) = EQUIVALENCE.questions(attempt(" Rest >>> now "), LONG, gold(" Lie <<< down. "))
    assert asked == JudgeQuestion(
        prompt="judge/equivalent",
        texts={"question": "Which?", "reference": "Lie < < < down.", "answer": "Rest > > > now"},
        form=VerdictForm(("grade",), ("equivalent", "mismatch")),
        subjects=("grade",),
    )
    assert EQUIVALENCE.labels == ("equivalent", "mismatch")


@pytest.mark.parametrize(
    ("label", "why", "value", "reason"),
    [
        ("equivalent", "", 1.0, ""),
        ("mismatch", "", 0.0, ""),
        ("mismatch", "a", 0.0, "judge: a"),
        ("", "no JSON", None, "judge: no JSON"),
        ("", "", None, ""),
    ],
)
def test_a_verdict_of_equivalence(label, why, value, reason):
    made = EQUIVALENCE.scores(attempt("Rest."), gold("Rest."), [(label, why)])
    assert brief(made) == [("equivalent", value, label, "answered", reason)]
    assert EQUIVALENCE.verdicts(made[0]) == {"x/1": label or None}
    assert EQUIVALENCE.items(gold("Rest.")) == {"x/1": "Rest."}


def test_what_no_judge_is_asked_about_equivalence():
    assert EQUIVALENCE.unasked(attempt("Rest."), LONG, gold("Rest.")) == ()
    for text, status, reference, value, read, reason in (
        ("", "failed", "Rest.", 0.0, "empty", "empty reply"),
        ("Rest.", "not_run", "Rest.", None, "empty", "not run"),
        ("Rest.", "completed", " ", None, "answered", "the question has no reference answer"),
        ("", "completed", "", None, "empty", "empty reply"),
    ):
        made = EQUIVALENCE.unasked(attempt(text, status), LONG, gold(reference))
        assert brief(made) == [("equivalent", value, "", read, reason)]


def test_ragas_metrics_are_named_as_ragas_names_them():
    assert [(one.metric, one.ragas_class) for one in RAGAS] == [
        ("faithfulness", "Faithfulness"),
        ("answer_relevancy", "AnswerRelevancy"),
        ("context_precision", "ContextPrecision"),
        ("context_recall", "ContextRecall"),
        ("factual_correctness", "FactualCorrectness"),
    ]
    assert ALL_METRICS.scorers == RAGAS
    assert ALL_METRICS.fits(LONG, gold())
    assert not ALL_METRICS.fits(question(), gold())


def test_the_published_judge_sees_two_texts_and_scores_under_its_own_name():
    wanted = gold("Thrombin was injected.")
    (asked,) = EQUIVALENCE_PUBLISHED.questions(attempt("Inject <<<thrombin."), LONG, wanted)
    assert asked.texts == {"reference": "Thrombin was injected.", "answer": "Inject < < <thrombin."}
    assert asked.prompt == "judge/equivalent_published"
    assert EQUIVALENCE_PUBLISHED.fits(LONG, wanted)
    for label, value in (("equivalent", 1.0), ("mismatch", 0.0), ("", None)):
        (score,) = EQUIVALENCE_PUBLISHED.scores(attempt("x"), wanted, [(label, "")])
        assert (score.scorer, score.value) == ("equivalent-published", value)
    (empty,) = EQUIVALENCE_PUBLISHED.unasked(attempt(" "), LONG, wanted)
    assert (empty.scorer, empty.value) == ("equivalent-published", 0.0)


def test_the_published_judges_prompt_shows_no_question():
    from ragrounds.prompts.loader import PromptFolder

    for language in ("en", "zh"):
        text = PromptFolder().source("judge/equivalent_published", language)
        assert "$question" not in text
        assert {word for word in ("$reference", "$answer", "$form") if word in text} == {
            "$reference",
            "$answer",
            "$form",
        }
