"""Readers' marks and notes on attempts: those of the store, their signs, and the screen for writing a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import TextArea

from ragrounds.evals.store.attempt_notes import AttemptNote, notes_of, write_note
from ragrounds.evals.trace.summaries import AttemptSummary, Pages
from ragrounds.ui.trace.bars import KeyBar
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.widgets import type_early

MARK_SIGNS = {"star": "★", "check": "✔", "good": "+", "wrong": "✘", "question": "?"}
"""Signs of the proposed marks in the list; all other marks share a sign."""
OTHER_SIGN = "•"
NOTE_SIGN = "✎"


def note_signs(notes: Sequence[AttemptNote]) -> str:
    """Return the signs of readers' marks and notes for the list: two characters at most."""
    marks = dict.fromkeys(MARK_SIGNS.get(note.mark, OTHER_SIGN) for note in notes if note.mark)
    note_sign = NOTE_SIGN if any(note.text for note in notes) else ""
    return ("".join(marks)[: 2 - len(note_sign)] + note_sign)[:2]


def note_blocks(notes: Sequence[AttemptNote]) -> list[TextBlock]:
    """Return readers' marks and notes as blocks above an attempt's detail."""
    if not notes:
        return []
    blocks = [TextBlock("notes", "heading")]
    for note in notes:
        sign = f" {MARK_SIGNS.get(note.mark, OTHER_SIGN)} {note.mark}" if note.mark else ""
        blocks.append(TextBlock(f"{note.author}{sign}", "mark"))
        if note.text:
            blocks.append(TextBlock(note.text, "plain", indent=2))
    return [*blocks, TextBlock("")]


class ReaderNotes:
    """Marks and notes on the attempts of some pages, and the author of new ones. They are few: all are kept in
    memory."""

    def __init__(self, pages: Pages, author: str) -> None:
        self.pages, self.author = pages, author
        self._notes: dict[tuple[str, str, int], tuple[AttemptNote, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._notes)

    def read(self) -> None:
        """Read the current notes from the store."""
        self._notes = notes_of(self.pages.store, self.pages.runs)

    def notes_on(self, summary: AttemptSummary) -> tuple[AttemptNote, ...]:
        """Return the readers' notes on an attempt, one per author."""
        return self._notes.get((summary.run.id, summary.question.id, summary.epoch), ())

    def mine(self, summary: AttemptSummary) -> AttemptNote | None:
        """Return this reader's note on an attempt."""
        return next((note for note in self.notes_on(summary) if note.author == self.author), None)

    def marks(self) -> list[str]:
        """Return all words that are used as marks."""
        return sorted({note.mark for notes in self._notes.values() for note in notes if note.mark})

    def write(self, summary: AttemptSummary, *, mark: str | None = None, text: str | None = None) -> None:
        """Write a mark or a note; an empty one removes it.

        Raises:
            UserError: the mark is not one word, or the note is too long.
        """
        write_note(
            self.pages.store, summary.run, summary.question.id, summary.epoch, author=self.author, mark=mark, text=text
        )
        self.read()


class NoteScreen(ModalScreen[str | None]):
    """Dialog that asks for a note. It returns ``None`` for no change; an empty note removes the stored one."""

    DEFAULT_CSS = """
    NoteScreen {
        align: center middle;
        & > Vertical { width: 76; max-width: 96%; height: 60%; min-height: 12; border: round $accent;
                       background: $surface; }
        & TextArea { height: 1fr; border: none; background: $surface; padding: 0 1; &:focus { border: none; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "save", "Save the note", priority=True, id="note.save"),
        Binding("escape", "leave", "Leave without saving", priority=True, id="note.leave"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self.note_title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Compose the text to write."""
        with Vertical() as box:
            box.border_title = self.note_title.replace("[", r"\[")
            yield TextArea(self._text, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", id="note-text")
        yield KeyBar()

    def on_mount(self) -> None:
        """Put the cursor at the end of the previous text."""
        area = self.query_one(TextArea)
        self.set_focus(area)
        area.move_cursor(area.document.end)

    def on_key(self, event: events.Key) -> None:
        """Keep letters that are typed before the text has the focus."""
        type_early(self.query_one(TextArea), event)

    def action_save(self) -> None:
        """Close with the note as it was written."""
        self.dismiss(self.query_one(TextArea).text)

    def action_leave(self) -> None:
        """Close; the note stays as it was."""
        self.dismiss(None)
