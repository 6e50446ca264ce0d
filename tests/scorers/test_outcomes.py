"""One function decides how an attempt counts, and one legend says what that means."""

import itertools
from typing import get_args

import pytest

from ragrounds.base.records import FINAL, OPEN, OUTCOMES, WITHOUT_ANSWER, AnswerStatus, Status, blank, outcome
from ragrounds.evals.scorers import ready_scorers
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.trace.filter_fields import BOUNDED_MEASURES
from tests.scorers.making import attempt, gold, question

INVISIBLE = ["", " ", "\n\t ", "\u200b", "\ufeff", "\u00a0\u2003", "\x00", "\u200d \n"]


def test_every_status_and_answer_status_has_its_one_word():
    for status, read in itertools.product(get_args(Status), get_args(AnswerStatus)):
        assert outcome(status, read) == (read if status == "completed" else status)
    words = {outcome(status, read) for status in get_args(Status) for read in (*get_args(AnswerStatus), None)}
    assert words == set(OUTCOMES)


def test_every_word_is_explained_and_can_be_claimed():
    assert all(OUTCOMES.values())
    assert set(OUTCOMES) - {"answered", "not_run"} <= set(BOUNDED_MEASURES)


def test_statuses_are_open_final_or_without_an_answer():
    assert set(get_args(Status)) == OPEN | FINAL
    assert {"capped"} == OPEN & FINAL
    assert set(get_args(Status)) - WITHOUT_ANSWER == {"completed", "capped"}


@pytest.mark.parametrize("text", INVISIBLE)
def test_what_nobody_can_see_is_empty_under_every_scorer(text):
    assert blank(text)
    assert read_long(attempt(text)).status == "empty"
    for name, scorer in ready_scorers().items():
        if scorer.suits(question()):
            assert scorer.score(attempt(text), question(), gold()).answer_status == "empty", name


@pytest.mark.parametrize("text", [".", "B", "。", "0", "\u200bB"])
def test_what_can_be_seen_is_not_empty(text):
    assert not blank(text)
    assert read_long(attempt(text)).status != "empty"
