"""Completion of the filter line: words of the language, existing values, examples.

Pure functions of the text and the cursor; the language is that of :mod:`ragrounds.evals.trace.attempt_filter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from ragrounds.evals.trace.attempt_filter import quoted
from ragrounds.evals.trace.filter_fields import BY_NAME, EXAMPLES, FIELDS, GOLD_PHRASES
from ragrounds.ui.text import number_of

_WORD = re.compile(r"""(?:\bgold (?:not |all )?)?[\w.]*[:<>=!]*(?:"[^"]*"?|[^\s()"]*)$""")
"""Text being typed: a word or a phrase about gold, perhaps with a comparison and the beginning of a value."""
_SPLIT = re.compile(r"(\w+)(:|<=|>=|!=|<|>|=)(.*)", re.DOTALL)
_SIGNS = {"flag": "", "number": ">", "value": ":", "text": ":"}
Values = Callable[[str], Sequence[tuple[str, int]]]
"""Maps the name of a field to its values and the number of attempts with each."""


class Suggestion(Struct, frozen=True):
    """Suggestion for the filter line."""

    label: str
    about: str
    text: str
    """Whole line after the suggestion is taken."""
    cursor: int
    """Position of the cursor after that."""


def suggestions(text: str, cursor: int, values: Values) -> list[Suggestion]:
    """Return the suggestions at the cursor: for an empty line examples, else completions of the words."""
    if not text.strip():
        example_filters = {where for where, _ in EXAMPLES}
        offered = [
            *EXAMPLES,
            *((field.example, field.about) for field in FIELDS if field.example not in example_filters),
        ]
        return [Suggestion(where, about, where, len(where)) for where, about in offered]
    match = _WORD.search(text, endpos=cursor)
    begin, word = (match.start(), match.group()) if match else (cursor, "")
    if (inner := _SPLIT.fullmatch(word)) is not None:
        name, sign, value = inner.groups()
        offers = [(f"{name}{sign}{offer}", about) for offer, about in _values(name, value, values)]
    else:
        offers = _words(word.casefold())
    return [_insert(text, begin, cursor, *offer) for offer in offers]


def _insert(text: str, begin: int, cursor: int, new: str, about: str) -> Suggestion:
    # After a comparison a value follows; everything else is complete and is followed by a space.
    after = text[cursor:]
    end = "" if new[-1:] in ":<>=" or after[:1] in (" ", ")") else " "
    return Suggestion(new, about, text[:begin] + new + end + after, begin + len(new) + len(end))


def _words(prefix: str) -> list[tuple[str, str]]:
    """Return phrases and fields that begin with the prefix, then those whose description contains it."""
    options = [(words, about) for words, _, about in GOLD_PHRASES]
    for field in FIELDS:
        example = "" if field.kind == "flag" else f": {field.example}"
        options.append((field.name + _SIGNS[field.kind], field.about + example))
    fitting = [
        (words, about)
        for words, about in options
        if words != prefix and (words.startswith(prefix) or (len(prefix) > 2 and prefix in about))
    ]
    return sorted(fitting, key=lambda option: not option[0].startswith(prefix))


def _values(name: str, typed: str, values: Values) -> list[tuple[str, str]]:
    """Return values of a field that contain the typed text; those that begin with it come first."""
    field = BY_NAME.get(name.casefold())
    if field is None or field.kind != "value":
        return []
    text, counts = typed.strip('"').casefold(), dict(values(field.name))
    counts |= {value: 0 for value in field.values if value not in counts}
    fitting = [value for value in counts if text in value.casefold() and value.casefold() != text]
    fitting.sort(key=lambda value: not value.casefold().startswith(text))
    return [(quoted(value), number_of(counts[value], "attempt") if counts[value] else "") for value in fitting]
