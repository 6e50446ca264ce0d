"""Who shows a study while it is carried out: one display on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ragrounds.api.study_cells import StudyListener
from ragrounds.evals.studies.study import Study, StudyCell
from ragrounds.evals.studies.table import CellResult
from ragrounds.ui.study_progress import StudyProgress


class TerminalStudyListener(StudyListener):
    """Shows on standard error: a live table on a terminal, lines elsewhere."""

    def __init__(self, shown: StudyProgress) -> None:
        self._shown = shown

    def message(self, text: str) -> None:
        """Say it."""
        self._shown.say(text)

    def begun(self, study: Study, cells: int) -> None:
        """Show it."""
        self._shown.begun(study, cells)

    def group(self, cells: Sequence[StudyCell]) -> None:
        """Show it."""
        self._shown.group(cells)

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """Show it."""
        self._shown.cell(cell, result)

    def attempts(self, done: int, total: int) -> None:
        """Show it."""
        self._shown.attempts(done, total)

    def spent(self, paid: float, unknown: bool) -> None:
        """Show it."""
        self._shown.spent(paid, unknown)

    def confirm(self, expected: str) -> bool:
        """Ask, where there is somebody to ask."""
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        self._shown.say(f"The rest is projected to take {expected}. Go on? [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")


@contextmanager
def study_display() -> Iterator[StudyListener]:
    """What shows a study while the block lasts."""
    with StudyProgress() as shown:
        yield TerminalStudyListener(shown)
