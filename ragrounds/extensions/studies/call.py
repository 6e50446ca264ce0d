"""What one call of a study carries: its budget, who hears, and what is kept of its cells."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ragrounds.api.progress import RunListener
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.settings import Settings
from ragrounds.evals.engine.progress import Projection, ReplayProgress
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.progress import StudyProgress
from ragrounds.extensions.studies.state import StudyState, write_state
from ragrounds.extensions.studies.study import Study, StudyCell

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a public function, by name."""


class StudyBudget:
    """What a study may use in all, and what it has used: dollars, tokens, seconds."""

    def __init__(self, cost: float | None, tokens: int | None, seconds: float | None) -> None:
        self.cost, self.tokens, self.seconds = cost, tokens, seconds
        self.paid, self.used, self.began = 0.0, 0, time.monotonic()
        self.unknown = False
        """Whether some call had no known price."""

    def left(self) -> Arguments:
        """What is left, as the arguments of :func:`ragrounds.api.run.run`."""
        seconds = None if self.seconds is None else max(0.0, self.seconds - (time.monotonic() - self.began))
        return {
            "max_cost": None if self.cost is None else max(0.0, self.cost - self.paid),
            "max_total_tokens": None if self.tokens is None else max(0, self.tokens - self.used),
            "max_time": seconds,
        }

    def ended(self) -> str:
        """What is used up; empty: nothing is."""
        used = (name for name, one in self.left().items() if one is not None and one <= 0)
        return next((f"--{name.replace('_', '-')} is used up" for name in used), "")

    def add(self, cost: float | None, tokens: int) -> None:
        """Count what was used."""
        self.unknown = self.unknown or cost is None
        self.paid += cost or 0.0
        self.used += tokens


class StudyListener(RunListener):
    """Hears how a study goes on. Nothing is shown unless a method is overridden."""

    def begun(self, study: Study, cells: int) -> None:
        """It begins, with so many cells to carry out."""

    def group(self, cells: Sequence[StudyCell]) -> None:
        """These cells are carried out next."""

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """A cell is as far as it comes in this call."""

    def attempts(self, done: int, total: int) -> None:
        """How many attempts of the cells at work are there."""

    def spent(self, paid: float, unknown: bool) -> None:
        """Dollars that this call has paid so far; `unknown`: some calls have no known price."""


class StudyDisplay(StudyProgress, StudyListener):
    """Shows on standard error: a live table on a terminal, lines elsewhere."""

    def message(self, text: str) -> None:
        """Say it."""
        self.say(text)

    def confirm(self, expected: str) -> bool:
        """Ask, where there is somebody to ask."""
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        self.say(f"The rest is projected to take {expected}. Continue? [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")


class CountingListener(RunListener):
    """Passes on what a run tells, and counts what it uses."""

    def __init__(
        self, outer: StudyListener, budget: StudyBudget, begun: Callable[[list[str]], None] | None = None
    ) -> None:
        self._outer, self._budget, self._begun = outer, budget, begun
        self.message, self.reading = outer.message, outer.reading  # type: ignore[method-assign]
        self.projection: Projection | None = None

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Count, and tell how far the cells at work are."""
        before = _used(progress)
        if self._begun is not None:
            self._begun(list(progress.runs))

        def hear(finished: FinishedAttempt) -> None:
            """Count an attempt that ended."""
            progress.observe(finished)
            total = sum(run.total for run in progress.runs.values())
            self._outer.attempts(total - progress.left, total)

        try:
            yield hear
        finally:
            after = _used(progress)
            paid = None if before[0] is None or after[0] is None else after[0] - before[0]
            self._budget.add(paid, after[1] - before[1])
            self._outer.spent(self._budget.paid, self._budget.unknown)

    def projected(self, projection: Projection) -> None:
        """Keep it: a study tells the sum."""
        self.projection = projection


def _used(progress: ReplayProgress) -> tuple[float | None, int]:
    costs = [run.cost_paid for run in progress.runs.values()]
    tokens = sum(run.tokens for run in progress.runs.values())
    return None if None in costs else math.fsum(one for one in costs if one is not None), tokens


class StudyCall:
    """One call: what all its cells share, and what is kept of them."""

    def __init__(
        self, study: Study, settings: Settings, state: StudyState, listener: StudyListener, budget: StudyBudget,
        how: Arguments, lacks: Callable[[StudyCell], str],
    ) -> None:  # fmt: skip
        self.study, self.settings, self.state = study, settings, state
        self.listener, self.budget, self.how, self.lacks = listener, budget, how, lacks
        self.made = 0
        """Calls that were made."""
        self.reused = 0
        """Calls that were answered from the journal."""
        self.dead: dict[tuple[str, str], str] = {}
        """Model and server → why no call to it can succeed in this call."""
        self.players: dict[str, str] = {}
        """Row → the run that plays for it in the arena."""

    def save(self) -> None:
        """Write what is kept."""
        write_state(self.settings.home, self.state)
