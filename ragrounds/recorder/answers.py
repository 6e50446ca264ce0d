"""What a system is given of a question, and what is read of what it gives back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import re
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import Refused, nearest
from .observer import Given, Observer
from .passages import passages_of

FIELDS = ("question", "stem", "options", "choices", "prompt", "messages", "language")
"""What a system can be given: the question's text; the same as a user's message; its options as lines; the same as a
dictionary, letter to text; text and options as one text; that as a user's message; the language."""
SHOWING = frozenset({"options", "choices", "prompt", "messages"})
"""Those that show the options."""
ANSWERS = (
    "answer", "final_answer", "structured_response", "output", "result", "response", "generation", "final_report",
    "report", "messages",
)  # fmt: skip
"""The keys under which an answer is looked for, in this order."""
ASKS = ("query", "input", "user_input", "user_query", "prompt", "topic", "task", "text")
"""The keys that take the question where there is neither ``question`` nor ``messages``, in this order."""
PASSAGES = ("passages", "documents", "source_documents", "retrieved_documents", "retrieved_docs", "docs", "context")
"""The keys under which the passages are looked for that an answer was made from."""


@dataclass(frozen=True)
class Wiring:
    """How a system is fed, set and read, as its card or its author says."""

    name: str
    """What the user calls it, for errors: ``./mine.py:graph``."""
    input: Mapping[str, str] = field(default_factory=dict)
    """Key of its input → one of :data:`FIELDS`; empty: by the usual names."""
    output: str = ""
    """The key that holds the answer, ``KEY.FIELD`` for one inside another; empty: by the usual names."""
    choice: str = ""
    """The key that holds the letter of an option; empty: the letter is read from the answer."""
    nests: bool = True
    """Graphs run inside its nodes."""
    served: bool = False
    """It is written for a LangGraph server, which gives its graphs a checkpointer and a store."""
    config: Mapping[str, object] = field(default_factory=dict)
    """What its run is configured with: LangGraph's ``configurable``."""
    context: Mapping[str, object] = field(default_factory=dict)
    """Its runtime context, in the form of its ``context_schema``."""
    on_interrupt: str = ""
    """What is answered where it asks a person: a text, or ``module:function`` of what it asked. Empty: nobody is
    there."""
    person: Callable[[object], object] | None = None
    """The function that `on_interrupt` names, found by whoever opens the system."""


def refuse_settings(wiring: Wiring, kind: str, *names: str) -> None:
    """Check that nothing is set that has no effect on a system of this kind.

    Raises:
        Refused: one of the settings `names` is.
    """
    for name in names:
        if getattr(wiring, name):
            raise Refused(f"{wiring.name} is a {kind}: {name} has no effect on it, and is for graphs.")


def fed(question: Mapping[str, Any]) -> dict[str, object]:
    """Every one of :data:`FIELDS` for a question."""
    text, choices = question["text"], question["options"]
    options = "\n".join(f"{letter}. {said}" for letter, said in choices.items())
    prompt = f"{text}\n\n{options}".strip()
    return {
        "question": text,
        "stem": [{"role": "user", "content": text}],
        "options": options,
        "choices": dict(choices),
        "prompt": prompt,
        "messages": [{"role": "user", "content": prompt}],
        "language": question["language"],
    }


def guessed(keys: Sequence[str], takes_context: bool = False) -> dict[str, str]:
    """What goes under which key of an input, by the usual names; empty: none of them is there.

    What has a key for the options gets them there; else they stand with the question, or it could not choose. A graph
    that takes the context finds them there.
    """
    if "question" in keys:
        apart = takes_context or "options" in keys
        usual = ("question", "language") if takes_context else ("question", "options", "language")
        given = {key: key for key in usual if key in keys}
        return given if apart else {**given, "question": "prompt"}
    if "messages" in keys:
        return {"messages": "stem" if takes_context else "messages"}
    first = next((key for key in ASKS if key in keys), "")
    return {first: "question" if takes_context else "prompt"} if first else {}


def check_fields(name: str, fields: Iterable[str]) -> None:
    """Check what an input is to be given.

    Raises:
        Refused: one is none of :data:`FIELDS`.
    """
    for given in fields:
        if given not in FIELDS:
            known = ", ".join(FIELDS)
            raise Refused(f"{name}: unknown field {given!r}.{nearest(given, FIELDS)} Known: {known}.")


def is_class(kind: object, name: str) -> bool:
    """Whether something is the class of the evaluation's own that has this name, ``ragrounds.base.records.Answer``.
    None of them is imported here."""
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}" == name


def read_answer(given: object, question: Mapping[str, Any], wiring: Wiring, seen: Observer, output: str = "") -> Given:
    """What a system answered.

    Args:
        given: what it gave back: a record ``Answer``, a text, a message, messages, or a state or an object that holds
            one of these.
        question: what was asked.
        wiring: where the answer and the letter are.
        seen: is told of a letter that is no option's.
        output: the key where the answer is, of a system that was asked for it before.
    """
    whole = is_class(type(given), "ragrounds.base.records.Answer")
    key = "text" if whole else wiring.output or output
    place = "choice" if whole else wiring.choice
    letter = at_path(given, place) if place else None
    choice = option_of(letter, question["options"])
    if letter and not choice:
        seen.note("choice", f"{place} is {str(letter)[:200]!r}: no option has this letter or text")
    # A text may be of a class of its own, such as LangChain's, which no journal holds.
    text = str(text_of(at_path(given, key) if key else given))
    return Given(text or choice, choice, passages_in(given))


def at_path(value: object, path: str) -> object:
    """What stands at a path of mappings, lists and objects; ``None``: nothing does.

    A path is keys, fields and places in lists with dots between them, ``choices.0.message.content``; -1 is the last
    place. One that begins with ``/`` is a JSON pointer (RFC 6901), for keys that hold dots. ``.`` is the whole value.
    """
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    else:
        parts = [part for part in path.split(".") if part]
    for part in parts:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and re.fullmatch(r"-?\d{1,9}", part):
            value = value[int(part)] if not isinstance(value, str) and -len(value) <= int(part) < len(value) else None
        else:
            value = None if isinstance(value, (str, int, float, list)) else getattr(value, part, None)
    return value


def option_of(value: object, options: Mapping[str, str]) -> str:
    """The letter that a value names: the letter itself, ``(B)``, ``B.``, or an option's whole text; empty: none."""
    value = getattr(value, "value", value)  # of an enumeration
    if not isinstance(value, str):
        return ""
    plain = value.strip()
    bare = re.sub(r"^[\s(\[*]+|[\s)\].:*]+$", "", plain)
    for letter, text in options.items():
        if bare.casefold() == letter.casefold() or plain.casefold() == text.strip().casefold():
            return letter
    return ""


def text_of(given: object) -> str:
    """The text of what a system gave: of a message its content, of messages the last one's, of a state or an object
    what stands under one of :data:`ANSWERS`, and of anything else its JSON."""
    if given is None or isinstance(given, str):
        return given or ""
    if isinstance(given, Mapping):
        content = given.get("content")
        if content is not None:
            return content if isinstance(content, str) else _blocks(content)
        found = next((key for key in ANSWERS if given.get(key) is not None), None)
        return _json(given) if found is None else text_of(given[found])
    if isinstance(given, Sequence) and not isinstance(given, bytes):
        return text_of(given[-1]) if given else ""
    content = getattr(given, "content", None)
    if content is not None:
        return content if isinstance(content, str) else _blocks(content)
    for key in ("text", *ANSWERS):
        held = getattr(given, key, None)
        if held is not None and not callable(held):
            return text_of(held)
    return _json(given)


def _blocks(content: object) -> str:
    """The text of a message's content that is a list of blocks; what they hold beside text is left out."""
    if not isinstance(content, Sequence):
        return str(content)
    parts = [block if isinstance(block, str) else at_path(block, "text") for block in content]
    return "".join(part for part in parts if isinstance(part, str))


def _json(value: object) -> str:
    dumped = getattr(value, "model_dump", None)
    plain = dumped(mode="json") if callable(dumped) and not isinstance(value, type) else value
    try:
        return json.dumps(plain, default=_parts_or_text, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _parts_or_text(value: object) -> object:
    parts = _parts_of(value)
    return str(value) if parts is value else parts


def _parts_of(value: object) -> object:
    """What a value is made of, which JSON has no form of; the value itself: nothing that is known here."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if (names := getattr(type(value), "__struct_fields__", None)) is not None:  # msgspec's
        return {name: getattr(value, name) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    return list(value) if isinstance(value, (set, frozenset)) else value


def plain(value: object) -> object:
    """A value as texts, numbers, lists and dictionaries: LangChain's messages become role and content, what is made of
    fields a dictionary, and anything else its ``repr``."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    messages = sys.modules.get("langchain_core.messages")
    if messages is not None and isinstance(value, messages.BaseMessage):
        said = {"role": value.type, "content": value.content, "calls": getattr(value, "tool_calls", [])}
        return plain(said)
    parts = _parts_of(value)
    return repr(value) if parts is value else plain(parts)


def passages_in(state: object) -> Sequence[Mapping[str, object]]:
    """The passages that a state or an answer holds under one of :data:`PASSAGES`, best first."""
    return next((found for key in PASSAGES if (found := passages_of(at_path(state, key)))), ())
