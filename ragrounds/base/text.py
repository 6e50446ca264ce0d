"""Text from outside, made storable and safe to show."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal


def wellformed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced by U+FFFD.

    Python reads lone surrogates from JSON escapes without complaint, but no encoder, database or server takes them.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wellformed_all(value: Any) -> Any:
    """:func:`wellformed` for every text inside lists and dictionaries."""
    whole = [value]
    left = [value]  # no recursion: what a model or a file says may be nested as deeply as can be
    left[0] = whole
    while left:
        holder = left.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(item, str):
                holder[key] = wellformed(item)
            elif isinstance(item, dict | list | tuple):
                holder[key] = dict(item) if isinstance(item, dict) else list(item)
                left.append(holder[key])
    return whole[0]


def escaped_json(text: str) -> str:
    """A JSON document with every control, formatting and zero-width character inside as an escape: it means the same,
    and does nothing to a terminal."""
    return _BAD.sub(lambda match: json.dumps(match.group())[1:-1], text)


def fault(problem: BaseException) -> str:
    """What a decoder found wrong with a text, in words."""
    return "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)


def typed_value(text: str) -> object:
    """A value as it is typed on a command line: JSON, or else the text itself."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML, or is nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None


_BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but line feed and tab
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # soft hyphen, joiners, invisible fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, line separators, bidirectional
    "\ufe00-\ufe0f\U000e0000-\U000e0fff"  # variation selectors and tags: text can be hidden in them
    "\ud800-\udfff]"
)


def safe(text: str, longest: int | None = None) -> str:
    """`text` with every control, formatting and zero-width character written out as ``<U+XXXX>``.

    Line feeds and tabs stay. Longer than `longest` characters: cut, with what is missing said.
    """
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}… [{len(text) - longest:,} more characters]"
    return _BAD.sub(lambda match: f"<U+{ord(match.group()):04X}>", text.replace("\r\n", "\n"))


_DEVICES = frozenset(
    (
        "con",
        "prn",
        "aux",
        "nul",
        "conin$",
        "conout$",
        *(f"{port}{n}" for port in ("com", "lpt") for n in "0123456789¹²³"),
    )
)
"""File names that Windows takes for devices, with any ending."""


_HEAP = re.compile(r"[^\w\x00-\x7f]{31,}")
_MOST_MARKS = 30
"""Marks upon one letter, as Unicode's stream-safe text has them at most (UAX 15, section 13): no script needs more."""


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """A text in one of Unicode's normal forms, in time that grows with its length alone: of a heap of marks upon one
    letter, whose order takes the square of their number to find, the first 30 are kept."""
    return unicodedata.normalize(form, text if text.isascii() else _HEAP.sub(_thinned, text))


_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


def words(text: str) -> list[str]:
    """A text's words without case and punctuation; characters of Chinese and Japanese one by one."""
    return _WORD.findall(text.casefold())


def _thinned(found: re.Match[str]) -> str:
    kept, marks = list[str](), 0
    for letter in found[0]:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        if marks <= _MOST_MARKS:
            kept.append(letter)
    return "".join(kept)


def file_name(text: str, longest: int = 120, instead: str = "_", kept: str = "._=-") -> str:
    """A file name made of any text, which every system takes for a plain name and no program for an option: letters,
    digits and those of `kept` stay, all else becomes `instead`. It begins and ends with a letter or digit, has at most
    `longest` bytes, and is not empty. Two texts may have the same one.
    """
    composed = normalized("NFC", wellformed(text))
    name = "".join(letter if letter.isalnum() or letter in kept else instead for letter in composed)
    name = name.strip("._=- ").encode()[:longest].decode(errors="ignore").rstrip("._=- ") or "unnamed"
    stem, dot, rest = name.partition(".")
    return f"{stem}{instead}{dot}{rest}" if stem.casefold() in _DEVICES else name


def file_name_among(text: str, suffix: str, taken: Iterable[str] = ()) -> str:
    """:func:`file_name` with an ending, and a number before it where it is one of those `taken`, in whatever case."""
    name, known = file_name(text), {one.casefold() for one in taken}
    candidate, number = f"{name}{suffix}", 2
    while candidate.casefold() in known:
        candidate, number = f"{name}-{number}{suffix}", number + 1
    return candidate


def between_marks(text: str, begin: str, end: str) -> list[str]:
    """What stands between pairs of marks, from left to right, each beginning with the nearest end after it. Its time
    grows with the text alone."""
    found: list[str] = []
    place = text.find(begin)
    while place >= 0:
        start = place + len(begin)
        stop = text.find(end, start)
        if stop < 0:
            break
        found.append(text[start:stop])
        place = text.find(begin, stop + len(end))
    return found
