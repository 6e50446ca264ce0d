"""Progress of a study on stderr: one display for all its cells."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.text import Text

from ragrounds.base.text import listed
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.study import Study, StudyCell
from ragrounds.extensions.studies.tables import WORDS
from ragrounds.ui.console import SafeConsole
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import dollars, duration, number_of, one_line


class StudyProgress(TaskDisplay):
    """Display of a study's progress: a screen that redraws on a terminal, elsewhere a line for each finished cell.

    Cells with the same missing requirement share one line, and are counted at the end.
    """

    name = "ragrounds study"

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._console = SafeConsole(file=self.stream)
        self._ended: set[tuple[str, str]] = set()
        self._cells, self._current_group, self._attempts, self._paid = 0, "", (0, 0), ""
        self._reported: set[str] = set()
        self._reasons: dict[str, int] = {}

    def __exit__(self, *error: object) -> None:
        for reason, repeats in self._reasons.items():
            if repeats:
                self.say(f"{number_of(repeats, 'more cell')}: {reason}")
        super().__exit__(*error)

    def say(self, text: str) -> None:
        """Print a message once."""
        if text in self._reported:
            return
        self._reported.add(text)
        self._console.print(Text(one_line(text, 1000)), soft_wrap=True)
        self._console.file.flush()

    def begun(self, study: Study, cells: int) -> None:
        """Start the display of a study with `cells` cells."""
        self._cells = cells
        if not self.is_open:
            self.say(f"{study.title}: {cells:,} cells")

    def group(self, cells: Sequence[StudyCell]) -> None:
        """Show the cells that are carried out next."""
        self._current_group, self._attempts = listed([cell.name for cell in cells], 1), (0, 0)

    def attempts(self, done: int, total: int) -> None:
        """Show the progress of the current cells, in attempts."""
        self._attempts = (done, total)

    def spent(self, paid: float | None) -> None:
        """Show the dollars that all cells have cost so far; ``None``: some calls have no known price."""
        self._paid = ", spent not known" if paid is None else f", {dollars(paid)} spent" if paid else ""

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """Report a cell that is finished for this call."""
        self._ended.add((cell.row, cell.column))
        if not self.is_open:
            figure = result.figure
            scale = 100 if figure is not None and figure.unit == "percent" else 1
            value = "" if figure is None or figure.value is None else f" {scale * figure.value:.2f}"
            explanation = f": {one_line(result.why, 300)}" if result.why else ""
            reason = f"{WORDS[result.state]}{explanation}"
            if explanation and not value and reason in self._reasons:
                self._reasons[reason] += 1
                return
            if explanation and not value:
                self._reasons[reason] = 0
            self.say(f"{len(self._ended):,}/{self._cells:,} {cell.name}:{value} {reason}")

    def share(self) -> float:
        """Return the share of cells that are finished for this call."""
        return len(self._ended) / max(1, self._cells)

    def line(self) -> str:
        """Return the progress as one line of text."""
        elapsed, done = self.seconds, len(self._ended)
        remaining = f", about {duration(elapsed / done * (self._cells - done))} left" if 0 < done < self._cells else ""
        current = (
            f"; {self._current_group}: {self._attempts[0]:,} of {self._attempts[1]:,} attempts"
            if self._attempts[1]
            else ""
        )
        return f"{done:,} of {self._cells:,} cells in {duration(elapsed)}{remaining}{self._paid}{current}"
