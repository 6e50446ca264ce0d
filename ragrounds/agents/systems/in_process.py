"""A system in our own process: the recorder's forms of it, between our records and their plain values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ragrounds.base.contracts import Observation, System
from ragrounds.base.errors import UserError
from ragrounds.base.records import Answer, Passage, Question
from ragrounds.recorder import forms
from ragrounds.recorder.answers import Wiring
from ragrounds.recorder.errors import Refused
from ragrounds.recorder.observer import Form, Given


class InProcessSystem:
    """A system that was opened here (contract: :class:`ragrounds.base.contracts.System`)."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.kind, self.takes_context, self.made = form.kind, form.takes_context, form.made

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Have it answer.

        Raises:
            UserError: it is made for each attempt, and this time it is of no known form.
            AskedPerson: it stopped to ask a person, and nobody was named to answer.
        """
        with refusals():
            return answer_of(await self.form.answer({**asked(question), "item": question}, seen))


def adapted(found: object, wiring: Wiring) -> System:
    """The system that an object is, or that the function makes which it is.

    Raises:
        UserError: it is of no known form, or what the wiring says does not fit it; or it could not be made.
    """
    if isinstance(found, System) and not isinstance(found, type):
        return found
    with refusals():
        return InProcessSystem(forms.adapted(found, wiring))


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """What the recorder refuses in the block is the user's error.

    Raises:
        UserError: it refused something.
    """
    try:
        yield
    except Refused as refused:
        if isinstance(refused, UserError):
            raise
        raise UserError(str(refused)) from refused


def asked(question: Question) -> dict[str, object]:
    """What the recorder is told of a question."""
    return {
        "id": question.id,
        "text": question.text,
        "options": dict(question.options),
        "language": question.language,
    }


def passages_of(given: Sequence[Mapping[str, object]]) -> tuple[Passage, ...]:
    """Passages that the recorder tells of.

    Raises:
        msgspec.ValidationError: one has another form.
    """
    return tuple(msgspec.convert({"corpus": "", **one}, Passage) for one in given)


def answer_of(given: Given) -> Answer:
    """The answer that the recorder gives.

    Raises:
        msgspec.ValidationError: it has another form.
    """
    passages = passages_of(given.passages) if given.passages else ()
    return Answer(text=given.text, choice=given.choice, passages=passages)
