"""The one grammar for naming things: ``name[key=value,…]``.

Agents, retrievers and models are named by a spec. Values are numbers, ``true``/``false``, words, quoted strings, specs
again, or lists of such: ``tools=[corpus,web[provider=tavily]]``. :func:`parse` reads it; ``str()`` prints the one
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
_DEEPEST = 20


class Listed(str):
    """A list as a value: its canonical text, ``[corpus,read]``. Its items are read again where they are needed."""

    __slots__ = ()

    @classmethod
    def of(cls, items: Iterable[Value]) -> Listed:
        """The list of some values, in their order."""
        return cls(f"[{','.join(map(_text, items))}]")

    @property
    def items(self) -> tuple[Value, ...]:
        """Its values."""
        return _list(self, 0, 0)[0]

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Its values, each read as a spec.

        Raises:
            UserError: one is a number, a switch or a list.
        """
        return tuple(_as_spec(item, self) for item in self.items)


@dataclass(frozen=True, eq=False)
class Spec:
    """A name with parameters. Its canonical text is its identity: equality and hash go by it."""

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
        """The same name with some parameters set."""
        return Spec(self.name, {**self.parameters, **parameters})


def _as_spec(item: Value, whole: str) -> Spec:
    if isinstance(item, Spec):
        return item
    if isinstance(item, bool | int | float | Listed):
        raise UserError(f"The list {whole} holds {_text(item)}: expected names, or name[key=value].")
    return Spec(item)


def check_known(spec: Spec, known: Sequence[str], called: str = "") -> None:
    """Refuse parameters that are not known of what is `called` so; by default, as the spec is.

    Raises:
        UserError: there is one; names the nearest.
    """
    for key in spec.parameters:
        if key not in known:
            takes = f"It takes {', '.join(known)}."
            raise UserError(f"{called or spec.name} has no parameter {key!r}.{nearest(key, known)} {takes}")


def without_addresses(text: str) -> str:
    """A spec's text without the parameters that are servers' addresses, to be shown; what is no spec stays."""
    if "://" not in text:
        return text
    try:
        return str(_shown(parse(text)))
    except UserError:
        return text


def _shown(spec: Spec) -> Spec:
    kept = {key: value for key, value in spec.parameters.items() if isinstance(value, Spec) or "://" not in str(value)}
    return Spec(spec.name, {key: _shown(value) if isinstance(value, Spec) else value for key, value in kept.items()})


def parse(text: str) -> Spec:
    """Read a spec.

    Raises:
        UserError: the text does not follow the grammar; the message points at the place.
    """
    spec, end = _spec(text, _skip(text, 0), 0)
    end = _skip(text, end)
    if end != len(text):
        raise _wrong(text, end, "nothing more")
    return spec


def _spec(text: str, at: int, depth: int) -> tuple[Spec, int]:
    if depth > _DEEPEST:
        raise UserError(f"The spec {text[:60]!r}… is nested more than {_DEEPEST} deep.")
    name, at = _name(text, at)
    after = _skip(text, at)
    if after == len(text) or text[after] != "[":
        return Spec(name), at
    at = _skip(text, after + 1)
    parameters: dict[str, Value] = {}
    while at < len(text) and text[at] != "]":
        key_at = at
        key, at = _name(text, at)
        at = _skip(text, at)
        if at >= len(text) or text[at] != "=":
            raise _wrong(text, at, f"'=' after {key!r}")
        if key in parameters:
            raise _wrong(text, key_at, f"{key!r} only once")
        parameters[key], at = _value(text, _skip(text, at + 1), depth)
        at = _after_item(text, at)
    if at >= len(text):
        raise _wrong(text, at, "']'")
    return Spec(name, parameters), at + 1


def _name(text: str, at: int) -> tuple[str, int]:
    quoted = _STRING.match(text, at)
    if quoted:
        return _unquoted(text, quoted), quoted.end()
    word = _WORD.match(text, at)
    if not word:
        raise _wrong(text, at, "a name")
    return word.group(), word.end()


def _list(text: str, at: int, depth: int) -> tuple[tuple[Value, ...], int]:
    """The values between ``[`` and ``]``."""
    if depth > _DEEPEST:
        raise UserError(f"The list {text[:60]!r}… is nested more than {_DEEPEST} deep.")
    items: list[Value] = []
    at = _skip(text, at + 1)
    while at < len(text) and text[at] != "]":
        item, at = _value(text, at, depth)
        items.append(item)
        at = _after_item(text, at)
    if at >= len(text):
        raise _wrong(text, at, "']'")
    return tuple(items), at + 1


def _after_item(text: str, at: int) -> int:
    """Where the next item of a list, or of parameters, begins, or the ``]`` that ends them stands."""
    at = _skip(text, at)
    if at < len(text) and text[at] == ",":
        return _skip(text, at + 1)
    if at >= len(text) or text[at] != "]":
        raise _wrong(text, at, "',' or ']'")
    return at


def _value(text: str, at: int, depth: int) -> tuple[Value, int]:
    if text[at : at + 1] == "[":
        items, end = _list(text, at, depth + 1)
        return Listed.of(items), end
    quoted = _STRING.match(text, at)
    if quoted:
        return _unquoted(text, quoted), quoted.end()
    number = _NUMBER.match(text, at)
    word = _WORD.match(text, at)
    if number and (word is None or number.end() >= word.end()):
        return _number(number.group()), number.end()
    if not word:
        raise _wrong(text, at, 'a number, a word, a "quoted string" or name[key=value]')
    if word.group() in ("true", "false"):
        return word.group() == "true", word.end()
    spec, end = _spec(text, at, depth + 1)
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


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _word(text: str) -> str:
    return text if _WORD.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    # What no terminal shows is written out, so that a canonical text can be shown, and typed again.
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


def _wrong(text: str, at: int, expected: str) -> UserError:
    found = repr(text[at : at + 12]) if at < len(text) else "the end"
    return UserError(f"Cannot read the spec {text!r}: expected {expected} at position {at}, found {found}.")
