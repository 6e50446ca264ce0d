"""Readers' marks and notes beside the attempts of the viewer: few, so all of them are held."""

from __future__ import annotations

from ragrounds.evals.store.attempt_notes import AttemptNote, notes_of, write_note
from ragrounds.evals.store.summaries import AttemptSummary, Pages


class ReaderNotes:
    """The marks and notes on the attempts of some pages, and who writes here."""

    def __init__(self, pages: Pages, author: str) -> None:
        self.pages, self.author = pages, author
        self._held: dict[tuple[str, str, int], tuple[AttemptNote, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def read(self) -> None:
        """Read what is in the store by now."""
        self._held = notes_of(self.pages.store, self.pages.runs)

    def of(self, summary: AttemptSummary) -> tuple[AttemptNote, ...]:
        """What readers have left beside an attempt, by author."""
        return self._held.get((summary.run.id, summary.question.id, summary.epoch), ())

    def mine(self, summary: AttemptSummary) -> AttemptNote | None:
        """What this reader has left there."""
        return next((note for note in self.of(summary) if note.author == self.author), None)

    def others(self, summary: AttemptSummary) -> tuple[AttemptNote, ...]:
        """What others have left there."""
        return tuple(note for note in self.of(summary) if note.author != self.author)

    def marks(self) -> list[str]:
        """All words by which something is marked."""
        return sorted({note.mark for notes in self._held.values() for note in notes if note.mark})

    def write(self, summary: AttemptSummary, *, mark: str | None = None, text: str | None = None) -> None:
        """Leave a mark or a note; an empty one takes it away.

        Raises:
            UserError: the mark is not one word, or the note is too long.
        """
        write_note(
            self.pages.store, summary.run, summary.question.id, summary.epoch, author=self.author, mark=mark, text=text
        )
        self.read()
