"""Grammar of specs: ``name[key=value,…]``.

Agents, retrievers and models are named by a spec. Values are numbers, ``true``/``false``, words, quoted strings, nested
specs, or lists of such: ``tools=[corpus,web[provider=tavily]]``. :func:`parse` reads a spec. ``str()`` prints the only
canonical form (keys sorted, shortest numbers, quotes only where needed), so that equal specs have equal texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Union

from ragrounds.base.errors import UserError, nearest

Value = Union[bool, int, float, str, "Spec"]

_WORD = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./:@+~-]*")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SPACE = re.compile(r"\s*")
_MAX_DEPTH = 20


class Listed(str):
    """A list as a value, stored as its canonical text, ``[corpus,read]``. Its items are parsed on access."""

    __slots__ = ()

    @classmethod
    def from_values(cls, items: Iterable[Value]) -> Listed:
        """Return the list of these values, in their order."""
        return cls(f"[{','.join(map(_text, items))}]")

    @property
    def items(self) -> tuple[Value, ...]:
        """Return the values of the list."""
        return _list(self, 0, 0)[0]

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Return the values of the list, each read as a spec.

        Raises:
            UserError: a value is a number, a switch or a list.
        """
        return tuple(_as_spec(item, self) for item in self.items)


@dataclass(frozen=True, eq=False)
class Spec:
    """A name with parameters. Equality and hash depend on its canonical text."""

    name: str
    parameters: Mapping[str, Value] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __str__(self) -> str:
        if not self.parameters:
            return _word(self.name)
        inside = ",".join(f"{key}={_text(value)}" for key, value in sorted(self.parameters.items()))
        return f"{_word(self.name)}[{inside}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[Spec], tuple[str, dict[str, Value]]]:
        return Spec, (self.name, dict(self.parameters))

    def having(self, **parameters: Value) -> Spec:
        """Return a copy with some parameters set."""
        return Spec(self.name, {**self.parameters, **parameters})


def _as_spec(item: Value, list_text: str) -> Spec:
    if isinstance(item, Spec):
        return item
    if isinstance(item, bool | int | float | Listed):
        raise UserError(f"The list {list_text} holds {_text(item)}: expected names, or name[key=value].")
    return Spec(item)


def check_known(spec: Spec, known_names: Sequence[str], called: str = "") -> None:
    """Raise an error if a spec has an unknown parameter. `called` replaces the spec's name in the message.

    Raises:
        UserError: a parameter is unknown. The message suggests the nearest name.
    """
    for key in spec.parameters:
        if key not in known_names:
            takes = f"It takes {', '.join(known_names)}."
            raise UserError(f"{called or spec.name} has no parameter {key!r}.{nearest(key, known_names)} {takes}")


def without_addresses(text: str) -> str:
    """Remove addresses of servers and paths of interpreters from a spec's text, for display. A text that is not a spec
    stays.
    """
    if "://" not in text and "python=" not in text:
        return text
    try:
        return str(_format_value(parse(text)))
    except UserError:
        return text


def _format_value(spec: Spec) -> Spec:
    parameters = {
        key: value
        for key, value in spec.parameters.items()
        if key != "python" and (isinstance(value, Spec) or "://" not in str(value))
    }
    return Spec(
        spec.name,
        {key: _format_value(value) if isinstance(value, Spec) else value for key, value in parameters.items()},
    )


def parse(text: str) -> Spec:
    """Parse a spec.

    Raises:
        UserError: the text does not follow the grammar. The message gives the position.
    """
    spec, end = _spec(text, _skip(text, 0), 0)
    end = _skip(text, end)
    if end != len(text):
        raise _wrong(text, end, "nothing more")
    return spec


def _spec(text: str, index: int, depth: int) -> tuple[Spec, int]:
    if depth > _MAX_DEPTH:
        raise UserError(f"The spec {text[:60]!r}… is nested more than {_MAX_DEPTH} deep.")
    name, index = _name(text, index)
    after = _skip(text, index)
    if after == len(text) or text[after] != "[":
        return Spec(name), index
    index = _skip(text, after + 1)
    parameters: dict[str, Value] = {}
    while index < len(text) and text[index] != "]":
        key_index = index
        key, index = _name(text, index)
        index = _skip(text, index)
        if index >= len(text) or text[index] != "=":
            raise _wrong(text, index, f"'=' after {key!r}")
        if key in parameters:
            raise _wrong(text, key_index, f"{key!r} only once")
        parameters[key], index = _value(text, _skip(text, index + 1), depth)
        index = _after_item(text, index)
    if index >= len(text):
        raise _wrong(text, index, "']'")
    return Spec(name, parameters), index + 1


def _name(text: str, index: int) -> tuple[str, int]:
    quoted = _STRING.match(text, index)
    if quoted:
        return _unquoted(text, quoted), quoted.end()
    word = _WORD.match(text, index)
    if not word:
        raise _wrong(text, index, "a name")
    return word.group(), word.end()


def _list(text: str, index: int, depth: int) -> tuple[tuple[Value, ...], int]:
    """Return the values between ``[`` and ``]``, and the index after them."""
    if depth > _MAX_DEPTH:
        raise UserError(f"The list {text[:60]!r}… is nested more than {_MAX_DEPTH} deep.")
    items: list[Value] = []
    index = _skip(text, index + 1)
    while index < len(text) and text[index] != "]":
        item, index = _value(text, index, depth)
        items.append(item)
        index = _after_item(text, index)
    if index >= len(text):
        raise _wrong(text, index, "']'")
    return tuple(items), index + 1


def _after_item(text: str, index: int) -> int:
    """Return the index of the next item of a list or of parameters, or of the ``]`` that ends them."""
    index = _skip(text, index)
    if index < len(text) and text[index] == ",":
        return _skip(text, index + 1)
    if index >= len(text) or text[index] != "]":
        raise _wrong(text, index, "',' or ']'")
    return index


def _value(text: str, index: int, depth: int) -> tuple[Value, int]:
    if text[index : index + 1] == "[":
        items, end = _list(text, index, depth + 1)
        return Listed.from_values(items), end
    quoted = _STRING.match(text, index)
    if quoted:
        return _unquoted(text, quoted), quoted.end()
    number = _NUMBER.match(text, index)
    word = _WORD.match(text, index)
    if number and (word is None or number.end() >= word.end()):
        return _number(number.group()), number.end()
    if not word:
        raise _wrong(text, index, 'a number, a word, a "quoted string" or name[key=value]')
    if word.group() in ("true", "false"):
        return word.group() == "true", word.end()
    spec, end = _spec(text, index, depth + 1)
    return (spec if spec.parameters else spec.name), end


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _unquoted(text: str, quoted: re.Match[str]) -> str:
    try:
        return str(json.loads(quoted.group(), strict=False))
    except ValueError:
        raise _wrong(text, quoted.start(), "a string quoted as in JSON") from None


def _skip(text: str, index: int) -> int:
    space = _SPACE.match(text, index)
    return space.end() if space else index


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    # Invisible characters are escaped, so that a canonical text can be shown, and typed again.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in quoted)


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Spec | Listed):
        return str(value)
    bare = _WORD.fullmatch(value) and not _NUMBER.fullmatch(value) and value not in ("true", "false")
    return value if bare else _quoted(value)


def _wrong(text: str, index: int, expected: str) -> UserError:
    actual = repr(text[index : index + 12]) if index < len(text) else "the end"
    return UserError(f"Cannot read the spec {text!r}: expected {expected} at position {index}, found {actual}.")
