import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragrounds.evals.scorers import find_scorer, ready_scorers, scorers_for
from tests.rows import each_row
from tests.scorers.making import FOUR, attempt, gold, question, shipped


def said(answer):
    return f'{{"step_by_step_thinking": "…", "answer_choice": "{answer}"}}'


THREE = {"A": "yes", "B": "no", "C": "maybe"}
CHOICE_SCORERS = ("mirage", "strict", "robust")
FILTERED = "The response was filtered due to the prompt triggering the provider's content management policy."


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        (said("B"), "B"),
        (said("B. Scurvy"), "B"),
        (said("B or C"), "B"),
        (said("A/B"), "A"),
        ("Option C", "C"),
        ("It is: D", "D"),
        ("first A, then the answer_choice", ""),
        (said("E"), ""),
        (said("b"), ""),
        (said("None"), ""),
    ],
)
def test_published_patterns(answer, letter):
    strict = find_scorer("strict").score(attempt(answer), question(), gold("B"))
    published = find_scorer("mirage").score(attempt(answer), question(), gold("B"))
    assert strict.prediction == letter
    assert published.prediction == (letter or "A")
    assert strict.value == published.value == float(letter == "B")
    assert strict.answer_status == published.answer_status


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: OPTION C IS RIGHT", "C"),
        ('B"', "B"),
        ("B: scurvy", "B"),
        ("option A. Answer: option B", "B"),
        ("B", "A"),
        ("none", "A"),
    ],
)
def test_pmc_llama_has_patterns_of_its_own(text, letter):
    assert find_scorer("mirage-pmc-llama").score(attempt(text), question(), gold("B")).prediction == letter


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (said("Cannot be determined"), "abstained"),
        (said("Not listed among the given options"), "abstained"),
        (said("E. Not enough information"), "abstained"),
        (said(""), "abstained"),
        (said("N/A"), "abstained"),
        (said("无法确定"), "abstained"),
        (FILTERED, "refused"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("抱歉，我无法提供医疗建议。", "refused"),
        ("Connection error.", "unreadable"),
        ("Error code: 429 - rate limit reached", "unreadable"),
        ("'content'", "unreadable"),
        (said("Epineurium"), "unreadable"),
        (said("E"), "unreadable"),
    ],
)
def test_readings_are_told_apart_and_only_mirage_credits_them(text, reading):
    scores = [find_scorer(name).score(attempt(text), question(THREE), gold("A")) for name in CHOICE_SCORERS]
    read = [(score.answer_status, score.value, score.prediction) for score in scores]
    assert read == [(reading, 1.0, "A"), (reading, 0.0, ""), (reading, 0.0, "")]
    assert [score.scorer for score in scores if not score.reason] == []


@pytest.mark.parametrize("scorer", CHOICE_SCORERS)
@pytest.mark.parametrize("status", ["failed", "blocked", "capped"])
def test_no_text_is_wrong_whatever_the_gold(scorer, status):
    score = find_scorer(scorer).score(attempt("", status, reason="no choices"), question(), gold("A"))
    assert (score.value, score.prediction) == (0.0, "")
    assert score.answer_status == "empty"
    assert score.reason == "no choices"


def score_by_all(tried):
    """Score one attempt by every scorer that needs no model."""
    fact = gold("A", facts=(("x",),))
    return {name: find_scorer(name).score(tried, question(), fact) for name in ready_scorers()}


def test_what_was_not_run_is_missing():
    scores = score_by_all(attempt("", "not_run"))
    found = {name: (score.value, score.answer_status) for name, score in scores.items()}
    assert found == dict.fromkeys(ready_scorers(), (None, "empty"))


@each_row(
    ("text", "letter"),
    [
        (said("B. Scurvy"), "B"),
        (said("Scurvy"), "B"),
        (said("None of the above"), "D"),
        (said("C. Vitamin A deficiency"), "C"),
        ("{'answer': 'C'}", "C"),
        ('{"thinking": "…", "answer_choice": B}', "B"),
        ('{"answer": "B", "why": "cut o', "B"),
        ('{"answer": "B', "B"),
        ("The answer is (B).", "B"),
        ("**Answer: B**", "B"),
        ("At first the answer is A. No: the correct answer is B, because of the gums.", "B"),
        ("So the most likely answer is B because the gums bleed. This choice is well supported.", "B"),
        ("<think>the answer is A</think>\nB", "B"),
        ("答案是Ｂ。", "B"),
        ("正确答案：B", "B"),
        ("因此选B", "B"),
        ("本题应选择Ｂ选项。", "B"),
        ("选项B正确。", "B"),
        ("B是正确答案。", "B"),
        ("故答案为（B）坏血病。", "B"),
        ("答案应该是：B。坏血病", "B"),
        ('{"答案": "Ｂ"}', "B"),
        ("This choice is well supported.\n\nB", "B"),
        ("The answer is not among them, so no option fits.\nB", ""),
        ("选A或B", ""),
        ("Reasoning first.\n\nB) Scurvy", "B"),
        ("Option B is right.", "B"),
        (said("A. Rickets and B. Scurvy"), ""),
        ("A patient with bleeding gums", ""),
        ("Option A is incorrect.", ""),
    ],
)
def test_robust(text, letter):
    score = find_scorer("robust").score(attempt(text), question(), gold("B"))
    assert score.prediction == letter
    assert score.value == float(letter == "B")


@pytest.mark.parametrize(
    ("text", "letter"), [("Yes.", "A"), ("No, it does not.", "B"), ("maybe", "C"), ("No definite answer", "")]
)
def test_robust_reads_words(text, letter):
    assert find_scorer("robust").score(attempt(text), question(THREE), gold("A")).prediction == letter


def test_numbered_options():
    options = {str(number): f"relation {number}" for number in range(1, 31)}
    asked = question(options)
    assert names(asked) == ("robust",)
    for text in ("12", "The answer is 12.", "relation 12", said("12"), "12. relation 12"):
        assert find_scorer("robust").score(attempt(text), asked, gold("12")).value == 1.0
    assert find_scorer("robust").score(attempt("2"), asked, gold("12")).value == 0.0


def names(asked):
    return shipped(made.name for made in scorers_for(asked))


def test_scorers_for():
    assert names(question()) == ("robust", "strict", "mirage")
    published = question(benchmark="mirage/medqa")
    assert names(published) == ("mirage", "strict", "robust")
    assert names(question({}, kind="long")) == ("facts", "rouge-l")
    assert names(question({}, kind="extraction")) == ("triplets",)
    linked = question(FOUR, benchmark="link/umls")
    assert names(linked) == ("robust", "strict")
    asked = question({}, kind="long", metadata={"facts": "statements"})
    assert names(asked) == ("rouge-l",)


@given(
    st.text(), st.sampled_from(sorted(ready_scorers())), st.sampled_from(["completed", "failed", "blocked", "capped"])
)
def test_any_text_gets_a_score(text, scorer, status):
    score = find_scorer(scorer).score(attempt(text, status), question(), gold("A", facts=(("x",),)))
    assert score.value is not None
    if find_scorer(scorer).unit == "percent":
        assert 0.0 <= score.value <= 1.0
    if scorer in ("strict", "robust"):
        assert (score.answer_status == "answered") == (score.prediction != "")


HOSTILE = [
    "A", "answer is ", "answer ", "(", "{", "\\boxed{", "\\boxed{ ", "<think>", "<answer>", "most ", ": ", "a.",
    '{"answer": "', "'answer': '", "option B or ", "[", '"answer":[', "1 ", "。", "I cannot ", "x/", "A,", "not ",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_long_hostile_texts_take_no_time(text):
    # A search that goes back to the beginning at every place takes more than a second of this length alone.
    long = text * (40_000 // len(text)) + " " * 20_000 + "x"
    seconds = {}
    for name in ready_scorers():
        before = time.process_time()
        find_scorer(name).score(attempt(long), question(), gold("A", facts=(("x",),)))
        seconds[name] = time.process_time() - before
    assert {name for name, used in seconds.items() if used >= 1} == set()


@pytest.mark.parametrize("scorer", CHOICE_SCORERS)
def test_a_letter_that_the_system_gives_apart_counts_and_no_other_text(scorer):
    score = find_scorer(scorer).score
    for text in ("", "I think it is A.", "Who knows."):
        made = score(attempt(text, choice="B"), question(), gold("B"))
        assert (made.value, made.prediction, made.answer_status) == (1.0, "B", "answered")
    assert score(attempt("x", choice=" b "), question(), gold("B")).prediction == "B"
    assert score(attempt("B", choice="K"), question(), gold("B")).prediction == "B"  # no option: the text is read
    assert score(attempt("", status="not_run", choice="B"), question(), gold("B")).value is None
