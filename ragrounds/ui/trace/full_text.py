"""Full text: the attempts that hold some words anywhere, each with the place, before any of them is opened."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from ragrounds.errors import UserError
from ragrounds.evals.store.attempt_filter import quoted
from ragrounds.evals.store.filter_fields import FIELDS
from ragrounds.evals.store.text_search import Snippet, snippets
from ragrounds.ui.text import one_line
from ragrounds.ui.trace.attempt_list import AttemptList, agent_cell, mark, short_names
from ragrounds.ui.trace.bars import KeyBar, TopLine
from ragrounds.ui.trace.layout import Cells, TextBlock, fit, shown
from ragrounds.ui.trace.view import answer, teller
from ragrounds.ui.trace.widgets import Pager, Rows, type_early

_TERM = re.compile(r'(?:(?P<field>\w+):)?(?P<text>"[^"]*"\*?|[^\s"]+)')
_FIELDS = {one.name for one in FIELDS if one.kind == "text"}
_AHEAD = 80
"""Hits whose places are looked up at a time: more than a screenful."""


def terms(text: str) -> list[tuple[str, str]]:
    """Field (empty: any) and words of each term: words by themselves, phrases in quotes, a beginning with a star."""
    found = []
    for match in _TERM.finditer(text):
        field, words = (match["field"] or "").casefold(), match["text"]
        if field and field not in _FIELDS:
            field, words = "", f"{match['field']}:{words}"
        found.append((field, words))
    return found


def as_filter(text: str) -> str:
    """What was typed as an expression of the filter language: every term has to be there."""
    written = []
    for field, words in terms(text):
        plain = words.strip('"')
        begins = words.endswith("*") and len(plain) > 1
        held = quoted(plain.rstrip("*")) if begins else words if words.startswith('"') else quoted(plain)
        written.append(f"{field or 'text'}:{held}{'*' if begins else ''}")
    return " ".join(written)


class FullTextScreen(Screen[int | None]):
    """A line to type in above the hits; gives the place of the attempt that is to be opened."""

    DEFAULT_CSS = """
    FullTextScreen {
        & Input { border: none; height: 1; padding: 0 1; background: $surface; &:focus { border: none; } }
        & Rows { height: 2fr; border: round $border-blurred; &:focus { border: round $accent; } }
        & Pager { height: 1fr; max-height: 9; border: round $border-blurred; &:focus { border: round $accent; } }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", id="text.leave"),
        Binding("slash,F", "again", "Search for something else", id="text.again", key_display="/"),
        Binding("n", "move(1)", "Next hit", id="text.next", show=False),
        Binding("N", "move(-1)", "Hit before", id="text.previous", show=False),
    ]

    def __init__(self, attempt_list: AttemptList, text: str = "") -> None:
        super().__init__()
        self.text = text
        self.listed = AttemptList(attempt_list.pages)
        """The hits, read as they are shown."""
        self.listed.arrange(array("Q"), "", "asked")
        self.found: dict[int, Snippet] = {}
        """Where the text stands, by the hit's place."""
        self.agents = short_names(attempt_list.pages.runs)

    def compose(self) -> ComposeResult:
        """What is searched for, the hits, and the place in the one under the cursor."""
        yield TopLine("")
        yield Input(self.text, placeholder='words, "a phrase", the beginning of a wor*, query:edema', id="full-text")
        yield Rows(self._row, id="hits", title="attempts that hold it")
        yield Pager(id="hit", title="where")
        yield KeyBar()

    def on_mount(self) -> None:
        """Ask for a text, or show what was found before."""
        self.query_one(TopLine).tell("full text of questions, queries, passages, replies, answers and notes")
        self.set_focus(self.query_one(Input))
        if self.text:
            self.search(self.text)

    def on_key(self, event: events.Key) -> None:
        """Take what is typed before the line has the focus."""
        type_early(self.query_one(Input), event)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self.search(event.value.strip())

    def search(self, text: str) -> None:
        """Search for a text in all attempts."""
        self.text = text
        self.query_one(TopLine).tell("searching …")
        self._search(text)

    @work(thread=True, exclusive=True, group="full text")
    def _search(self, text: str) -> None:
        try:
            self.listed.complete(as_filter(text), "asked", teller(self, self.query_one(TopLine).tell))
            order = self.listed.pages.order(as_filter(text))
            answer(self, self._searched, text, order, "")
        except UserError as error:
            answer(self, self._searched, text, array("Q"), str(error))

    def _searched(self, text: str, order: array[int], problem: str) -> None:
        if text != self.text:
            return
        self.listed.arrange(order, "", "asked")
        self.listed.move(0)
        self.found.clear()
        total = f"{len(order):,} of {len(self.listed.pages):,} attempts hold it"
        self.query_one(TopLine).tell(problem or (total if order else f"No attempt holds {one_line(text, 60)}."))
        rows = self.query_one("#hits", Rows)
        rows.show(len(order), 0)
        if order:
            rows.focus()
            self._look_up(0)
        self._show_hit()

    @work(thread=True, group="snippets")
    def _look_up(self, row: int) -> None:
        """Find the places of the text in the hits around a row."""
        pages, text = self.listed.pages, self.text
        order: Sequence[int] = self.listed.order or ()
        first = max(0, row - _AHEAD // 2)
        wanted = [index for index in order[first : first + _AHEAD] if index not in self.found]
        hits = pages.read(wanted)
        asked = [(pages.store.number(one.run), one.question.id, one.epoch) for one in hits]
        words = " ".join(words for _, words in terms(text))
        fields = [field for field, _ in terms(text) if field and field != "text"]
        places = snippets(pages.store, asked, words, fields)
        answer(self, self._looked_up, text, {one.index: found for one, found in zip(hits, places, strict=True)})

    def _looked_up(self, text: str, found: dict[int, Snippet]) -> None:
        if text == self.text:
            self.found.update(found)
            self.query_one("#hits", Rows).refresh()
            self._show_hit()

    def _row(self, row: int, width: int) -> Cells:
        summary = self.listed.at(row)
        if summary is None:
            return [("…", "dim")]
        sign, style = mark(summary)
        size = min(16, max(map(len, self.agents.values()), default=0), width // 6)
        name = max(8, min(18, width // 5))
        cells: Cells = [(sign, style), (agent_cell(self.agents, summary.run.id, size) + (" " if size else ""), "key")]
        cells.append((fit(one_line(summary.question.id[-60:], name), name) + " ", "plain"))
        place = self.found.get(summary.index)
        cells.append((fit(place.field if place else "", 8) + " ", "dim"))
        room = width - sum(cell_len(text) for text, _ in cells)
        return [*cells, *(snippet_cells(place, room) if place else [("…", "dim")])]

    @on(Rows.Moved, "#hits")
    def _moved(self, event: Rows.Moved) -> None:
        self.listed.move(event.row)
        summary = self.listed.current
        if summary is not None and summary.index not in self.found:
            self._look_up(event.row)
        self._show_hit()

    def _show_hit(self) -> None:
        summary, pager = self.listed.current, self.query_one("#hit", Pager)
        if summary is None:
            pager.show(())
            return
        place = self.found.get(summary.index)
        title = f"{summary.question.id}, {summary.run.agent}" + (f": {place.field}" if place else "")
        pager.pattern = place.text[slice(*place.spans[0])] if place and place.spans else ""
        pager.show([TextBlock(title, "heading"), TextBlock(place.text if place else "")])

    @on(Rows.Chosen, "#hits")
    def _chosen(self, event: Rows.Chosen) -> None:
        event.stop()
        summary = self.listed.at(event.row)
        self.dismiss(None if summary is None else summary.index)

    def action_move(self, by: int) -> None:
        """Go to the next hit, or the one before."""
        self.query_one("#hits", Rows).action_move(by)

    def action_again(self) -> None:
        """Type something else."""
        self.query_one(Input).focus()

    def action_leave(self) -> None:
        """Go back without opening anything."""
        self.dismiss(None)


def snippet_cells(place: Snippet, width: int) -> Cells:
    """A place with what was found marked, moved so that the first of it is seen in `width` cells."""
    text, spans = place.text, list(place.spans)
    before = max(0, spans[0][0] - width // 3) if spans and cell_len(text) > width else 0
    cells: Cells = [("…", "dim")] if before else []
    at = before
    for begin, end in spans:
        if begin >= at:
            cells += [(shown(text[at:begin]), "plain"), (shown(text[begin:end]), "term")]
            at = end
    cells.append((shown(text[at:]), "plain"))
    return [(one.replace("\n", " "), style) for one, style in cells]
