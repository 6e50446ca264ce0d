"""State of one call of a study: its budget, its listener and the stored results of its cells."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ragrounds.api.progress import RunListener
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.settings import Settings
from ragrounds.evals.engine.budget import Budget
from ragrounds.evals.engine.progress import Projection, ReplayProgress
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.progress import StudyProgress
from ragrounds.extensions.studies.state import StudyState, write_state
from ragrounds.extensions.studies.study import Study, StudyCell

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a public function, by name."""


class StudyBudget:
    """Budget of a study and its use so far: dollars, tokens, seconds."""

    def __init__(self, limits: Budget) -> None:
        self.limits, self._began = limits, time.monotonic()
        self.paid, self.used = 0.0, 0
        self.unknown = False
        """True if some call had no known price."""
        self.calls_made = 0
        """Number of calls that were sent to a model."""
        self.reused = 0
        """Number of calls that were answered from the journal."""

    def left(self) -> Arguments:
        """Return the remaining budget as arguments of :func:`ragrounds.api.run.run`."""
        limits = self.limits
        return {
            "max_cost": None if limits.cost is None else max(0.0, limits.cost - self.paid),
            "max_total_tokens": None if limits.tokens is None else max(0, limits.tokens - self.used),
            "max_time": None if limits.seconds is None else max(0.0, limits.seconds - (time.monotonic() - self._began)),
        }

    def ended(self) -> str:
        """Return the name of the limit that is used up, or an empty string."""
        exhausted = (name for name, remaining in self.left().items() if remaining is not None and remaining <= 0)
        return next((f"--{name.replace('_', '-')} is used up" for name in exhausted), "")

    def add(self, cost: float | None, tokens: int | None) -> None:
        """Add a cost and a number of tokens, as far as they are known."""
        self.unknown = self.unknown or cost is None
        self.paid += cost or 0.0
        self.used += tokens or 0

    def add_calls(self, made: int, reused: int) -> None:
        """Add model calls that were sent, and model calls that were answered from the journal."""
        self.calls_made += made
        self.reused += reused


class StudyListener(RunListener):
    """Listener for the progress of a study. Nothing is shown unless a method is overridden."""

    def begun(self, study: Study, cells: int) -> None:
        """Report the start of the study, with `cells` cells to carry out."""

    def group(self, cells: Sequence[StudyCell]) -> None:
        """Report the cells that are carried out next."""

    def cell(self, cell: StudyCell, result: CellResult) -> None:
        """Report a cell that is finished for this call."""

    def attempts(self, done: int, total: int) -> None:
        """Report how many attempts of the current cells are done."""

    def spent(self, paid: float, unknown: bool) -> None:
        """Report the dollars that this call has paid so far; `unknown`: some calls have no known price."""


class StudyDisplay(StudyProgress, StudyListener):
    """Display on standard error: a live table on a terminal, lines elsewhere."""

    def message(self, text: str) -> None:
        """Print the message."""
        self.say(text)

    def confirm(self, expected: str) -> bool:
        """Ask for consent if a person is at the terminal; without a terminal, decline."""
        if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        self.say(f"The rest is projected to take {expected}. Continue? [y/N]")
        return sys.stdin.readline().strip().lower() in ("y", "yes")


class CountingListener(RunListener):
    """Listener that passes on the events of a run, and counts its use of the budget."""

    def __init__(
        self, outer: StudyListener, budget: StudyBudget, begun: Callable[[list[str]], None] | None = None
    ) -> None:
        self._outer, self._budget, self._begun = outer, budget, begun
        self.message, self.reading = outer.message, outer.reading  # type: ignore[method-assign]
        self.projection: Projection | None = None

    @contextmanager
    def progress(self, progress: ReplayProgress, *, pilot: bool = False) -> Iterator[Callable[[FinishedAttempt], None]]:
        """Count the finished attempts, and report the progress of the current cells."""
        if self._begun is not None:
            self._begun(list(progress.runs))

        def count_attempt(finished: FinishedAttempt) -> None:
            """Count a finished attempt."""
            progress.observe(finished)
            self._budget.add(finished.attempt.cost_paid, finished.tokens_made)
            total = sum(run.total for run in progress.runs.values())
            self._outer.attempts(total - progress.left, total)

        try:
            yield count_attempt
        finally:
            if progress.journal is not None:
                self._budget.add_calls(*progress.journal())
            self._outer.spent(self._budget.paid, self._budget.unknown)

    def projected(self, projection: Projection) -> None:
        """Keep the projection instead of printing it; a study prints the sum."""
        self.projection = projection


class StudyCall:
    """State that all cells of one call of a study share."""

    def __init__(
        self, study: Study, settings: Settings, state: StudyState, listener: StudyListener, budget: StudyBudget,
        how: Arguments, missing_requirements: Callable[[StudyCell], str],
    ) -> None:  # fmt: skip
        self.study, self.settings, self.state = study, settings, state
        self.listener, self.budget, self.how, self.missing_requirements = listener, budget, how, missing_requirements
        self.dead: dict[tuple[str, str], str] = {}
        """Reason why no call can succeed during this study call, by model and server."""
        self.players: dict[str, str] = {}
        """Run that plays in the arena for each row."""

    def save(self) -> None:
        """Write the study's state to its file."""
        write_state(self.settings.home, self.state)
