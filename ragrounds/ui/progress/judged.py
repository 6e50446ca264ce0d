"""Progress of judging: a screen that redraws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ragrounds.base.spent import Spent, total_spent
from ragrounds.evals.judges.attempts import JudgedAnswer
from ragrounds.ui.progress.lines import at_least
from ragrounds.ui.progress.screen import TaskDisplay
from ragrounds.ui.text import number_of


class JudgeProgress(TaskDisplay):
    """Progress of judging, as a context manager. Pass each judged answer to its `observe`.

    Args:
        runs: ids of the runs whose answers are judged.
        stream: stream of the terminal; ``None``: stderr.
    """

    name = "ragrounds judge"

    def __init__(self, runs: Sequence[str], stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._runs = ", ".join(runs)
        self._judged_count = self._failed = self._calls = self._unreadable = 0
        self._spent = Spent()

    def observe(self, answer: JudgedAnswer) -> None:
        """Count an answer that was judged."""
        self._judged_count += 1
        self._failed += answer.failed
        self._calls += len(answer.calls)
        self._unreadable += sum(not verdict.outcome for verdict in answer.verdicts)
        self._spent += total_spent(call.spent for call in answer.calls)

    def line(self) -> str:
        """Return the progress in one line."""
        failed = f", {self._failed:,} with a call that gave no reply" if self._failed else ""
        failed += f", {number_of(self._unreadable, 'unreadable verdict')}" if self._unreadable else ""
        return (
            f"{number_of(self._judged_count, 'judgement')} of answers of {self._runs}, "
            f"{self._judged_count / self.seconds:.1f}/s, "
            f"{number_of(self._calls, 'model call')}, "
            f"{at_least(self._spent, self._spent.cost_paid)} paid{failed}"
        )
