"""Why there is no answer that can be read: each status with its reason, at the lengths where it changes."""

import pytest

from ragrounds.evals.scorers.answer_status import AnswerRead, abstains, failure, no_text, read_long, without_answer
from tests.rows import each_row
from tests.scorers.making import attempt

FILTERED = AnswerRead("refused", "", "the provider's content filter")
BROKEN = AnswerRead("unreadable", "", "an error was recorded in place of a reply")
DECLINED = AnswerRead("refused", "", "the model declined")
ABSTAINED = AnswerRead("abstained", "", "no option was chosen")
UNREADABLE = AnswerRead("unreadable", "", "no option can be read from the answer")


@pytest.mark.parametrize(
    ("status", "text", "reason", "read"),
    [
        ("not_run", "", "", AnswerRead("empty", "", "not run")),
        ("not_run", "B", "the budget", AnswerRead("empty", "", "the budget")),
        ("completed", "", "", AnswerRead("empty", "", "empty reply")),
        ("completed", " \n", "cut", AnswerRead("empty", "", "cut")),
        ("completed", "\u200b\ufeff\u00a0", "", AnswerRead("empty", "", "empty reply")),
        ("failed", "", "server", AnswerRead("empty", "", "server")),
        ("blocked", "", "", AnswerRead("empty", "", "empty reply")),
        ("blocked", "", "filter", AnswerRead("empty", "", "filter")),
        ("blocked", "B", "", None),
        ("completed", "B", "", None),
        ("failed", "B", "", None),
    ],
)
def test_attempts_without_a_text(status, text, reason, read):
    assert no_text(attempt(text, status, reason=reason)) == read


@pytest.mark.parametrize(
    ("text", "status", "read"),
    [
        ("", "blocked", AnswerRead("empty", "", "empty reply")),
        ("Give thiamine.", "completed", AnswerRead("answered")),
        ("Give thiamine.", "capped", AnswerRead("answered")),
        ("I'm sorry, but I can't help with that.", "completed", DECLINED),
        ("There is insufficient evidence.", "completed", ABSTAINED),
        ("Request timed out.", "completed", BROKEN),
    ],
)
def test_long_answers(text, status, read):
    assert read_long(attempt(text, status)) == read


def test_an_error_is_short():
    error = "Connection error."
    assert failure(error) == BROKEN
    assert failure(error + "x" * (1_000 - len(error))) == BROKEN
    assert failure(error + "x" * (1_001 - len(error))) is None
    assert failure("The content filter of the provider was asked.") == FILTERED
    assert failure(" 'choices'\n") == BROKEN
    assert failure("the 'choices'") is None
    assert failure("Give thiamine.") is None


@pytest.mark.parametrize(
    ("text", "candidate", "read"),
    [
        (" \n", "", AnswerRead("empty", "", "empty reply")),
        ('{"answer": ""}', "", AnswerRead("abstained", "", "the stated answer is empty")),
        ('{"answer": "[]"}', '"[].", 。', UNREADABLE),
        ('{"answer": "[]"}', '"[]."', AnswerRead("abstained", "", "the stated answer is empty")),
        ("Connection error.", " Connection error.", BROKEN),
        # What states an answer is no error, whatever the text around it.
        ("Connection error. The answer is E", "E", UNREADABLE),
        ("Connection error. The answer is none of them", "none of them", ABSTAINED),
        ("The answer is (I cannot help with that)", "(I cannot help with that)", DECLINED),
        ("N/A", "N/A", ABSTAINED),
        ("scurvy", "scurvy", UNREADABLE),
        ('{"answer": "X"}', "X", UNREADABLE),
    ],
)
def test_what_a_text_without_an_answer_is(text, candidate, read):
    assert without_answer(text, candidate) == read


def test_of_a_long_text_the_last_sentence_counts():
    unclear = "It cannot be determined from one option alone. "
    assert without_answer(unclear, unclear) == ABSTAINED
    plain = "The gums bleed, and the legs are weak too. "
    assert without_answer(plain * 9 + "x" + unclear, plain * 9 + unclear) == ABSTAINED
    assert without_answer(unclear + plain * 9, unclear + plain * 9) == UNREADABLE
    # At 300 characters all of it is the answer, at 301 the last sentence is.
    inside = unclear + plain * 5 + "a" * (300 - len(unclear) - 5 * len(plain))
    assert len(inside) == 300
    assert without_answer(inside, inside) == ABSTAINED
    assert without_answer(inside + "a", inside + "a") == UNREADABLE
    # A refusal at the beginning of a long text is one, and one at the end.
    declined = "I'm sorry, but I cannot help with that. "
    assert without_answer(declined + plain * 9, declined + plain * 9) == DECLINED
    assert without_answer(plain * 9 + declined, plain * 9 + declined) == DECLINED


@pytest.mark.parametrize("end", ["!", "?", "。", "！", "？", "\n", "."])
def test_sentences_end_with_marks_of_both_scripts_and_lines(end):
    text = "It is unclear" + end + " " + "The gums bleed" * 25
    assert without_answer(text, text) == UNREADABLE
    text = "The gums bleed" * 25 + end + " It is unclear"
    assert without_answer(text, text) == ABSTAINED


def test_of_a_last_sentence_the_end_counts():
    text = "unclear " + "x" * 400
    assert without_answer(text, text) == UNREADABLE
    text = "x " * 400 + "unclear"
    assert without_answer(text, text) == ABSTAINED
    text = "unclear" + "x" * 300  # not a word of its own
    assert without_answer(text, text) == UNREADABLE


@each_row(
    ("answer", "said"),
    [
        ("none of these", True), ("None.", True), ("no option is right", True), ("cannot be determined", True),
        ("unable to say", True), ("not enough information", True), ("no documents were provided", True),
        ("unknown", True), ("n/a", True), ("not specified", True), ("no definite answer", True), ("unclear", True),
        ("I don't know", True), ("以上都不对", True), ("信息不足", True), ("没有正确的选项", True),
        ("scurvy", False), ("a nonet of these", False), ("vitamin C", False), ("坏血病", False), ("", False),
    ],
)  # fmt: skip
def test_wordings_of_abstention(answer, said):
    assert abstains(answer) is said
