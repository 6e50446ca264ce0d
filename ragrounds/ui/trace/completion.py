"""What the filter line offers while one types: words of the language, values that there are, examples.

Pure functions of the text and the place of the cursor; the language is :mod:`ragrounds.evals.trace.attempt_filter`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ragrounds.evals.trace.attempt_filter import quoted
from ragrounds.evals.trace.filter_fields import BY_NAME, EXAMPLES, FIELDS, GOLD_PHRASES, FilterField
from ragrounds.ui.text import number_of

_JOINING = (("and", "both"), ("or", "one of both"), ("not", "the opposite of what follows"))
_SAID = (*((words, about) for words, _, about in GOLD_PHRASES), ("not run", "no attempt was made yet"))
"""Several words that say one thing, and what it means."""
_WORD = re.compile(r"""[\w.]+[:<>=!]*(?:"[^"]*"?|[^\s()"]*)$""")
"""What is being typed: a word, perhaps with a comparison and the beginning of a value."""
_SPLIT = re.compile(r"(\w+)(:|<=|>=|!=|<|>|=)(.*)", re.DOTALL)
_BEGIN = re.compile(r"(?<![\w:\"])\w")
"""Where a word begins, and with it perhaps one of several words."""
_SIGNS = {"flag": "", "number": ">", "value": ":", "text": ":"}
Values = Callable[[str], Sequence[tuple[str, int]]]
"""The name of a field → the values that there are, and how many attempts have each."""


class Suggestion(Struct, frozen=True):
    """Something that may be put into the line."""

    shown: str
    about: str
    text: str
    """The whole line, once it is taken."""
    cursor: int
    """Where the cursor is then."""


def suggestions(text: str, cursor: int, values: Values) -> list[Suggestion]:
    """What fits at the cursor: in an empty line examples, else what the words may become."""
    if not text.strip():
        known = {where for where, _ in EXAMPLES}
        offered = [*EXAMPLES, *((one.example, one.about) for one in FIELDS if one.example not in known)]
        return [Suggestion(where, about, where, len(where)) for where, about in offered]
    before, further = text[:cursor], [(f" {joining}", about) for joining, about in _JOINING[:2]]
    found = _WORD.search(before)
    begin, word = (found.start(), found.group()) if found else (cursor, "")
    if (inner := _SPLIT.fullmatch(word)) is not None:
        offers = _values(BY_NAME.get(inner[1].casefold()), inner[3], values)
        made = [_taken(text, begin, cursor, f"{inner[1]}{inner[2]}{value}", about) for value, about in offers]
        return made if made or not inner[3] else [_taken(text, cursor, cursor, *one) for one in further]
    # Several words that begin something come before the last one alone.
    for start in [match.start() for match in _BEGIN.finditer(before)][-3:]:
        begun = " ".join(before[start:].casefold().split())
        if " " in begun and any(begun == words for words, _ in _SAID) and not before.endswith(" "):
            return [_taken(text, cursor, cursor, *one) for one in further]
        said = [one for one in _SAID if one[0].startswith(begun) and one[0] != begun]
        if said and start < begin:
            return [_taken(text, start, cursor, *one) for one in said]
    wanted = word.casefold()
    joining = [one for one in _JOINING if one[0].startswith(wanted) and one[0] != wanted]
    offered = [*_words(wanted), *(joining if text[:begin].strip() else [])]
    return [_taken(text, begin, cursor, *one) for one in offered]


def _taken(text: str, begin: int, cursor: int, new: str, about: str) -> Suggestion:
    # A comparison goes on; whatever else is complete is followed by a space.
    after = text[cursor:]
    end = "" if new[-1:] in ":<>=" or after[:1] in (" ", ")") else " "
    return Suggestion(new, about, text[:begin] + new + end + after, begin + len(new) + len(end))


def _words(wanted: str) -> Iterable[tuple[str, str]]:
    """What begins with what was typed, then fields in whose words it stands."""
    yield from (one for one in _SAID if one[0].startswith(wanted))
    first = [one for one in FIELDS if one.name.startswith(wanted)]
    more = [one for one in FIELDS if one not in first and len(wanted) > 2 and wanted in f"{one.name} {one.about}"]
    for one in (*first, *more):
        yield one.name + _SIGNS[one.kind], one.about if one.kind == "flag" else f"{one.about}: {one.example}"


def _values(field: FilterField | None, begun: str, values: Values) -> Iterable[tuple[str, str]]:
    """Values of a field that hold what was typed, those that begin with it first."""
    if field is None:
        return
    if field.kind == "number":
        if not begun:
            figure = re.search(r"[<>=:]+(.+)", field.example)
            yield (figure[1] if figure else "1"), f"such as {field.example}"
        return
    if field.kind != "value":
        return
    wanted = begun.strip('"').casefold()
    counted = values(field.name)
    known = [(name, number_of(count, "attempt")) for name, count in counted]
    known += [(name, "") for name in field.values if name not in {one for one, _ in known}]
    fitting = [(name, about) for name, about in known if wanted in name.casefold() and name.casefold() != wanted]
    fitting.sort(key=lambda one: not one[0].casefold().startswith(wanted))
    for name, about in fitting:
        yield quoted(name), about
