"""Making attempts of a run again: those that failed, or whose text is not taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Struct
from rich.console import Console

from ragrounds.api import arguments
from ragrounds.api.arguments import Arg, described, option_name, takes
from ragrounds.api.comparison_result import ComparisonResult
from ragrounds.api.event_loop import finish
from ragrounds.api.progress import run_listener
from ragrounds.api.resume import kept_options
from ragrounds.api.run import begun_runs
from ragrounds.api.run_request import Listener, RunArguments, Shown
from ragrounds.api.workspace import RunsGiven, chosen_settings, opened_runs, run_names, texts
from ragrounds.errors import UserError
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.engine.ask_again import RetryChoice, RetryPlan, made_again, plan_retry
from ragrounds.evals.store.asked_again import begin_retry
from ragrounds.evals.store.leases import Lease
from ragrounds.records import Asked
from ragrounds.ui.projection import plan_text, result_text


class RetryResult(ComparisonResult, frozen=True, kw_only=True):
    """What came of :func:`retry`: what was asked again, what it cost, and the run's figures."""

    plan: RetryPlan
    """What was chosen."""
    became: Mapping[str, int]
    """How the attempts that were made again ended: outcome → how many."""
    ended: str
    """Why not all of them were made again; empty: they were."""
    made: int
    """Calls that were made."""
    reused: int
    """Calls that were answered from the journal."""
    cost_paid: float | None
    """Dollars paid for it; ``None``: not known."""

    def draw(self, console: Console) -> None:
        """Print what became of it, and the run's figures."""
        if self.became:
            console.print(result_text(self.became, self.made, self.reused, self.cost_paid), markup=False)
        ComparisonResult.draw(self, console)


class _Retried(Struct, frozen=True):
    """What may be given without its name."""

    run: Annotated[RunsGiven, Arg("Its id, the beginning of one, an agent's text, or a result of one run.", option="-")]


class RetryArguments(_Retried, frozen=True, kw_only=True):
    """Which attempts of a run are made again, and how."""

    status: Annotated[
        str | Sequence[str], Arg("Attempts that ended so: failed, blocked, capped, paused (repeatable).", many=True)
    ] = ()
    fault: Annotated[
        str | Sequence[str],
        Arg("Failed attempts with this fault: rate_limit, no_choices, … (repeatable).", many=True),
    ] = ()
    answer_status: Annotated[
        str | Sequence[str],
        Arg("Completed attempts read as empty, unreadable, refused or abstained (repeatable).", many=True),
    ] = ()
    dry_run: Annotated[bool, Arg("Only say what would be asked again.")] = False
    concurrency: arguments.Concurrency = None
    workers: Annotated[int | None, Arg("Processes that share the work. [default: 1]", 1, group=arguments.HOW)] = None
    max_cost: arguments.MaxCost = None
    confirmed: arguments.Confirmed = False
    listener: Listener = None
    progress: Shown = None
    home: arguments.Home = None
    settings: arguments.OwnSettings = None


@takes(RetryArguments)
def retry(given: RetryArguments) -> RetryResult:
    """Make attempts of a run again, as the run was asked for, and keep those of before.

    The run goes on with them and with whatever else is left of it; calls that gave a good reply are not paid again.
    Figures are of the newest attempts from then on; the earlier ones
    stay in the store, and what they cost in the ledger. Choosing by `answer_status` conditions on what came of an
    attempt: such a run's figures are those of a system that tries again, and tables say so.

        rr.retry("direct_cot", status="failed", fault="no_choices")

    Raises:
        UserError: no such run; nothing or something unknown is chosen; the run was imported, or how it was asked for
            is not known or names code: then the attempts are set down to be made again by its own command.
        StopRun: the run cannot go on; what ended is kept, and resuming the run makes the rest again.
        Interrupted: Ctrl-C; as before.
    """
    chosen, names = chosen_settings(given.settings, given.home), run_names(given.run)
    if len(names) != 1:
        raise UserError(f"{len(names):,} runs were named, and attempts of one are made again.")
    choice = RetryChoice(
        statuses=texts(given.status), faults=texts(given.fault), answer_statuses=texts(given.answer_status)
    )
    heard = run_listener(given.listener, given.progress)
    with opened_runs(names, chosen, newest=True) as (store, [found]):
        plan = plan_retry(store, found, choice)
        heard.message(plan_text(plan))
        if given.dry_run or not plan.attempts:
            figures = compare(store, [found])
            return RetryResult(
                settings=chosen, comparison=figures, plan=plan, became={}, ended="", made=0, reused=0, cost_paid=0.0
            )
    with opened_runs([plan.run], chosen) as (store, [found]), Lease(store.engine, [found.id], heard.message):
        begin_retry(store, found, plan.attempts)
    try:
        _, asked = kept_options(plan.run, chosen)
    except UserError as error:
        raise UserError(
            f"{len(plan.attempts):,} attempts are set down, and the run's own command makes them again, with whatever "
            f"else is left of it. {error}"
        ) from error
    there = Path(asked.folder).is_dir()
    if not there:
        heard.message(f"{asked.folder}, where this run was begun, is gone: paths are taken from here.")
    how = {"workers": given.workers, "max_cost": given.max_cost, "only": plan.run, "confirmed": given.confirmed}
    kept = _arguments(asked) | how | ({"concurrency": given.concurrency} if given.concurrency else {})
    again = RunArguments(**kept, settings=chosen, listener=heard)
    with chdir(asked.folder) if there else nullcontext(), begun_runs(again) as replay:
        result = replay.result(finish(replay.carry_out()))
    with opened_runs(plan.run, chosen) as (store, [found]):
        became, costs = made_again(store, found, plan)
    return RetryResult(
        settings=chosen,
        comparison=result.comparison,
        plan=plan,
        became=became,
        ended=result.ended,
        made=result.made,
        reused=result.reused,
        cost_paid=None if None in costs else sum(cost or 0.0 for cost in costs),
    )


def _arguments(asked: Asked) -> dict[str, Any]:
    """Options of `ragrounds run`, as the library calls them."""
    known = {option_name(name, said): (name, kind, said) for name, (kind, said) in described(RunArguments).items()}
    found: dict[str, Any] = {}
    for option, value in zip(asked.options[::2], asked.options[1::2], strict=True):
        name, kind, said = known[option]
        if said.many:
            found[name] = (*found.get(name, ()), value)
        else:
            found[name] = msgspec.convert(value, kind, strict=False)
    return found
