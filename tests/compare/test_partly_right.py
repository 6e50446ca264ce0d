"""Scores that can be partly right: epochs of them are no outcomes that are right or wrong."""

from __future__ import annotations

import pytest

from ragrounds.base.records import Question
from ragrounds.evals.compare.figures import figure, paired
from ragrounds.evals.scorers import described

ASKED = [Question(id=f"q{i}", benchmark="b", text=f"{i}?", kind="long") for i in range(18)]
HALVES = {question.id: (0.5, 1.0, 0.75)[i % 3] for i, question in enumerate(ASKED)}
NONE = {question.id: 0.0 for question in ASKED}


@pytest.mark.parametrize("epochs", [2, 4, 12])
def test_the_same_answers_in_every_epoch_make_no_interval_that_one_epoch_has_not(epochs: int) -> None:
    facts = described("facts")
    once, again = (figure(ASKED, HALVES, {}, 0, facts, many) for many in (1, epochs))
    assert (once.low, once.high) == (again.low, again.high) == (None, None)
    pair_once, pair_again = (paired(ASKED, NONE, HALVES, 0, facts, many) for many in (1, epochs))
    assert (pair_once.low, pair_once.high) == (pair_again.low, pair_again.high)


def test_epochs_of_right_or_wrong_answers_still_narrow_the_interval() -> None:
    robust, shares = described("robust"), {question.id: 0.5 for question in ASKED}
    few, many = (figure(ASKED, shares, {}, 0, robust, epochs) for epochs in (2, 12))
    assert few.low is not None
    assert many.low is not None
    assert many.low > few.low
