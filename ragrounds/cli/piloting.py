"""A projection before a run, and a question above a threshold."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.engine.projecting import Projection
    from ragrounds.evals.engine.strands import Finished, Strand
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Question
    from ragrounds.settings import Settings


class Piloting:
    """Says what a run will take when its first questions are answered.

    Where it might cost more than the user's settings let pass, these questions are asked before all others, and the
    user is asked before the rest. Elsewhere nothing waits: the projection is said when the run has come that far. A
    run whose models are known to cost nothing is not bothered.
    """

    def __init__(
        self,
        store: Store,
        strands: Sequence[Strand],
        questions: Sequence[Question],
        chosen: Settings,
        *,
        budget: Budget,
        in_flight: int,
        seed: int | None,
        sure: bool,
    ) -> None:
        from ragrounds.evals.engine.projecting import pilot, priced

        self._store, self._strands, self._all, self._in_flight = store, strands, questions, in_flight
        cost = priced(strands)
        # A budget says already how much may be spent.
        self._dollars = chosen.project_above_dollars if budget.cost is None and cost is not False else None
        self._minutes = chosen.project_above_minutes if budget.seconds is None else None
        asks = not sure and (self._minutes is not None or (self._dollars is not None and bool(cost)))
        first = pilot(store, strands, questions, seed) if asks or cost is not False else None
        self.asks = asks and first is not None
        """Whether the user may have to be asked: then :meth:`settle` comes after `first` and before the rest."""
        self.first = first or ()
        self._due = {strand.run.id: len(self.first) * strand.run.epochs for strand in strands}
        self._said = first is None or self.asks

    def hear(self, finished: Finished) -> None:
        """Say the projection when every agent has answered as many questions as a pilot has."""
        self._due[finished.run.id] -= 1
        if not self._said and all(count <= 0 for count in self._due.values()):
            self._said = True
            self._say()

    def settle(self) -> None:
        """After the first questions: say the projection, and ask where it is above a threshold.

        Raises:
            UserError: it is, and there is nobody to ask.
            typer.Abort: the user does not want to go on.
        """
        from ragrounds.ui.progress import dollars_span, duration_span

        found = self._say()
        if found is None:
            return
        above = []
        cost, seconds = found.cost, found.seconds
        if self._dollars is not None and cost is not None and (cost.high or cost.value) > self._dollars:
            above.append((f"{dollars_span(cost)}", f"project_above_dollars = {self._dollars:g}", "--max-cost"))
        if self._minutes is not None and (seconds.high or seconds.value) > 60 * self._minutes:
            above.append((f"{duration_span(seconds)}", f"project_above_minutes = {self._minutes:g}", "--max-time"))
        if not above:
            return
        what = " and ".join(f"{value}, which may be above {name}" for value, name, _ in above)
        if sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm(f"The rest is projected to take {what}. Go on?", abort=True, err=True)
            return
        raise UserError(
            f"The rest of this run is projected to take {what}. Give --yes to go on, or bound it with "
            f"{' or '.join(option for _, _, option in above)}; what is answered is kept."
        )

    def _say(self) -> Projection | None:
        from ragrounds.cli.common import say
        from ragrounds.evals.engine.projecting import projection
        from ragrounds.ui.progress import projected

        found = projection(self._store, self._strands, self._all, self._in_flight)
        if found is not None:
            say(projected(found))
        return found
