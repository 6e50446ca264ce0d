"""Marks and notes of readers about attempts: one of each author for an attempt.

They belong to the attempt's key (run, question, epoch), so they remain when the attempt is repeated. They are exported
with the run.
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
"""Suggested marks; any other word is also a mark."""
LONGEST_NOTE = 20_000
"""Largest number of characters of a note."""
_WORD = re.compile(r"[\w.+-]{1,40}")
_N = schema.notes


class AttemptNote(Struct, frozen=True, kw_only=True):
    """Mark and note of one reader about an attempt."""

    run: str
    """Id of the run."""
    question_id: str
    epoch: int
    author: str
    mark: str
    """Mark of one word; empty if there is no mark."""
    text: str
    """Text of the note; empty if there is no note."""
    at: float


NotesByPlace = dict[tuple[str, str, int], tuple[AttemptNote, ...]]
"""Notes of readers, by author, for each (run id, question id, epoch)."""


def checked_mark(mark: str) -> str:
    """Return a mark as it is stored, in lower case; an empty one removes a mark.

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
    """Write a mark, a note or both. ``None`` leaves a value unchanged, and an empty text removes it.

    Returns:
        The author's mark and note after the change; ``None``: neither exists.

    Raises:
        UserError: the mark is not one word, the note is too long, or the run is not in the store.
        StopRun: the store cannot be written.
    """
    if text is not None and len(text) > LONGEST_NOTE:
        raise UserError(f"The note has {len(text):,} characters; at most {LONGEST_NOTE:,} are kept.")
    new_mark = None if mark is None else checked_mark(mark)
    number, author = store.number(run), column_text(author)
    same_note = sa.and_(_N.c.run == number, _N.c.question_id == question_id, _N.c.epoch == epoch, _N.c.author == author)

    def work(connection: sa.Connection) -> AttemptNote | None:
        before = connection.execute(sa.select(_N.c.mark, _N.c.text).where(same_note)).first()
        old_mark, old_text = (before.mark, before.text) if before else ("", "")
        note = AttemptNote(
            run=run.id,
            question_id=question_id,
            epoch=epoch,
            author=author,
            mark=old_mark if new_mark is None else new_mark,
            text=old_text if text is None else column_text(text.strip()),
            at=now(),
        )
        if not note.mark and not note.text:
            connection.execute(sa.delete(_N).where(same_note))
            return None
        connection.execute(upsert(store.engine, _N), summed(_N, {**msgspec.structs.asdict(note), "run": number}))
        return note

    return write(store.engine, work)


_FIELDS = tuple(name for name in AttemptNote.__struct_fields__ if name != "run")
_DAMAGED = "damaged note: ragrounds doctor --store"


def notes_of(store: Store, runs: Iterable[Run]) -> NotesByPlace:
    """Return the notes of readers, by author, for each (run id, question id, epoch)."""
    notes: NotesByPlace = {}
    with autocommit(store.engine) as connection:
        for run in runs:
            notes |= notes_at(connection, run.id, store.number(run))
    return notes


def notes_at(
    connection: sa.Connection, run: str, number: int, questions: Collection[str] | None = None
) -> NotesByPlace:
    """Return notes like :func:`notes_of`, for one run (its id, and its number in the store), optionally for some
    questions alone.
    """
    notes: NotesByPlace = {}
    statement = sa.select(_N).where(_N.c.run == number)
    if questions is not None:
        statement = statement.where(_N.c.question_id.in_(sorted(questions)))
    for row in connection.execute(statement.order_by(_N.c.question_id, _N.c.epoch, _N.c.author)):
        note = AttemptNote(**{name: getattr(row, name) for name in _FIELDS}, run=run)
        if not is_whole_row(_N, row):
            note = msgspec.structs.replace(note, mark="", text=_DAMAGED)
        attempt_key = (run, row.question_id, row.epoch)
        notes[attempt_key] = (*notes.get(attempt_key, ()), note)
    return notes
