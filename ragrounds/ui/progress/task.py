"""The screen of a command that judges, plays or carries out a study: what it is at, its figures, servers, Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ragrounds.evals.engine.interrupts import FINISHES, times_asked
from ragrounds.models.traffic import flows
from ragrounds.ui.progress.frame import cut, rule, widest
from ragrounds.ui.progress.lines import server_line
from ragrounds.ui.progress.terminal import TerminalScreen, can_redraw
from ragrounds.ui.text import duration, number_of, one_line

_SAID = 4
"""Lines of what others said that are shown."""


class TaskScreen:
    """A screen that redraws while a command works; nothing where its stream is no terminal whose cursor can be moved.

    Args:
        title: the command, as it is typed.
        line: gives where it stands, in a line.
        body: gives its figures, for so many columns and lines.
        stream: of the terminal; ``None``: stderr.
        clock: gives seconds.
    """

    def __init__(
        self,
        title: str,
        line: Callable[[], str],
        body: Callable[[int, int], Sequence[RenderableType]],
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._line, self._body, self._clock = title, line, body, clock
        self._stream = stream or sys.stderr
        self._began = clock()
        self._screen: TerminalScreen | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has the terminal."""
        return self._screen is not None

    def __enter__(self) -> TaskScreen:
        if can_redraw(self._stream):
            self._screen = TerminalScreen(self._stream, self.frame, skip=(FINISHES,))
            self._screen.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._screen is not None:
            screen, self._screen = self._screen, None
            screen.__exit__(*error)

    def frame(self, width: int, height: int, said: Sequence[str]) -> list[RenderableType]:
        """One screen of at most `width` columns and `height` lines."""
        took = duration(self._clock() - self._began)
        title = Text.assemble((f" {self._title} ", "bold reverse"))
        title.append(" " * max(1, width - title.cell_len - cell_len(took)) + took, style="dim")
        # Where it stands may take two lines on a narrow screen.
        words = Text(one_line(self._line(), 2 * width - 2))
        head: list[RenderableType] = [title, *_folded(words, width)]
        servers: list[RenderableType] = [
            Text(cut(server_line(flow).removeprefix("http://"), width), style="dim") for flow in flows()
        ]
        foot = [Text(widest(_foot(), width), style="bold yellow" if times_asked() else "dim")]
        others = [cut(line, width) for line in said if line.strip() and line != FINISHES][-_SAID:]
        told = [Text(rule("said", width), style="dim"), *(Text(line, style="dim") for line in others)] if others else []
        room = height - len(head) - len(foot) - 2
        servers = [*([Text("")] if servers else []), *servers][: max(0, room - 4)]
        told = told if room - len(servers) - len(told) >= 4 else []
        body = list(self._body(width, max(1, room - len(servers) - len(told))))
        used = sum(_lines(part) for part in body)
        pad = max(0, room - len(servers) - len(told) - used)
        return [*head, Text(""), *body, *servers, *told, *[Text("")] * (pad + 1), *foot]


def _folded(words: Text, width: int) -> list[Text]:
    """A text in at most two lines, broken between words."""
    if words.cell_len <= width:
        return [words]
    place = words.plain.rfind(" ", 0, width)
    if place <= 0:
        return [Text(cut(words.plain, width))]
    return [Text(words.plain[:place]), Text(cut(words.plain[place + 1 :], width))]


def _lines(part: RenderableType) -> int:
    return part.row_count + any(column.header for column in part.columns) if isinstance(part, Table) else 1


def _foot() -> list[str]:
    calls = sum(flow.flying for flow in flows())
    flying = f"the {number_of(calls, 'call')} in flight" if calls else "what is in flight"
    if times_asked() > 1:
        return ["Stopping at once: what is in flight is cut off, what was answered is kept.", "Stopping at once."]
    if times_asked():
        return [f"Stopping: finishing {flying}, nothing else begins; Ctrl-C once more stops at once.", "Stopping."]
    return [
        f"Ctrl-C begins nothing more and finishes {flying}; twice stops at once. Nothing done is lost.",
        f"Ctrl-C finishes {flying} and ends; twice stops at once. Nothing done is lost.",
        "Ctrl-C finishes what is in flight; twice stops at once.",
    ]
