"""Where a note on an attempt is written, with what other readers wrote above it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import TextArea

from ragrounds.evals.store.attempt_notes import AttemptNote
from ragrounds.ui.trace.bars import KeyBar, KeysShown
from ragrounds.ui.trace.layout import TextBlock
from ragrounds.ui.trace.widgets import Pager, type_early

MARK_SIGNS = {"star": "★", "check": "✔", "good": "+", "wrong": "✘", "question": "?"}
"""How the marks that are offered stand in the list; another word has a sign for all."""
OTHER_SIGN = "•"
NOTE_SIGN = "✎"


def note_signs(notes: Sequence[AttemptNote]) -> str:
    """What stands in the list for readers' marks and notes: two characters at most."""
    marks = dict.fromkeys(MARK_SIGNS.get(note.mark, OTHER_SIGN) for note in notes if note.mark)
    written = NOTE_SIGN if any(note.text for note in notes) else ""
    return ("".join(marks)[: 2 - len(written)] + written)[:2]


def note_blocks(notes: Sequence[AttemptNote]) -> list[TextBlock]:
    """Readers' marks and notes as they stand above an attempt's detail."""
    if not notes:
        return []
    blocks = [TextBlock("notes", "heading")]
    for note in notes:
        sign = f" {MARK_SIGNS.get(note.mark, OTHER_SIGN)} {note.mark}" if note.mark else ""
        blocks.append(TextBlock(f"{note.author}{sign}", "mark"))
        if note.text:
            blocks.append(TextBlock(note.text, "plain", indent=2))
    return [*blocks, TextBlock("")]


class NoteScreen(ModalScreen[str | None]):
    """Asks for a note; ``None``: all stays as it is, an empty one takes it away."""

    DEFAULT_CSS = """
    NoteScreen {
        align: center middle;
        & > Vertical { width: 76; max-width: 96%; height: 60%; min-height: 12; border: round $accent;
                       background: $surface; }
        & TextArea { height: 1fr; border: none; background: $surface; padding: 0 1; &:focus { border: none; } }
        & Pager { height: auto; max-height: 8; border: none; background: $surface; padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "save", "Save the note", priority=True, id="note.save"),
        Binding("escape", "leave", "Leave without saving", priority=True, id="note.leave"),
    ]
    KEYS_SHOWN: ClassVar[KeysShown] = {"": (("note.save", "save"), ("note.leave", "leave without saving"))}

    def __init__(self, title: str, text: str, others: Sequence[AttemptNote] = ()) -> None:
        super().__init__()
        self.note_title, self._text, self._others = title, text, tuple(others)

    def compose(self) -> ComposeResult:
        """The notes of others, and the text to write."""
        with Vertical() as box:
            box.border_title = self.note_title
            if self._others:
                yield Pager(id="others", title="")
            yield TextArea(self._text, soft_wrap=True, show_line_numbers=False, tab_behavior="focus", id="note-text")
        yield KeyBar()

    def on_mount(self) -> None:
        """Begin at the end of what was written before."""
        if self._others:
            pager = self.query_one(Pager)
            blocks = note_blocks(self._others)
            pager.styles.height = min(8, len(blocks) + 2)
            pager.show(blocks)
        area = self.query_one(TextArea)
        self.set_focus(area)
        area.move_cursor(area.document.end)

    def on_key(self, event: events.Key) -> None:
        """Take what is typed before the text has the focus."""
        type_early(self.query_one(TextArea), event)

    def action_save(self) -> None:
        """Close with the note as it was written."""
        self.dismiss(self.query_one(TextArea).text)

    def action_leave(self) -> None:
        """Close; the note stays as it was."""
        self.dismiss(None)
