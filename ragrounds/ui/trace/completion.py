"""Completion of the filter line: words of the language, existing values, examples.

Pure functions of the text and the cursor; the language is that of :mod:`ragrounds.evals.trace.attempt_filter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ragrounds.evals.trace.attempt_filter import quoted
from ragrounds.evals.trace.filter_fields import BY_NAME, EXAMPLES, FIELDS, GOLD_PHRASES, FilterField
from ragrounds.ui.text import number_of

_JOINING = (("and", "both"), ("or", "one of both"), ("not", "the opposite of what follows"))
_PHRASES = (*((words, about) for words, _, about in GOLD_PHRASES), ("not run", "no attempt was made yet"))
"""Phrases of several words with one meaning, and that meaning."""
_WORD = re.compile(r"""[\w.]+[:<>=!]*(?:"[^"]*"?|[^\s()"]*)$""")
"""Text being typed: a word, perhaps with a comparison and the beginning of a value."""
_SPLIT = re.compile(r"(\w+)(:|<=|>=|!=|<|>|=)(.*)", re.DOTALL)
_BEGIN = re.compile(r"(?<![\w:\"])\w")
"""Beginning of a word, and perhaps of a phrase."""
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
    before, further = text[:cursor], [(f" {joining}", about) for joining, about in _JOINING[:2]]
    match = _WORD.search(before)
    begin, word = (match.start(), match.group()) if match else (cursor, "")
    if (inner := _SPLIT.fullmatch(word)) is not None:
        offers = _values(BY_NAME.get(inner[1].casefold()), inner[3], values)
        taken = [_insert(text, begin, cursor, f"{inner[1]}{inner[2]}{value}", about) for value, about in offers]
        return taken if taken or not inner[3] else [_insert(text, cursor, cursor, *joiner) for joiner in further]
    # Completions of several words come before those of the last word alone.
    for start in [match.start() for match in _BEGIN.finditer(before)][-3:]:
        phrase_start = " ".join(before[start:].casefold().split())
        if " " in phrase_start and any(phrase_start == words for words, _ in _PHRASES) and not before.endswith(" "):
            return [_insert(text, cursor, cursor, *joiner) for joiner in further]
        phrases = [phrase for phrase in _PHRASES if phrase[0].startswith(phrase_start) and phrase[0] != phrase_start]
        if phrases and start < begin:
            return [_insert(text, start, cursor, *phrase) for phrase in phrases]
    prefix = word.casefold()
    joining = [joiner for joiner in _JOINING if joiner[0].startswith(prefix) and joiner[0] != prefix]
    offered = [*_words(prefix), *(joining if text[:begin].strip() else [])]
    return [_insert(text, begin, cursor, *offer) for offer in offered]


def _insert(text: str, begin: int, cursor: int, new: str, about: str) -> Suggestion:
    # After a comparison a value follows; everything else is complete and is followed by a space.
    after = text[cursor:]
    end = "" if new[-1:] in ":<>=" or after[:1] in (" ", ")") else " "
    return Suggestion(new, about, text[:begin] + new + end + after, begin + len(new) + len(end))


def _words(prefix: str) -> Iterable[tuple[str, str]]:
    """Return phrases and fields that begin with the prefix, then fields whose description contains it."""
    yield from (phrase for phrase in _PHRASES if phrase[0].startswith(prefix))
    first = [field for field in FIELDS if field.name.startswith(prefix)]
    more = [
        field for field in FIELDS if field not in first and len(prefix) > 2 and prefix in f"{field.name} {field.about}"
    ]
    for field in (*first, *more):
        yield (
            field.name + _SIGNS[field.kind],
            field.about if field.kind == "flag" else f"{field.about}: {field.example}",
        )


def _values(field: FilterField | None, typed: str, values: Values) -> Iterable[tuple[str, str]]:
    """Return values of a field that contain the typed text; those that begin with it come first."""
    if field is None:
        return
    if field.kind == "number":
        if not typed:
            figure = re.search(r"[<>=:]+(.+)", field.example)
            yield (figure[1] if figure else "1"), f"such as {field.example}"
        return
    if field.kind != "value":
        return
    text = typed.strip('"').casefold()
    counted = values(field.name)
    counted_values = [(name, number_of(count, "attempt")) for name, count in counted]
    counted_values += [(name, "") for name in field.values if name not in {listed for listed, _ in counted_values}]
    fitting = [(name, about) for name, about in counted_values if text in name.casefold() and name.casefold() != text]
    fitting.sort(key=lambda option: not option[0].casefold().startswith(text))
    for name, about in fitting:
        yield quoted(name), about
