"""Input of a system from a question, and reading of the answer from its output."""

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
from .observer import Observer, SystemAnswer
from .passages import passages_of

FIELDS = ("question", "stem", "options", "choices", "prompt", "messages", "language")
"""Fields that a system can receive: the question's text; the same as a user's message; the options as lines; the same
as a dictionary, letter to text; text and options as one text; that as a user's message; the language.
"""
SHOWING = frozenset({"options", "choices", "prompt", "messages"})
"""Fields that contain the options."""
ANSWERS = (
    "answer", "final_answer", "structured_response", "output", "result", "response", "generation", "final_report",
    "report", "messages",
)  # fmt: skip
"""Keys that may contain the answer, in the order in which they are tried."""
LONGEST_ANSWER = 1_000_000
"""Maximum number of characters of an answer. Its scorers and its tables need several times its memory."""
ASKS = ("query", "input", "user_input", "user_query", "prompt", "topic", "task", "text")
"""Keys that receive the question if there is neither ``question`` nor ``messages``, in the order in which they are
tried.
"""
PASSAGES = ("passages", "documents", "source_documents", "retrieved_documents", "retrieved_docs", "docs", "context")
"""Keys that may contain the passages on which an answer is based."""


@dataclass(frozen=True)
class Wiring:
    """Mapping between a question and a system's input, configuration and output, from its card or its author."""

    name: str
    """Name that the user gave the system, for errors: ``./mine.py:graph``."""
    input: Mapping[str, str] = field(default_factory=dict)
    """Key of its input → one of :data:`FIELDS`. If empty, the usual names are used."""
    output: str = ""
    """Key that contains the answer, ``KEY.FIELD`` for a nested one. If empty, the usual names are used."""
    choice: str = ""
    """Key that contains the letter of an option. If empty, the letter is read from the answer."""
    nests: bool = True
    """True if graphs run inside its nodes."""
    served: bool = False
    """True if it is written for a LangGraph server, which provides a checkpointer and a store to its graphs."""
    config: Mapping[str, object] = field(default_factory=dict)
    """Configuration of its run: LangGraph's ``configurable``."""
    context: Mapping[str, object] = field(default_factory=dict)
    """Runtime context, in the form of the system's ``context_schema``."""
    on_interrupt: str = ""
    """Answer if it asks a person: a text, or ``module:function`` that is called with the request. If empty, the attempt
    is paused.
    """
    person: Callable[[object], object] | None = None
    """The function that `on_interrupt` names, loaded when the system is opened."""


def refuse_settings(wiring: Wiring, kind: str, *names: str) -> None:
    """Check that no setting is made that has no effect on a system of this kind.

    Raises:
        Refused: one of the settings `names` is made.
    """
    for name in names:
        if getattr(wiring, name):
            raise Refused(f"{wiring.name} is a {kind}: {name} has no effect on it, and is for graphs.")


def fed(question: Mapping[str, Any]) -> dict[str, object]:
    """Return every one of :data:`FIELDS` for a question."""
    text, choices = question["text"], question["options"]
    options = "\n".join(map(". ".join, choices.items()))
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


def guess_fields(keys: Sequence[str], takes_context: bool = False) -> dict[str, str]:
    """Return the field of each input key, by the usual names. Empty if no usual name is among the keys.

    If a key for the options exists, it receives them; else they are added to the question. A graph that takes the
    context finds the options there.
    """
    if "question" in keys:
        options_elsewhere = takes_context or "options" in keys
        usual = ("question", "language") if takes_context else ("question", "options", "language")
        fields = {key: key for key in usual if key in keys}
        return fields if options_elsewhere else {**fields, "question": "prompt"}
    if "messages" in keys:
        return {"messages": "stem" if takes_context else "messages"}
    first = next((key for key in ASKS if key in keys), "")
    return {first: "question" if takes_context else "prompt"} if first else {}


def check_fields(name: str, fields: Iterable[str]) -> None:
    """Check the fields that an input requests.

    Raises:
        Refused: a field is not in :data:`FIELDS`.
    """
    for requested in fields:
        if requested not in FIELDS:
            known_fields = ", ".join(FIELDS)
            raise Refused(f"{name}: unknown field {requested!r}.{nearest(requested, FIELDS)} Known: {known_fields}.")


def is_class(kind: object, name: str) -> bool:
    """Return True if an object is the evaluation's own class of this name, such as ``ragrounds.base.records.Answer``.

    The classes are not imported here.
    """
    return f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}" == name


def read_answer(
    raw_output: object, question: Mapping[str, Any], wiring: Wiring, seen: Observer, output: str = ""
) -> SystemAnswer:
    """Read the answer from a system's output.

    Args:
        raw_output: the output: a record ``Answer``, a text, a message, messages, or a state or an object that contains
            one of these.
        question: the question.
        wiring: locations of the answer and the letter.
        seen: observer that is notified if a letter matches no option.
        output: default key of the answer, from the system's type.

    Raises:
        ValueError: the answer is too long.
    """
    is_answer_record = is_class(type(raw_output), "ragrounds.base.records.Answer")
    key = "text" if is_answer_record else wiring.output or output
    choice_path = "choice" if is_answer_record else wiring.choice
    letter = at_path(raw_output, choice_path) if choice_path else None
    choice = option_of(letter, question["options"])
    if letter and not choice:
        seen.note("choice", f"{choice_path} is {str(letter)[:200]!r}: no option has this letter or text")
    # A text may have a custom class, such as LangChain's, which the journal cannot store.
    text = str(text_of(at_path(raw_output, key) if key else raw_output))
    if len(text) > LONGEST_ANSWER:
        raise _too_long()
    return SystemAnswer(text or choice, choice, passages_in(raw_output))


class AnswerParts:
    """Text of an answer that comes in parts, perhaps without end."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = LONGEST_ANSWER

    def add(self, part: str) -> None:
        """Add a part.

        Raises:
            ValueError: the answer is too long.
        """
        self._left -= len(part) or 1
        if self._left < 0:
            raise _too_long()
        self._parts.append(part)

    def text(self) -> str:
        """Return the whole text."""
        return "".join(self._parts)


def _too_long() -> ValueError:
    return ValueError(f"the answer has more than {LONGEST_ANSWER:,} characters")


def at_path(value: object, path: str) -> object:
    """Return the value at a path of mappings, lists and objects, or ``None``.

    A path consists of keys, fields and list indexes with dots between them, ``choices.0.message.content``; -1 is the
    last index. A path that begins with ``/`` is a JSON pointer (RFC 6901), for keys that contain dots. ``.`` is the
    whole value.
    """
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    else:
        parts = [*filter(None, path.split("."))]
    for part in parts:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and re.fullmatch(r"-?\d{1,9}", part):
            value = value[int(part)] if not isinstance(value, str) and -len(value) <= int(part) < len(value) else None
        else:
            value = None if isinstance(value, (str, int, float, list)) else getattr(value, part, None)
    return value


def option_of(value: object, options: Mapping[str, str]) -> str:
    """Return the letter that a value names: the letter itself, ``(B)``, ``B.``, or an option's whole text. Empty if
    none matches.
    """
    value = getattr(value, "value", value)  # a member of an enumeration
    if not isinstance(value, str):
        return ""
    plain = value.strip()
    bare = re.sub(r"^[\s(\[*]+|[\s)\].:*]+$", "", plain)
    for letter, text in options.items():
        if bare.casefold() == letter.casefold() or plain.casefold() == text.strip().casefold():
            return letter
    return ""


def text_of(output: object) -> str:
    """Return the text of a system's output.

    For a message this is its content, for messages the last one's content, for a state or an object the value of the
    first of :data:`ANSWERS`, and for anything else its JSON.
    """
    if output is None or isinstance(output, str):
        return output or ""
    if isinstance(output, Mapping):
        content = output.get("content")
        if content is not None:
            return content if isinstance(content, str) else _blocks(content)
        answer_key = next((key for key in ANSWERS if output.get(key) is not None), None)
        return _json(output) if answer_key is None else text_of(output[answer_key])
    if isinstance(output, Sequence) and not isinstance(output, bytes):
        return text_of(output[-1]) if output else ""
    content = getattr(output, "content", None)
    if content is not None:
        return content if isinstance(content, str) else _blocks(content)
    for key in ("text", *ANSWERS):
        attribute = getattr(output, key, None)
        if attribute is not None and not callable(attribute):
            return text_of(attribute)
    return _json(output)


def _blocks(content: object) -> str:
    """Return the text of a message's content that is a list of blocks. Blocks without text are left out."""
    if not isinstance(content, Sequence):
        return str(content)
    parts = [block if isinstance(block, str) else at_path(block, "text") for block in content]
    return "".join(part for part in parts if isinstance(part, str))


def _json(value: object) -> str:
    dumped = getattr(value, "model_dump", None)
    plain = dumped(mode="json") if callable(dumped) and not isinstance(value, type) else value
    try:
        return json.dumps(
            plain,
            default=lambda part: str(part) if (parts := _parts_of(part)) is part else parts,
            ensure_ascii=False,
            separators=(",", ":"),
        )
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _parts_of(value: object) -> object:
    """Return the parts of a value that JSON cannot represent. A value of an unknown type is returned itself."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
    if (names := getattr(type(value), "__struct_fields__", None)) is not None:  # a msgspec struct
        return {name: getattr(value, name) for name in names}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    return list(value) if isinstance(value, (set, frozenset)) else value


def plain(value: object) -> object:
    """Convert a value to texts, numbers, lists and dictionaries.

    LangChain's messages become role and content, values with fields become dictionaries, and anything else its
    ``repr``.
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    messages = sys.modules.get("langchain_core.messages")
    if messages is not None and isinstance(value, messages.BaseMessage):
        message = {"role": value.type, "content": value.content, "calls": getattr(value, "tool_calls", [])}
        return plain(message)
    parts = _parts_of(value)
    return repr(value) if parts is value else plain(parts)


def passages_in(state: object) -> Sequence[Mapping[str, object]]:
    """Return the passages in a state or an answer under the first usable key of :data:`PASSAGES`, best first."""
    for key in PASSAGES:
        if (value := at_path(state, key)) and (passages := passages_of(value)):
            return passages
    return ()
