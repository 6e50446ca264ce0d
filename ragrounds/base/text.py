"""Functions that make text from outside storable and safe to show."""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from html import unescape
from itertools import islice
from typing import Any, Literal


def wellformed(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates by U+FFFD.

    Python accepts lone surrogates in JSON escapes, but no encoder, database or server does.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def wellformed_all(value: Any) -> Any:
    """Apply :func:`wellformed` to every text inside lists and dictionaries."""
    return map_texts(value, wellformed)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Apply a function to every text inside lists and dictionaries, also to their keys."""
    root = [value]
    pending = [value]  # no recursion: values from a model or a file may be nested to any depth
    pending[0] = root
    while pending:
        container = pending.pop()
        for key, item in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(item, str):
                container[key] = change(item)
            elif isinstance(item, dict | list | tuple):
                container[key] = inner = (
                    {change(name) if isinstance(name, str) else name: inside for name, inside in item.items()}
                    if isinstance(item, dict)
                    else list(item)
                )
                pending.append(inner)
    return root[0]


def escaped_json(text: str) -> str:
    """Escape every control, formatting and zero-width character in a JSON document.

    The document means the same and has no effect on a terminal.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], text)


def fault(problem: BaseException) -> str:
    """Return a decoder's error as a message."""
    return "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)


def typed_value(text: str) -> object:
    """Parse a value as typed on a command line: JSON, or else the text itself."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML text into its tables.

    Raises:
        tomllib.TOMLDecodeError: it is not TOML, or is nested too deeply.
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None


_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except line feed and tab
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # soft hyphen, joiners, invisible fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, line separators, bidirectional
    "\ufe00-\ufe0f\U000e0000-\U000e0fff"  # variation selectors and tags: text can be hidden in them
    "\ud800-\udfff]"
)


_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def without_invisible(text: str) -> str:
    """Return a text without control, formatting and zero-width characters. Every end of a line is a line feed."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text  # most texts; this takes a fifth of the time
    return _UNSAFE.sub("", _LINE_ENDS.sub("\n", text))


_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8}\d{0,2});", re.IGNORECASE)


def without_entities(text: str) -> str:
    """Return a text with HTML's entities replaced by their characters."""
    return _ENTITY.sub(lambda entity: unescape(entity[0]), text) if "&" in text else text


def safe(text: str, longest: int | None = None) -> str:
    """Replace every control, formatting and zero-width character by ``<U+XXXX>``.

    Line feeds and tabs stay. A text longer than `longest` characters is cut, and the number of missing characters is
    appended.
    """
    if longest is not None and len(text) > longest:
        text = f"{text[:longest]}… [{len(text) - longest:,} more characters]"
    return _UNSAFE.sub(lambda match: f"<U+{ord(match.group()):04X}>", text.replace("\r\n", "\n"))


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
"""File names that Windows treats as devices, with any ending."""


_MANY_MARKS = re.compile(r"[^\w\x00-\x7f]{31,}")
_MAX_MARKS = 30
"""Maximum number of marks on one letter in Unicode's stream-safe text (UAX 15, section 13). No script needs more."""


def normalized(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return a text in one of Unicode's normal forms, in time linear in its length.

    Sorting the marks on one letter takes quadratic time, so only the first 30 marks are kept.
    """
    return unicodedata.normalize(form, text if text.isascii() else _MANY_MARKS.sub(_drop_excess_marks, text))


ONE_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
"""Full-width letters, digits and signs as ASCII, as Lucene's CJKWidthFilter has them."""
UNSPACED = r"\u3040-\u30ff\u3400-\u9fff"
"""Ranges of Chinese and Japanese letters, which are written without spaces, for a class in a pattern."""
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")


def words(text: str, most: int | None = None) -> list[str]:
    """Return a text's words without case and punctuation, or its first ones, at `most` that many. Chinese and Japanese
    characters are separate words.
    """
    folded = text.casefold()
    if most is None:  # twice as fast
        return _WORD.findall(folded)
    return [word[0] for word in islice(_WORD.finditer(folded), most)]


def language_of(text: str) -> str:
    """Return the language of prompts for a text: ``zh`` if it has a Chinese letter, else ``en``."""
    return "zh" if any("\u4e00" <= letter <= "\u9fff" for letter in text) else "en"


def _drop_excess_marks(match: re.Match[str]) -> str:
    letters, marks = list[str](), 0
    for letter in match[0]:
        marks = marks + 1 if unicodedata.combining(letter) else 0
        if marks <= _MAX_MARKS:
            letters.append(letter)
    return "".join(letters)


def fold(text: str) -> str:
    """Return the text with uniform case and spacing."""
    return " ".join(text.split()).casefold()


def file_name(text: str, longest: int = 120, instead: str = "_", kept: str = "._=-") -> str:
    """Return a file name for any text that every system accepts as a plain name and no program takes for an option.

    Letters, digits and the characters of `kept` stay; all others become `instead`. The name begins and ends with a
    letter or digit, has at most `longest` bytes, and is not empty. Two texts may have the same name.
    """
    composed = normalized("NFC", wellformed(text))
    name = "".join(letter if letter.isalnum() or letter in kept else instead for letter in composed)
    name = name.strip("._=- ").encode()[:longest].decode(errors="ignore").rstrip("._=- ") or "unnamed"
    stem, dot, rest = name.partition(".")
    return f"{stem}{instead}{dot}{rest}" if stem.casefold() in _DEVICES else name


def file_name_among(text: str, suffix: str, taken: Iterable[str] = ()) -> str:
    """Return :func:`file_name` with a suffix. A number precedes the suffix if the name is in `taken`, ignoring case."""
    name, used_names = file_name(text), {used_name.casefold() for used_name in taken}
    candidate, number = f"{name}{suffix}", 2
    while candidate.casefold() in used_names:
        candidate, number = f"{name}-{number}{suffix}", number + 1
    return candidate


def between_marks(text: str, begin: str, end: str) -> list[str]:
    """Return the texts between pairs of marks, from left to right. Each pair ends at the nearest `end`.

    The time is linear in the length of the text.
    """
    parts: list[str] = []
    index = text.find(begin)
    while index >= 0:
        start = index + len(begin)
        stop = text.find(end, start)
        if stop < 0:
            break
        parts.append(text[start:stop])
        index = text.find(begin, stop + len(end))
    return parts


def listed(names: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """Join the first `most` names of a list, and the number of further names."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return separator.join(names[:most]) + more
