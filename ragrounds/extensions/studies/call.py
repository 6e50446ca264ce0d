"""State of one call of a study: its budget, its listener and the stored results of its cells."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ragrounds.api.progress import RunListener
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.settings import Settings
from ragrounds.base.spent import known_sum
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.progress import Projection, ReplayProgress
from ragrounds.extensions.studies.paper_table import CellResult
from ragrounds.extensions.studies.progress import StudyProgress
from ragrounds.extensions.studies.state import StudyState, write_state
from ragrounds.extensions.studies.study import Study, StudyCell

Arguments: TypeAlias = dict[str, Any]
"""Arguments of a public function, by name."""


_ARGUMENTS = {"dollars": "max_cost", "tokens": "max_total_tokens", "seconds": "max_time"}
"""Unit of a limit → argument of :func:`ragrounds.api.run.run`."""


class StudyBudget:
    """Budget of a study and its use so far: dollars, tokens, seconds."""

    def __init__(self, limits: Budget) -> None:
        self.limits, self._stop = limits, BudgetStop(limits)
        self.paid: float | None = 0.0
        """Dollars that this call paid; ``None`` if some price is unknown."""
        self.calls_made = 0
        """Number of calls that were sent to a model."""
        self.reused = 0
        """Number of calls that were answered from the journal."""

    def left(self) -> Arguments:
        """Return the remaining budget as arguments of :func:`ragrounds.api.run.run`. Nothing remains of a limit whose
        use is unknown.
        """
        remaining: Arguments = dict.fromkeys(_ARGUMENTS.values())
        for unit, used, limit in self._stop.parts:
            remaining[_ARGUMENTS[unit]] = 0 if used is None else max(0, limit - used)
        return remaining

    def ended(self) -> str:
        """Return a message about the limit that is reached; empty if none is."""
        return self._stop.reached()

    def add(self, paid: float | None, tokens: int | None, billable: float | None) -> None:
        """Add dollars, tokens of calls that were made, and the dollars that a limit counts. ``None``: unknown."""
        self.paid = known_sum((self.paid, paid))
        self._stop.count(billable, tokens)

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

    def spent(self, paid: float | None) -> None:
        """Report the dollars that this call has paid so far; ``None``: some calls have no known price."""


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
            self._budget.add(finished.attempt.cost_paid, finished.tokens_made, finished.billable)
            total = sum(run.total for run in progress.runs.values())
            self._outer.attempts(total - progress.left, total)

        try:
            yield count_attempt
        finally:
            if progress.journal is not None:
                self._budget.add_calls(*progress.journal())
            self._outer.spent(self._budget.paid)

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
