"""Multiple choice: four scorers, each a scorer value.

* ``mirage``: exactly as published with MIRAGE. What none of its patterns matches counts as "A".
* ``strict``: the same patterns without that: what none matches is wrong.
* ``mirage-pmc-llama``: as published for PMC-LLaMA, whose completions have patterns of their own, "A" for the rest too.
* ``robust``: reads what a careful person would read: broken JSON, "the answer is (B)", full-width letters, the option's
  text in place of its letter; several options, or none, is wrong.

Every question counts. An attempt without any text is wrong under all of them: the published evaluation, too, takes
an empty list of replies as wrong. An attempt that was never begun has no value.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from ragrounds.evals.scorers import published, robust
from ragrounds.evals.scorers.readings import Read, without_answer
from ragrounds.records import Attempt, Gold, Question, Score


class Choice(Struct, frozen=True):
    """A scorer of multiple-choice answers: right 1.0, anything else 0.0."""

    scorer: str
    read: Callable[[str, Question], Read]
    otherwise: str = ""
    """The letter that stands where a text was received but no answer could be read from it."""

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Score by the attempt's final text alone; its status matters only where there is no text."""
        read = no_text(attempt) or self.read(attempt.text, question)
        prediction = read.prediction
        if not prediction and (attempt.text.strip() or attempt.status == "completed"):
            prediction = self.otherwise
        not_run = attempt.status == "not_run"
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=self.scorer,
            value=None if not_run else float(prediction == gold.answer and prediction != ""),
            answer_status=read.answer_status,
            prediction=prediction,
            reason=read.reason,
        )


def no_text(attempt: Attempt) -> Read | None:
    """The reading of an attempt that has no text at all; ``None`` where it has."""
    if attempt.status == "not_run":
        return Read("empty", reason=attempt.reason or "not run")
    if attempt.text.strip():
        return None
    return Read("refused" if attempt.status == "blocked" else "empty", reason=attempt.reason or "empty reply")


def read_published(text: str, question: Question) -> Read:
    """The published patterns; what they do not match is told apart by its wording."""
    letter = published.letter(text, tuple(question.options))
    return _read(letter, text, published.stated(text), question)


def read_completion(text: str, question: Question) -> Read:
    """The patterns published for PMC-LLaMA."""
    letter = published.completion_letter(text, tuple(question.options))
    return _read(letter, text, published.completion(text), question)


def _read(letter: str, text: str, candidate: str, question: Question) -> Read:
    if letter:
        return Read("answered", letter)
    if robust.by_text(candidate, question):
        return Read("unreadable", reason="the option's text in place of its letter")
    return without_answer(text, candidate)


MIRAGE = Choice("mirage", read_published, otherwise="A")
MIRAGE_PMC_LLAMA = Choice("mirage-pmc-llama", read_completion, otherwise="A")
STRICT = Choice("strict", read_published)
ROBUST = Choice("robust", robust.read)
