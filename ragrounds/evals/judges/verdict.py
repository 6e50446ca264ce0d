"""What a judge is asked to answer: one value for each axis.

Reading a verdict from a judge's reply.

The last word counts: where a reply holds several verdicts for an axis (it quoted an answer that holds one, it changed
its mind), the last one is taken. Nothing is guessed: prose without a verdict, a verdict for both, a word that is not in
the contract are unparsable, and say why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

TIE = "tie"


class Contract(Struct, frozen=True):
    """A verdict is a JSON object: every axis is a key, and its value is one of `values`."""

    axes: tuple[str, ...]
    values: tuple[str, ...]
    """In the prompt's spelling. For a pair: the two labels and ``tie``; for one answer: the grades."""

    @property
    def example(self) -> str:
        """The form of the object, for the prompt."""
        choices = " or ".join(f'"{value}"' for value in self.values)
        return "{" + ", ".join(f'"{axis}": {choices}' for axis in self.axes) + "}"


EMPTY = "empty reply"
NOTHING = "no verdict in the reply"
BOTH = "a verdict for both"
CUT = "the reply was cut off before a verdict"
UNKNOWN = "not a verdict"
_TIES = frozenset({TIE, "draw", "equal", "tied"})
_PREFIX = re.compile(r"^(?:answer|response|assistant|option)\s+", re.IGNORECASE)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_INSIDE = ("verdict", "winner", "preferred", "choice", "grade", "value")
"""Keys under which judges nest a verdict beside an explanation."""
_LONGEST = 50_000
"""Characters of a reply that are read, from its end."""


class Reading(Struct, frozen=True):
    """What could be read: axis → value of the contract, and axis → reason where there is none."""

    values: dict[str, str]
    reasons: dict[str, str]
    extra: tuple[str, ...] = ()
    """Keys that nobody asked for; they are left aside."""

    @property
    def complete(self) -> bool:
        return not self.reasons


def read_verdict(text: str, contract: Contract, finish: str = "stop") -> Reading:
    """The verdict of a reply; `finish` is why it ended."""
    plain = spoken(text)
    said: dict[str, str] = {}
    places: dict[str, int] = {}
    extra: dict[str, None] = {}
    for found, end in objects(plain):
        here: dict[str, str] = {}
        _collect(found, contract, here, extra)
        said |= here
        places |= dict.fromkeys(here, end)
    for axis in contract.axes:
        for line, place in _lines(plain, axis):
            # Prose after the verdict ("Reasoning: good.") is no verdict; a verdict without JSON after a quoted one is.
            if axis not in said or (place > places[axis] and _value(line, contract) in contract.values):
                said[axis], places[axis] = line, place
    nothing = CUT if finish == "length" else NOTHING if plain.strip() else EMPTY
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for axis in contract.axes:
        value = _value(said[axis], contract) if axis in said else nothing
        if value in contract.values:
            values[axis] = value
        else:
            reasons[axis] = value
    return Reading(values, reasons, tuple(extra))


def spoken(text: str) -> str:
    """A reply without what was thought aloud; of a very long one, its end."""
    return _THINKING.sub("", text)[-_LONGEST:]


def objects(text: str) -> Iterator[tuple[dict[str, Any], int]]:
    """The JSON objects in the text in order, and where each ends; an object inside another comes with it."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if isinstance(found, dict):
                yield found, end
        at = text.find("{", end)


def _collect(found: dict[str, Any], contract: Contract, said: dict[str, str], extra: dict[str, None]) -> None:
    by_name = {axis.casefold(): axis for axis in contract.axes}
    for key, value in found.items():
        axis = by_name.get(str(key).strip().casefold())
        if axis is None and len(contract.axes) == 1 and str(key).casefold() in _INSIDE and not isinstance(value, dict):
            axis = contract.axes[0]
        if axis is not None:
            said[axis] = _word(value)
        elif isinstance(value, dict):
            _collect(value, contract, said, extra)
        else:
            extra[str(key)[:40]] = None


def _word(value: Any) -> str:
    if isinstance(value, dict):
        inside = {str(key).casefold(): item for key, item in value.items()}
        value = next((inside[key] for key in _INSIDE if key in inside), "")
    if isinstance(value, list):
        return _word(value[0]) if len(value) == 1 else " and ".join(_word(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def _lines(text: str, axis: str) -> Iterator[tuple[str, int]]:
    """Every ``axis: value`` that ends its line or clause, and its place: a verdict without JSON, or in broken JSON."""
    quote = r"[\s\"'*_`\[\](]*"
    pattern = rf"(?<!\w){re.escape(axis)}{quote}[:=]{quote}([^\n\"'*_`\[\](),.;{{}}]{{1,40}}){quote}(?=[,.;)}}\n]|$)"
    for found in re.finditer(pattern, text, re.IGNORECASE):
        yield found.group(1).strip(), found.start()


def _value(said: str, contract: Contract) -> str:
    """The contract's value that was said, or why there is none."""
    word = _PREFIX.sub("", said.strip().strip("\"'*_`[]().").strip())
    folded = word.casefold()
    for value in contract.values:
        if folded == value.casefold():
            return value
    if TIE in contract.values and folded in _TIES:
        return TIE
    labels = [value.casefold() for value in contract.values if value != TIE]
    named = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", folded)]
    if folded == "both" or (len(named) > 1 and TIE in contract.values):
        return BOTH
    return f"{UNKNOWN}: {word[:40]!r}" if word else NOTHING
