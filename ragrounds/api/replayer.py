"""What replays a run's questions: this process, several processes that share the work, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ragrounds.api.run_request import RunArguments
from ragrounds.errors import UserError
from ragrounds.evals.engine.plan import Recipe, needs_servers, with_servers
from ragrounds.settings import Settings


async def _replay_here(*given: Any, **named: Any) -> str:
    """The scheduler's :func:`replay`, imported where there is something to replay: with LangGraph it takes a second."""
    from ragrounds.evals.engine.scheduler import replay

    return await replay(*given, **named)


def _distributed(part: str) -> Any:
    """A module of the distributed replay. It is found by its name here alone: a run in one process loads none of it."""
    return import_module(f"ragrounds.evals.engine.distributed.{part}")


def replayer(
    execution: RunArguments,
    in_flight: int,
    recipe: Recipe,
    settings: Settings,
    held: ExitStack,
    message: Callable[[str], None],
) -> Callable[..., Awaitable[str]]:
    """What replays: :func:`ragrounds.evals.engine.scheduler.replay` itself, or a function of the same parameters that
    distributes the work. What it needs until the run's end is put into `held`.

    Raises:
        UserError: more workers than attempts in flight; Ray is not installed, or would have to start servers, or is on
            more than one machine without PostgreSQL.
    """
    engine, workers = execution.engine, None if execution.workers == "auto" else execution.workers
    may_grow = workers is None and execution.until is None and not execution.scorers
    if execution.alone and (not may_grow or needs_servers(recipe)):
        return _replay_here
    if workers is not None and workers > in_flight:
        raise UserError(
            f"--workers {workers} with --concurrency {in_flight}: a worker has at least one attempt in flight. Raise "
            "--concurrency, which is for all workers together, or use fewer workers."
        )
    told: dict[str, Any] = {
        "recipe": recipe,
        "home": settings.home,
        "url": settings.store,
        "say": message,
        "worker_timeout": settings.worker_timeout,
        "store_timeout": settings.store_timeout,
    }
    if execution.alone:

        def lead(*at: Any) -> Any:
            """The leader of workers that join this process; nothing of it is loaded before."""
            *given, count = at
            opening = partial(_distributed("worker").open_pipes, count)
            return _distributed("leader").Leader(*given, open_links=opening, **told)

        return partial(_replay_here, lead=lead)
    distributed = partial(_distributed("leader").replay_distributed, **told)
    if engine == "local":
        serve = partial(with_servers, tell=message, held=held)
        return partial(distributed, open_links=partial(_distributed("worker").open_pipes, workers or 1), serve=serve)
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: pip install 'ragrounds[ray]'. Processes on this machine: --workers N.")
    if needs_servers(recipe):
        raise UserError("--engine ray starts no servers: start them yourself, and give them with --base-url.")
    joining = partial(
        _distributed("ray_cluster").open_cluster, workers, in_flight, settings.store is not None, held, message
    )
    return partial(distributed, open_links=joining)
