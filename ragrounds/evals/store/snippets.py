"""What a reader sees of a hit: one line of an attempt's own texts around the words that were looked for.

It is cut from the texts themselves, not from the index, which keeps none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_texts import Placed, attempt_fields, is_foreign_run, passage_texts, question_texts
from ragrounds.evals.store.database import autocommit
from ragrounds.evals.store.dialect import AttemptPlace
from ragrounds.evals.store.recorded_calls import AttemptReader, stored_questions
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.text_folding import TextTerm, spans_of, terms_of

_WIDTH = 200
"""Characters of a snippet."""
_BEFORE = 50
"""Of these, before the first word."""
_LOOKED = 400_000
"""Characters of a text that are looked through."""
_ORDER = ("query", "reply", "answer", "tool", "prompt", "reason", "note", "passage", "question")
"""Where a hit is looked for, the most telling field first."""


class Snippet(Struct, frozen=True):
    """One line of an attempt around what was found."""

    field: str
    """One of :data:`ragrounds.evals.store.schema.TEXT_FIELDS`; empty: nothing of it stands there any more."""
    text: str
    """At most 200 characters of one line, as they were written: nothing in them is to be interpreted."""
    spans: tuple[tuple[int, int], ...]
    """(begin, end) of the words found, in characters of `text`."""
    call: int | None
    """The place among the attempt's calls of the one whose text it is; ``None``: it is of none."""


NOWHERE = Snippet("", "", (), None)
"""Of an attempt in which nothing is found any more."""


def snippets(store: Store, found: Sequence[AttemptPlace], text: str, fields: Collection[str] = ()) -> list[Snippet]:
    """The most telling snippet of each attempt, in the order given: the one with most of the words.

    It reads on a connection of its own, and may run in a thread.

    Args:
        store: where the attempts are.
        found: as :func:`ragrounds.evals.store.text_index.find_attempts` gives them: the few that are shown.
        text: what was looked for.
        fields: where; none: anywhere.

    Raises:
        TextQueryError: there is no word in `text`.
    """
    terms = terms_of(text)
    wanted = [name for name in _ORDER if not fields or name in fields]
    runs = {store.number(run): run for run in store.runs()} if found else {}
    cut: dict[AttemptPlace, Snippet] = {}
    with autocommit(store.engine) as connection:
        reader = AttemptReader()
        for number in dict.fromkeys(number for number, _, _ in found if number in runs):
            run = runs[number]
            places = [(question_id, epoch) for one, question_id, epoch in found if one == number]
            asked = stored_questions(connection, run, {id for id, _ in places}) if "question" in wanted else {}
            notes = _notes(connection, number, {id for id, _ in places}) if "note" in wanted else {}
            for (id, epoch), (attempt, traced) in reader.read(connection, run, number, places).items():
                texts = attempt_fields(attempt, traced, is_foreign_run(run))
                texts["passage"] = passage_texts(traced)
                texts["question"] = question_texts(asked[id].question) if id in asked else []
                texts["note"] += notes.get((id, epoch), [])
                cut[number, id, epoch] = _best(((name, texts[name]) for name in wanted), terms)
    return [cut.get(place, NOWHERE) for place in found]


def _best(fields: Iterable[tuple[str, Sequence[Placed]]], terms: Sequence[TextTerm]) -> Snippet:
    """The text that holds most of the terms, the first of these."""
    best, most = NOWHERE, 0
    for name, texts in fields:
        for text, place in texts:
            looked = text[:_LOOKED]
            held = sum(bool(spans_of(looked, [term])) for term in terms) if _may_hold(looked, terms) else 0
            if held > most:
                best, most = _cut(name, looked, place, terms), held
            if most == len(terms):
                return best
    return best


def _may_hold(text: str, terms: Sequence[TextTerm]) -> bool:
    """A quick look: whether some word of a term stands in a text of ASCII. Others have to be folded."""
    if not text.isascii():
        return True
    lowered = text.lower()
    return any(all(word in lowered for word in term.words) for term in terms)


def _cut(field: str, text: str, place: int | None, terms: Sequence[TextTerm]) -> Snippet:
    first = spans_of(text, terms)[0][0]
    begin = max(0, first - _BEFORE)
    if begin:
        gap = text.find(" ", begin, first)
        begin = gap + 1 if gap >= 0 else begin
    # One line; the spans are looked for in it anew.
    line = " ".join(text[begin : begin + 4 * _WIDTH].split())
    line = ("… " if begin else "") + line
    line = line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
    return Snippet(field, line, tuple(spans_of(line, terms)), place)


def _notes(connection: sa.Connection, number: int, ids: Collection[str]) -> dict[tuple[str, int], list[Placed]]:
    """What readers have written beside attempts."""
    table = schema.notes
    found: dict[tuple[str, int], list[Placed]] = {}
    wanted = sa.select(table).where(table.c.run == number, table.c.question_id.in_(sorted(ids)))
    for row in connection.execute(wanted):
        found.setdefault((row.question_id, row.epoch), []).extend([(row.text, None), (row.mark, None)])
    return found
