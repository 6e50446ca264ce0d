"""Marks and notes that readers leave beside attempts: one of each author for an attempt.

They belong to the attempt's place (run, question, epoch), so they stay where it is made again. They are exported with
the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import Run
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import column_text
from ragrounds.evals.store.database import autocommit, upsert, write
from ragrounds.evals.store.row_sums import is_whole_row, summed
from ragrounds.evals.store.store import Store, now

MARK_WORDS = ("star", "check", "good", "wrong", "question")
"""Marks that are offered; any other word is one too."""
LONGEST_NOTE = 20_000
"""Characters of a note."""
_WORD = re.compile(r"[\w.+-]{1,40}")
_N = schema.notes


class AttemptNote(Struct, frozen=True, kw_only=True):
    """What one reader has left beside an attempt."""

    run: str
    """The run's id."""
    question_id: str
    epoch: int
    author: str
    mark: str
    """One word; empty: none."""
    text: str
    """Empty: no note."""
    at: float


NotesByPlace = dict[tuple[str, str, int], tuple[AttemptNote, ...]]
"""(run id, question id, epoch) → what readers have left there, by author."""


def checked_mark(mark: str) -> str:
    """A mark as it is stored, in small letters; an empty one takes a mark away.

    Raises:
        UserError: it is not one word of at most 40 letters, digits, dots, dashes.
    """
    plain = mark.strip().casefold()
    if plain and not _WORD.fullmatch(plain):
        raise UserError(
            f"The mark {mark!r} is not one word of letters, digits, '.', '-' or '+': {', '.join(MARK_WORDS)} …"
        )
    return plain


def write_note(
    store: Store,
    run: Run,
    question_id: str,
    epoch: int,
    *,
    author: str,
    mark: str | None = None,
    text: str | None = None,
) -> AttemptNote | None:
    """Leave a mark, a note or both; what is ``None`` stays as it is, what is empty is taken away.

    Returns:
        What the author has left there by now; ``None``: neither a mark nor a note.

    Raises:
        UserError: the mark is not one word, the note is too long, or the run is not in the store.
        StopRun: the store cannot be written.
    """
    if text is not None and len(text) > LONGEST_NOTE:
        raise UserError(f"The note has {len(text):,} characters; at most {LONGEST_NOTE:,} are kept.")
    chosen = None if mark is None else checked_mark(mark)
    number, author = store.number(run), column_text(author)
    mine = sa.and_(_N.c.run == number, _N.c.question_id == question_id, _N.c.epoch == epoch, _N.c.author == author)

    def work(connection: sa.Connection) -> AttemptNote | None:
        before = connection.execute(sa.select(_N.c.mark, _N.c.text).where(mine)).first()
        old_mark, old_text = (before.mark, before.text) if before else ("", "")
        note = AttemptNote(
            run=run.id,
            question_id=question_id,
            epoch=epoch,
            author=author,
            mark=old_mark if chosen is None else chosen,
            text=old_text if text is None else column_text(text.strip()),
            at=now(),
        )
        if not note.mark and not note.text:
            connection.execute(sa.delete(_N).where(mine))
            return None
        connection.execute(upsert(store.engine, _N), summed(_N, {**msgspec.structs.asdict(note), "run": number}))
        return note

    return write(store.engine, work)


_FIELDS = tuple(name for name in AttemptNote.__struct_fields__ if name != "run")
_DAMAGED = "damaged note: ragrounds doctor --store"


def notes_of(store: Store, runs: Iterable[Run]) -> NotesByPlace:
    """(run id, question id, epoch) → what readers have left there, by author."""
    found: NotesByPlace = {}
    with autocommit(store.engine) as connection:
        for run in runs:
            found |= notes_at(connection, run.id, store.number(run))
    return found


def notes_at(
    connection: sa.Connection, run: str, number: int, questions: Collection[str] | None = None
) -> NotesByPlace:
    """As :func:`notes_of`, for one run (its id, and its number in the store), and there for some questions alone."""
    found: NotesByPlace = {}
    chosen = sa.select(_N).where(_N.c.run == number)
    if questions is not None:
        chosen = chosen.where(_N.c.question_id.in_(sorted(questions)))
    for row in connection.execute(chosen.order_by(_N.c.question_id, _N.c.epoch, _N.c.author)):
        note = AttemptNote(**{name: getattr(row, name) for name in _FIELDS}, run=run)
        if not is_whole_row(_N, row):
            note = msgspec.structs.replace(note, mark="", text=_DAMAGED)
        place = (run, row.question_id, row.epoch)
        found[place] = (*found.get(place, ()), note)
    return found
