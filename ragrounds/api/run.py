"""`--order` of `ragrounds run`.

Where `ragrounds run` does its work: in this process, in several, or on a Ray cluster.

`ragrounds run --until`: what is watched, what is kept of it, what is said.

A projection before a run, and a question above a threshold.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import typer

from ragrounds.cli.common import one_of, say
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragrounds.contracts import FinishedAttempt, Stop
    from ragrounds.evals.benchmarks import Benchmark
    from ragrounds.evals.compare.sequential_stop import ClaimStop, StopRecord
    from ragrounds.evals.engine.budget import Budget
    from ragrounds.evals.engine.plan import PlannedRun, Recipe
    from ragrounds.evals.engine.progress import Projection
    from ragrounds.evals.engine.question_order import Order
    from ragrounds.evals.store.store import Store
    from ragrounds.records import Question, Run
    from ragrounds.settings import Settings


def chosen_order(order: str | None, until: str | None) -> Order | None:
    """The order that was asked for; ``None``: it is left to :func:`in_order`.

    Raises:
        UserError: an unknown order; one beside `--until`, which draws its own.
    """
    if order is None:
        return None
    if until is not None:
        raise UserError("--order cannot be set with --until, which asks in an order drawn by --seed.")
    from ragrounds.evals.engine.question_order import ORDERS

    return cast("Order", one_of("--order", order, ORDERS))


def in_order(
    order: Order | None, loaded: Benchmark, strands: Sequence[PlannedRun]
) -> tuple[Sequence[Question], Sequence[Stop]]:
    """The questions as they are asked, and what else the replay needs for that. Where nothing is said, questions that
    share something follow each other for models that vLLM serves."""
    from ragrounds.evals.engine.question_order import EpochsTogether, ordered
    from ragrounds.models.options import VLLM

    served = any(model.spec.startswith(f"{VLLM}:") for strand in strands for model in strand.models.values())
    chosen = order or ("shared" if served else "given")
    return ordered(loaded.questions, loaded.golds, chosen), [EpochsTogether()] if chosen == "shared" else []


ENGINES = ("local", "ray")


def replayer(
    engine: str, workers: int | None, concurrency: int, recipe: Recipe, chosen: Settings, held: ExitStack
) -> Callable[..., Awaitable[str]]:
    """What replays: :func:`ragrounds.evals.engine.scheduler.replay` itself, or something that is called alike.
    What it needs until the run's end is put into `held`.

    Raises:
        UserError: an unknown engine; Ray without PostgreSQL on more than one machine; Ray is not installed.
    """
    from ragrounds.evals.engine.scheduler import replay

    if one_of("--engine", engine, ENGINES) == "local" and (workers or 1) == 1:
        return replay
    from ragrounds.evals.engine.distributed.leader import replay_distributed
    from ragrounds.evals.engine.plan import needs_servers, with_servers

    if workers is not None and workers > concurrency:
        raise UserError(
            f"--workers {workers} with --concurrency {concurrency}: a worker has at least one attempt in flight. "
            "Raise --concurrency, which is for all workers together, or take fewer workers."
        )
    spreading = partial(replay_distributed, recipe=recipe, home=chosen.home, url=chosen.store, say=say)
    if engine == "local":
        from ragrounds.evals.engine.distributed.worker import open_pipes

        serve = partial(with_servers, tell=say, held=held)
        return partial(spreading, open_links=partial(open_pipes, workers or 1), serve=serve)
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: pip install 'ragrounds[ray]'. Processes on this machine: --workers N.")
    if needs_servers(recipe):
        raise UserError("--engine ray starts no servers: start them yourself, and name them with --base-url.")
    from ragrounds.evals.engine.distributed.ray_cluster import open_cluster

    joining = partial(open_cluster, workers, concurrency, chosen.store is not None, held, say)
    return partial(spreading, open_links=joining)


def follow(
    store: Store, runs: Sequence[Run], questions: Sequence[Question], claim: str | None, seed: int, most: int | None
) -> ClaimStop | None:
    """What watches these runs; it knows what they have already. ``None``: nothing was asked to be watched.

    Raises:
        UserError: as :class:`ragrounds.evals.compare.sequential_stop.ClaimStop`, or `most` without a claim.
    """
    if claim is None:
        if most is not None:
            raise UserError("--max-questions goes with --until; --limit draws a part of the benchmark.")
        return None
    from ragrounds.evals.compare.sequential_stop import ClaimStop

    until = ClaimStop(claim, runs, questions, seed=seed, most=most)
    until.begin(store)
    return until


def settle(store: Store, until: ClaimStop, ended: str) -> StopRecord:
    """Keep how the claim stands at the end, and say it on stderr."""
    from ragrounds.cli.common import say
    from ragrounds.ui.progress import told

    record = until.finish(store, ended)
    say(told(record))
    return record


class Piloting:
    """Says what a run will take when its first questions are answered.

    Where it might cost more than the user's settings let pass, these questions are asked before all others, and the
    user is asked before the rest. Elsewhere nothing waits: the projection is said when the run has come that far. A
    run whose models are known to cost nothing is not bothered.
    """

    def __init__(
        self,
        store: Store,
        strands: Sequence[PlannedRun],
        questions: Sequence[Question],
        chosen: Settings,
        *,
        budget: Budget,
        in_flight: int,
        seed: int | None,
        sure: bool,
    ) -> None:
        from ragrounds.evals.engine.progress import costs_money, pilot_questions

        self._store, self._strands, self._all, self._in_flight = store, strands, questions, in_flight
        cost = costs_money(strands)
        # A budget says already how much may be spent.
        self._dollars = chosen.project_above_dollars if budget.cost is None and cost is not False else None
        self._minutes = chosen.project_above_minutes if budget.seconds is None else None
        asks = not sure and (self._minutes is not None or (self._dollars is not None and bool(cost)))
        first = pilot_questions(store, strands, questions, seed) if asks or cost is not False else None
        self.asks = asks and first is not None
        """Whether the user may have to be asked: then :meth:`settle` comes after `first` and before the rest."""
        self.first = first or ()
        self._due = {strand.run.id: len(self.first) * strand.run.epochs for strand in strands}
        self._said = first is None or self.asks

    def hear(self, finished: FinishedAttempt) -> None:
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
        from ragrounds.evals.engine.progress import projection
        from ragrounds.ui.progress import projected

        found = projection(self._store, self._strands, self._all, self._in_flight)
        if found is not None:
            say(projected(found))
        return found
