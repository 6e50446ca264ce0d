"""A system in ragrounds' own process: conversion between ragrounds' records and the recorder's plain values."""

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
from ragrounds.recorder.observer import Form, SystemAnswer


class InProcessSystem:
    """A system that was opened in this process (contract: :class:`ragrounds.base.contracts.System`)."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.kind, self.takes_context, self.wrapped = form.kind, form.takes_context, form.wrapped

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Answer a question.

        Raises:
            UserError: the system is created for each attempt, and this time it has no known form.
            AskedPerson: it stopped to ask a person, and no answer is configured.
        """
        with refusals():
            return answer_of(await self.form.answer({**to_recorder_question(question), "item": question}, seen))


def adapted(candidate: object, wiring: Wiring) -> System:
    """Return the system of an object, or of the result of a function that creates one.

    Raises:
        UserError: it has no known form, the wiring does not fit it, or it could not be created.
    """
    if isinstance(candidate, System) and not isinstance(candidate, type):
        return candidate
    with refusals():
        return InProcessSystem(forms.adapted(candidate, wiring))


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Convert refusals of the recorder in the block into errors of the user.

    Raises:
        UserError: the recorder refused something.
    """
    try:
        yield
    except Refused as refused:
        if isinstance(refused, UserError):
            raise
        raise UserError(str(refused)) from refused


def to_recorder_question(question: Question) -> dict[str, object]:
    """Return a question in the form of the recorder."""
    return {
        "id": question.id,
        "text": question.text,
        "options": dict(question.options),
        "language": question.language,
    }


def passages_of(recorded: Sequence[Mapping[str, object]]) -> tuple[Passage, ...]:
    """Convert the recorder's passages.

    Raises:
        msgspec.ValidationError: a passage has another form.
    """
    return tuple(msgspec.convert({"corpus": "", **passage}, Passage) for passage in recorded)


def answer_of(answer: SystemAnswer) -> Answer:
    """Convert the recorder's answer.

    Raises:
        msgspec.ValidationError: it has another form.
    """
    passages = passages_of(answer.passages) if answer.passages else ()
    return Answer(text=answer.text, choice=answer.choice, passages=passages)
