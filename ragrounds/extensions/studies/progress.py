"""A study while it is carried out, on stderr: one display for all its cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.text import Text

from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.study import Study, StudyCell
from ragrounds.extensions.studies.tables import WORDS
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import dollars, duration, number_of, one_line


class StudyProgress(TaskDisplay):
    """One screen that redraws on a terminal; elsewhere a line for each cell that is as far as it comes; cells that
    lack the same have one line, and are counted at the end."""

    name = "ragrounds study"

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._console = SafeConsole(file=self.stream)
        self._ended: set[tuple[str, str]] = set()
        self._cells, self._now, self._attempts, self._paid = 0, "", (0, 0), ""
        self._said: set[str] = set()
        self._reasons: dict[str, int] = {}

    def __exit__(self, *error: object) -> None:
        for why, more in self._reasons.items():
            if more:
                self.say(f"{number_of(more, 'more cell')}: {why}")
        super().__exit__(*error)

    def say(self, text: str) -> None:
        """Something that a person at the screen should know, once."""
        if text in self._said:
            return
        self._said.add(text)
        self._console.print(Text(one_line(text, 1000)), soft_wrap=True)
        self._console.file.flush()

    def begun(self, study: Study, cells: int) -> None:
        """The study begins, with so many cells to carry out."""
        self._cells = cells
        if not self.is_open:
            self.say(f"{study.title}: {cells:,} cells")

    def group(self, cells: Sequence[StudyCell]) -> None:
        """These cells are carried out next."""
        more = f" and {len(cells) - 1:,} more" if len(cells) > 1 else ""
        self._now, self._attempts = f"{cells[0].name}{more}", (0, 0)

    def attempts(self, done: int, total: int) -> None:
        """How many attempts of the cells at work are there."""
        self._attempts = (done, total)

    def spent(self, paid: float, unknown: bool) -> None:
        """Dollars that all cells have cost so far; `unknown`: some calls have no known price."""
        self._paid = ", spent not known" if unknown else f", {dollars(paid)} spent" if paid else ""

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """A cell is as far as it comes."""
        self._ended.add((cell.row, cell.column))
        if not self.is_open:
            figure = result.figure
            scale = 100 if figure is not None and figure.unit == "percent" else 1
            value = "" if figure is None or figure.value is None else f" {scale * figure.value:.2f}"
            why = f": {one_line(result.why, 300)}" if result.why else ""
            reason = f"{WORDS[result.state]}{why}"
            if why and not value and reason in self._reasons:
                self._reasons[reason] += 1
                return
            if why and not value:
                self._reasons[reason] = 0
            self.say(f"{len(self._ended):,}/{self._cells:,} {cell.name}:{value} {reason}")

    def share(self) -> float:
        """The share of cells that are as far as they come."""
        return len(self._ended) / max(1, self._cells)

    def line(self) -> str:
        """Where it stands, in a line."""
        spent, done = self.seconds, len(self._ended)
        left = f", about {duration(spent / done * (self._cells - done))} left" if 0 < done < self._cells else ""
        at = f"; {self._now}: {self._attempts[0]:,} of {self._attempts[1]:,} attempts" if self._attempts[1] else ""
        return f"{done:,} of {self._cells:,} cells in {duration(spent)}{left}{self._paid}{at}"
