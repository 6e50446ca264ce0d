"""Long answers: facts and ROUGE-L at their edges."""

import tracemalloc

import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.records import Message
from ragrounds.base.text import words
from ragrounds.evals.scorers.facts import FACTS, AnswerText
from ragrounds.evals.scorers.rouge_l import ROUGE_L, rouge_l
from ragrounds.models.extractive import ExtractiveBaseline
from tests.rows import each_row
from tests.scorers.making import attempt, gold, question

LONG = question({}, kind="long")


def facts(text, *wordings, status="completed", **metadata):
    asked = question({}, kind="long", metadata=metadata)
    made = FACTS.score(attempt(text, status), asked, gold("", facts=wordings))
    return made.value, made.prediction, made.answer_status, made.reason


def test_facts_by_hand():
    wanted = (("thiamine", "vitamin B1"), ("glucose",), ("rest",))
    assert facts("Vitamin-B1.", *wanted) == (pytest.approx(1 / 3), "1/3", "answered", "missing: glucose; rest")
    assert facts("Glucose, thiamine, rest.", *wanted) == (1.0, "3/3", "answered", "")
    assert facts("Something else.", *wanted) == (0.0, "0/3", "answered", "missing: thiamine; glucose; rest")
    # A refusal is one only where none of the facts is there.
    refused = "I'm sorry, but I can't help with that."
    assert facts(refused, *wanted) == (0.0, "0/3", "refused", "the model declined")
    assert facts(f"{refused} Thiamine.", *wanted)[:3] == (pytest.approx(1 / 3), "1/3", "answered")
    assert facts("", *wanted, status="failed") == (0.0, "0/3", "empty", "empty reply")
    assert facts("Rest.", *wanted, status="not_run") == (None, "1/3", "empty", "not run")
    none = (None, "", "answered", "the question lists no facts as wordings")
    assert facts("Rest.") == none
    assert facts("Rest.", ("rest",), facts="statements") == none
    assert facts("Rest.", ("rest",), facts="wordings") == (1.0, "1/1", "answered", "")


async def test_the_baseline_without_passages_abstains():
    """It knows nothing by itself and says so: that is no answer."""
    asked = Request(messages=(Message("user", "Answer.\n\n### Question\nWhat treats beriberi?"),))
    said = (await ExtractiveBaseline().complete(asked, [])).text
    assert facts(said, ("thiamine",))[:3:2] == (0.0, "abstained")


@pytest.mark.parametrize(
    "text", ["No documents were provided.", "no relevant passage was found", "No sources available"]
)
def test_what_was_not_given_is_no_answer(text):
    assert facts(text, ("thiamine",))[2] == ("abstained" if "avail" not in text else "answered")
    assert facts(f"{text} Thiamine treats it.", ("thiamine",))[2] == "answered"


def test_facts_are_for_long_questions_with_wordings():
    assert FACTS.default(LONG)
    assert not FACTS.default(question({}, kind="long", metadata={"facts": "statements"}))
    assert not FACTS.default(question())


@each_row(
    ("text", "wordings", "there"),
    [
        ("rest", (" ", "rest"), True),
        ("rest", (" ",), False),
        ("rest", (), False),
        ("unrest", ("rest",), False),
        ("rests", ("rest",), False),
        ("_rest_", ("rest",), True),  # emphasis is no letter
        ("2rest", ("rest",), False),
        ("rest2", ("rest",), False),
        ("x(5)", ("(5)",), True),
        ("x(5)y", ("(5)",), True),
        ("a.b", ("a.b",), True),
        ("axb", ("a.b",), False),
        ("x鿿y", ("鿿",), True),  # the last of its block
        ("part.i.d", ("t.i.d",), False),
        ("t.i.date", ("t.i.d",), False),
        ("他应休息了", ("休息",), True),
        ("β\u2010blocker", ("β blocker",), True),
        ("β\u2212blocker", ("β-blocker",), True),
        ("ＲＥＳＴ", ("rest",), True),
        ("GROß", ("gross",), True),
        ("a beta\nblocker", ("Beta‑blocker",), True),
        ("rash (itchy)", ("itchy",), True),
        ("IL-6 rises", ("IL-6",), True),
        ("IL-61", ("IL-6",), False),
    ],
)
def test_wordings_as_whole_words(text, wordings, there):
    assert AnswerText(text).contains(wordings) is there


def test_rouge_by_hand():
    # a c of "a b c" and "a c d e": F1 = 2 · 2 / (3 + 4).
    assert rouge_l("a b c", "a c d e") == pytest.approx(4 / 7)
    assert rouge_l("b a", "a b") == 0.5
    assert rouge_l("x", "y") == rouge_l("?", "!") == 0.0
    assert rouge_l("A, a!", "a") == pytest.approx(2 / 3)
    assert words("维生素B1 缺乏") == ["维", "生", "素", "b1", "缺", "乏"]
    assert words("Vitamin_C's ひらがな漢字") == ["vitamin_c", "s", "ひ", "ら", "が", "な", "漢", "字"]
    assert rouge_l("x " * 4_001, "x " * 4_000) == 1.0  # no more words are compared


def test_a_score_by_wording():
    def brief(text, reference, status="completed"):
        made = ROUGE_L.score(attempt(text, status), LONG, gold(reference))
        return made.scorer, made.value, made.answer_status, made.reason

    assert brief("a b", "b") == ("rouge-l", pytest.approx(2 / 3), "answered", "")
    assert brief("a b", " ") == ("rouge-l", None, "answered", "the question has no reference answer")
    assert brief("a b", "b", "not_run") == ("rouge-l", None, "empty", "not run")
    assert brief("", "b", "failed") == ("rouge-l", 0.0, "empty", "empty reply")


@pytest.mark.parametrize("scorer", [FACTS, ROUGE_L])
def test_a_long_answer_is_scored_in_a_small_multiple_of_its_size(scorer):
    text, asked = "The answer word is " * 10_000, gold("a reference", facts=(("not in it",), ("nor 5 mg",)))
    scorer.score(attempt("5 mg"), LONG, asked)  # what is compiled once
    tracemalloc.start()
    try:
        assert scorer.score(attempt(text), LONG, asked).value == 0.0
        assert tracemalloc.get_traced_memory()[1] < 9 * len(text), "a list of all words is 14 times its size"
    finally:
        tracemalloc.stop()
