"""The reading of long answers, which every scorer for them shares."""

from __future__ import annotations

from ragrounds.evals.scorers.choices import no_text
from ragrounds.evals.scorers.readings import Read, without_answer
from ragrounds.records import Attempt


def read_long(attempt: Attempt) -> Read:
    """What refuses, abstains or failed as a whole is told apart; every other text is an answer."""
    read = no_text(attempt)
    if read is not None:
        return read
    read = without_answer(attempt.text, attempt.text)
    return Read("answered") if read.answer_status == "unreadable" else read
