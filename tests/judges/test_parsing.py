import pytest

from ragrounds.evals.judges.verdict import BOTH, CUT, EMPTY, NOTHING, read_verdict
from ragrounds.evals.scorers.judged import VerdictForm

TWO = VerdictForm(("usefulness", "reasoning"), ("A", "B", "tie"))
ONE = VerdictForm(("usefulness",), ("A", "B", "tie"))
GRADE = VerdictForm(("grade",), ("Equivalent", "Mismatch"))


@pytest.mark.parametrize(
    "text",
    [
        '{"usefulness": "A", "reasoning": "tie"}',
        'A is fuller.\n```json\n{"usefulness": "A", "reasoning": "tie"}\n```',
        '{"USEFULNESS": "a", "Reasoning": "Draw"}',
        '{"usefulness": "Answer A", "reasoning": "[[tie]]"}',
        '{"verdict": {"usefulness": "A", "reasoning": "tie"}, "confidence": 0.9}',
        '{"usefulness": {"explanation": "longer", "winner": "A"}, "reasoning": {"verdict": "tie"}}',
        '{"usefulness": ["A"], "reasoning": "tie"}',
        "Usefulness: A\nReasoning: tie",
        "**Usefulness**: **A**\n**Reasoning**: tie.",
        '{"usefulness": "A", "reasoning": "tie"',  # cut just before its end
        '<think>{"usefulness": "B", "reasoning": "B"}</think>{"usefulness": "A", "reasoning": "tie"}',
    ],
)
def test_forms_of_the_same_verdict(text):
    read = read_verdict(text, TWO)
    assert read.values == {"usefulness": "A", "reasoning": "tie"}
    assert read.complete


def test_the_last_verdict_counts():
    text = 'It claims {"usefulness": "A", "reasoning": "A"}, but:\n{"usefulness": "B", "reasoning": "tie"}'
    assert read_verdict(text, TWO).values == {"usefulness": "B", "reasoning": "tie"}


def test_the_last_verdict_counts_without_json_too():
    assert read_verdict("Usefulness: A\nOn second thought:\nUsefulness: B", ONE).values == {"usefulness": "B"}


def test_a_verdict_in_words_counts_after_a_quoted_one():
    text = 'The answer says {"usefulness": "A"}, which is none of its business.\nUsefulness: B'
    assert read_verdict(text, ONE).values == {"usefulness": "B"}


def test_prose_after_the_verdict_changes_nothing():
    text = '{"usefulness": "A", "reasoning": "B"}\nReasoning: good.\nUsefulness: high'
    assert read_verdict(text, TWO).values == {"usefulness": "A", "reasoning": "B"}


def test_extra_keys_are_left_aside_and_told():
    read = read_verdict('{"usefulness": "A", "reasoning": "B", "confidence": 3, "note": "x"}', TWO)
    assert read.values == {"usefulness": "A", "reasoning": "B"}
    assert read.extra == ("confidence", "note")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", EMPTY),
        ("  \n", EMPTY),
        ("Both answers have their merits, and A more detailed one is hard to imagine.", NOTHING),
        ("usefulness: A more detailed answer", "not a verdict: 'A more detailed answer'"),
        ('{"usefulness": "both"}', BOTH),
        ('{"usefulness": "A and B"}', BOTH),
        ('{"usefulness": ["A", "B"]}', BOTH),
        ('{"usefulness": "C"}', "not a verdict: 'C'"),
        ('{"usefulness": 1}', "not a verdict: '1'"),
        ('{"usefulness": null}', "not a verdict: 'null'"),
        ('{"usefulness": ""}', NOTHING),
        ("{" * 5000, NOTHING),
        ('{"a":' * 2000, NOTHING),
        ('["A"]', NOTHING),
    ],
)
def test_what_is_no_verdict_is_not_guessed(text, reason):
    read = read_verdict(text, ONE)
    assert read.values == {}
    assert read.reasons == {"usefulness": reason}


def test_a_reply_cut_off_says_so():
    assert read_verdict("Let me compare the two answers. The first", ONE, "length").reasons == {"usefulness": CUT}


def test_one_axis_may_be_missing():
    read = read_verdict('{"usefulness": "A"}', TWO)
    assert read.values == {"usefulness": "A"}
    assert read.reasons == {"reasoning": NOTHING}
    assert not read.complete


def test_a_single_axis_may_be_called_the_winner():
    assert read_verdict('{"winner": "B"}', ONE).values == {"usefulness": "B"}
    assert read_verdict('{"winner": "B"}', TWO).values == {}


def test_grades_are_read_by_the_same_rules():
    assert read_verdict('Same action.\n{"grade": "equivalent"}', GRADE).values == {"grade": "Equivalent"}
    assert read_verdict("Grade: Mismatch", GRADE).values == {"grade": "Mismatch"}
    assert read_verdict('{"grade": "tie"}', GRADE).reasons == {"grade": "not a verdict: 'tie'"}


def test_unclosed_thinking_is_not_a_verdict():
    assert read_verdict('<think>I lean to {"usefulness": "A"}', ONE).reasons == {"usefulness": EMPTY}
