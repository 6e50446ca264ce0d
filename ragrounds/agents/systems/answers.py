"""What a system is given of a question, and what is read of what it gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from ragrounds.errors import UserError, nearest
from ragrounds.graphs.answer_prompts import options_block
from ragrounds.records import Answer, Question

FIELDS = ("question", "stem", "options", "prompt", "messages", "language")
"""What a system can be given: the question's text; the same as a user's message; its options as lines; text and
options as one text; that as a user's message; the language."""
SHOWING = frozenset({"options", "prompt", "messages"})
"""Those that show the options."""
ANSWERS = ("answer", "output", "messages")
"""The keys under which an answer is looked for."""


class Wiring(Struct, frozen=True, kw_only=True):
    """How a system is fed and read, as its card or its author says."""

    name: str
    """What the user calls it, for errors: ``./mine.py:graph``."""
    input: dict[str, str] = field(default_factory=dict)
    """Key of its input → one of :data:`FIELDS`; empty: by the usual names."""
    output: str = ""
    """The key that holds the answer; empty: by the usual names."""
    nests: bool = True
    """Graphs run inside its nodes."""


def fed(question: Question) -> dict[str, object]:
    """Every one of :data:`FIELDS` for a question."""
    options = options_block(question.options)
    prompt = f"{question.text}\n\n{options}".strip()
    return {
        "question": question.text,
        "stem": [{"role": "user", "content": question.text}],
        "options": options,
        "prompt": prompt,
        "messages": [{"role": "user", "content": prompt}],
        "language": question.language,
    }


def check_fields(name: str, fields: Iterable[str]) -> None:
    """Check what an input is to be given.

    Raises:
        UserError: one is none of :data:`FIELDS`.
    """
    for given in fields:
        if given not in FIELDS:
            raise UserError(f"{name}: nothing is called {given!r} here.{nearest(given, FIELDS)} Known: {FIELDS}.")


def read_answer(given: object, output: str = "") -> Answer:
    """What a system answered.

    Args:
        given: what it gave back: an :class:`Answer`, a text, a message, messages, or a state that holds one of these.
        output: the key of a state under which the answer is.
    """
    if isinstance(given, Answer):
        return given
    if output:
        given = given.get(output) if isinstance(given, Mapping) else getattr(given, output, None)
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = given[-1] if given else ""
    if isinstance(given, Mapping):
        given = given.get("content", "")
    text = given if isinstance(given, str) else getattr(given, "text", "" if given is None else given)
    return Answer(text=str(text))
