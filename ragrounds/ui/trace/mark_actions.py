"""Marking an attempt and writing a note on it, for screens that have a list of attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from ragrounds.errors import StopRun, UserError
from ragrounds.evals.store.attempt_notes import MARK_WORDS
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import AttemptList
from ragrounds.ui.trace.dialogs import FindBar
from ragrounds.ui.trace.menu import MenuLine, MenuScreen, letters
from ragrounds.ui.trace.note_screen import MARK_SIGNS, OTHER_SIGN, NoteScreen
from ragrounds.ui.trace.reader_notes import ReaderNotes

if TYPE_CHECKING:
    from textual.screen import Screen

    _Base = Screen[int | None]
else:
    _Base = object


class MarkActions(_Base):
    """The keys of marks and notes. The screen has a :class:`FindBar`, in which a mark of one's own is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("asterisk", "mark", "Mark …", id="mark", show=False, key_display="*"),
        Binding("a", "note", "Write a note", id="note", show=False, priority=True),
    ]
    attempt_list: AttemptList
    notes: ReaderNotes

    def notes_changed(self) -> None:
        """Show the marks and the notes by now."""
        raise NotImplementedError

    def action_mark(self) -> None:
        """Choose a mark for the attempt under the cursor."""
        summary = self.attempt_list.current
        if summary is None:
            return
        mine = self.notes.mine(summary)
        here = mine.mark if mine else ""
        words = [*MARK_WORDS, *(word for word in self.notes.marks() if word not in MARK_WORDS)]
        given = letters(words, taken="qjkgGx0")
        lines = [
            MenuLine(word, f"{MARK_SIGNS.get(word, OTHER_SIGN)} {word}", "", letter, "▸ " if word == here else "  ")
            for word, letter in zip(words, given, strict=True)
        ]
        lines += [MenuLine(" ", "another word …", "", "+"), MenuLine("", "no mark", "", "0")]

        def chosen(word: str | None) -> None:
            """Leave the mark."""
            if word == " ":
                self.query_one(FindBar).ask("mark with the word", here, self.focused, self.leave_mark)
            elif word is not None:
                self.leave_mark(word)

        at = words.index(here) if here in words else 0
        self.app.push_screen(MenuScreen(f"mark {one_line(summary.question.id, 40)}", lines, at), chosen)

    def leave_mark(self, word: str) -> None:
        """Mark the attempt under the cursor; an empty word takes the mark away."""
        self._write(mark=word)

    def action_note(self) -> None:
        """Write a note on the attempt under the cursor."""
        summary = self.attempt_list.current
        if summary is None:
            return
        mine = self.notes.mine(summary)

        def written(text: str | None) -> None:
            """Keep the note."""
            if text is not None:
                self._write(text=text)

        title = f"note on {one_line(summary.question.id, 30)}, {one_line(summary.run.agent, 30)}"
        self.app.push_screen(NoteScreen(title, mine.text if mine else "", self.notes.others(summary)), written)

    def _write(self, mark: str | None = None, text: str | None = None) -> None:
        summary = self.attempt_list.current
        if summary is None:
            return
        try:
            self.notes.write(summary, mark=mark, text=text)
        except (UserError, StopRun) as error:
            self.app.notify(str(error), markup=False, severity="error")
            return
        self.notes_changed()
