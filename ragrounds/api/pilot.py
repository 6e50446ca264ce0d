"""The pilot of a run: its first questions, from which the rest is projected, and the confirmation of the rest."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Sequence

from msgspec.structs import replace

from ragrounds.api.progress import RunListener
from ragrounds.api.run_request import RunArguments
from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import FINAL, Attempt, Question
from ragrounds.evals.engine.plan import PlannedRun
from ragrounds.evals.engine.progress import (
    PILOT,
    FinishedAttempts,
    Projection,
    costs_money,
    pilot_questions,
    projection,
)
from ragrounds.evals.store.run_names import kept_names
from ragrounds.evals.store.store import Store
from ragrounds.ui.projection import interval_text
from ragrounds.ui.text import dollars, duration

_LEAST_SECONDS, _LEAST_DOLLARS = 60.0, 0.1
"""Seconds and dollars from which a projection is reported if nothing is asked."""
_WAVES, _MUCH = 3, 8
"""Attempts per slot in flight that are waited for before time is projected, if at least so many are to be made."""


class Pilot:
    """First questions of a run, from which the cost and time of the rest are projected.

    If the rest might cost more than the settings allow without confirmation, these questions are asked before all
    others, and the user must confirm the rest. Otherwise nothing waits: the projection is shown when these questions
    are finished, unless the rest takes less than a minute and a few cents. If much is left, it is shown after the
    maximum number of attempts were in flight, since an attempt's duration depends on it. A run whose models are known
    to cost nothing has no projection.
    """

    def __init__(
        self,
        store: Store,
        planned_runs: Sequence[PlannedRun],
        finished: dict[str, list[Attempt]],
        questions: Sequence[Question],
        execution: RunArguments,
        listener: RunListener,
        *,
        only: bool,
    ) -> None:
        self._planned_runs, self._all = planned_runs, questions
        settings, in_flight = execution.used_settings, execution.in_flight
        self._repeated = execution.repeat
        self.names = kept_names(store.engine)
        """Names that users gave to runs, by run id."""
        self._in_flight, self._listener = in_flight, listener
        cost = costs_money(planned_runs)
        sure = (execution.confirmed or execution.journal == "replay") and not only
        # A budget already limits the cost.
        self._dollars = settings.project_above_dollars if execution.max_cost is None and cost is not False else None
        self._minutes = settings.project_above_minutes if execution.max_time is None else None
        may_ask = not sure and (self._minutes is not None or (self._dollars is not None and bool(cost)))
        is_needed = may_ask or (cost is not False and execution.journal != "replay")
        first = pilot_questions(finished, questions) if is_needed else None
        self.asks = may_ask and first is not None
        """True if the user may have to confirm: then :meth:`settle` comes after `first` and before the rest."""
        self.first = first or ()
        if self.first:  # imported before any call is in flight, because it takes .3 s, in which no call is answered
            importlib.import_module("scipy.special")
        asked = {question.id for question in questions}
        attempts = {planned.run.id: len(asked) * planned.run.epochs for planned in planned_runs}
        answered = {run: sum(attempt.question_id in asked for attempt in found) for run, found in finished.items()}
        self._due = {run: min(PILOT, attempts[run] - count) for run, count in answered.items()}
        """Number of attempts of each run to wait for, as the projected time is that of this process."""
        self._steady = _WAVES * in_flight if sum(attempts.values()) > _MUCH * in_flight else 0
        self._reported = first is None or only or (self.asks and not self._steady)
        self._alone = execution.alone
        self._ended, self._wave = 0, (0.0, 0.0)
        self._reports = (not self._reported) + (self.asks or only)
        """Number of reports to come, by :meth:`hear` and by :meth:`settle` or :meth:`tell`."""
        self._finished = finished if self._reports else {}
        """Attempts of each run that earlier processes finished, as long as a report needs them."""
        self._own: dict[str, list[Attempt]] = {run: [] for run in self._finished}
        """Attempts that this process finished."""
        self._reporting: asyncio.Task[None] | None = None

    def hear(self, finished: FinishedAttempt) -> None:
        """Report the projection when every agent has answered the pilot's questions, and enough attempts were in
        flight.
        """
        if finished.attempt.status in FINAL and finished.run.id in self._own:
            self._own[finished.run.id].append(replace(finished.attempt, text="", events=()))
        if self._reported:
            return
        self._due[finished.run.id] -= 1
        self._ended += 1
        if self._ended == self._steady - self._in_flight:  # late imports and first connections are not measured
            self._wave = time.perf_counter(), time.process_time()
        if self._ended < self._steady or any(due > 0 for due in self._due.values()):
            return
        self._reported = True
        wall, processor = time.perf_counter() - self._wave[0], time.process_time() - self._wave[1]
        share = processor / wall if self._steady and self._alone else None
        self._reporting = asyncio.create_task(self._report(*self._take_finished(), share))

    async def finish(self, early: bool) -> None:
        """Wait for the report of the projection, if it is being computed; cancel it if the run has ended `early`."""
        if self._reporting is not None and early:
            self._reporting.cancel()
        elif self._reporting is not None:
            await self._reporting

    async def _report(self, earlier: FinishedAttempts, own: FinishedAttempts, processor: float | None) -> None:
        # In a thread, because summing the attempts of a large resumed run would keep all calls waiting.
        projected = await asyncio.to_thread(self._projection, earlier, own, processor)
        if projected is not None and _is_worth_reporting(projected):
            self._listener.projected(projected)

    def tell(self) -> None:
        """Report the projection, if there are finished attempts to project from."""
        if (projected := self._projection(*self._take_finished())) is not None:
            self._listener.projected(projected)

    def settle(self) -> None:
        """Report the projection after the first questions, and ask for confirmation if it is above a threshold.

        Raises:
            UserError: the projection is above a threshold, and the listener does not confirm.
        """
        projected = self._projection(*self._take_finished())
        if projected is None:
            return
        above = []
        cost, seconds = projected.cost, projected.seconds
        if self._dollars is not None and cost is not None and (cost.high or cost.value) > self._dollars:
            above.append((interval_text(cost, dollars), f"project_above_dollars = {self._dollars:g}", "--max-cost"))
        if self._minutes is not None and (seconds.high or seconds.value) > 60 * self._minutes:
            above.append((interval_text(seconds, duration), f"project_above_minutes = {self._minutes:g}", "--max-time"))
        amounts = " and ".join(f"{value}, which may be above {name}" for value, name, _ in above)
        if above or (not self._steady and _is_worth_reporting(projected)):
            self._listener.projected(projected)
        if above and not self._listener.confirm(amounts):
            raise UserError(
                f"The rest of this run is projected to take {amounts}. Give --yes to continue, or limit it with "
                f"{' or '.join(option for _, _, option in above)}; finished work is saved."
            )

    def _take_finished(self) -> tuple[FinishedAttempts, FinishedAttempts]:
        earlier, own = self._finished, {run: tuple(attempts) for run, attempts in self._own.items()}
        self._reports -= 1
        if not self._reports:
            self._finished, self._own = {}, {}
        return earlier, own

    def _projection(
        self, earlier: FinishedAttempts, own: FinishedAttempts, processor: float | None = None
    ) -> Projection | None:
        projected = projection(self._planned_runs, earlier, self._all, self._in_flight, processor, self.names, own)
        return None if projected is None else replace(projected, repeated=self._repeated)


def _is_worth_reporting(projected: Projection) -> bool:
    cost = 0.0 if projected.cost is None else projected.cost.value
    return projected.seconds.value >= _LEAST_SECONDS or cost >= _LEAST_DOLLARS
