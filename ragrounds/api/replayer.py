"""Choice of the executor that replays a run's questions: this process, or workers that share the work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any

from ragrounds.api.run_request import RunArguments
from ragrounds.base import hooks
from ragrounds.base.errors import UserError
from ragrounds.evals.engine.plan import Recipe
from ragrounds.models.options import starts_server


async def replay_in_process(*positional: Any, **keywords: Any) -> str:
    """Call the scheduler's :func:`replay`.

    It is imported only if there is something to replay: with LangGraph the import takes a second.
    """
    from ragrounds.evals.engine.scheduler import replay

    return await replay(*positional, **keywords)


def replayer(
    execution: RunArguments,
    recipe: Recipe,
    models: Iterable[str],
    exit_stack: ExitStack,
    message: Callable[[str], None],
) -> Callable[..., Awaitable[str]]:
    """Return the function that replays.

    It is :func:`ragrounds.evals.engine.scheduler.replay` itself, or a function of the same parameters that distributes
    the work (:data:`ragrounds.base.hooks.CLUSTER`). Its resources are added to `exit_stack`, and released at its end.
    `models` are the texts of the models that the recipe's agents call.

    Raises:
        UserError: there are more workers than attempts in flight, or workers are not installed.
    """
    settings, in_flight = execution.used_settings, execution.in_flight
    engine, workers = execution.engine, None if execution.workers == "auto" else execution.workers
    cluster = hooks.CLUSTER.module(engine)
    may_grow = cluster is not None and workers is None and execution.until is None and not execution.scorers
    if execution.alone and (not may_grow or any(map(starts_server, models))):
        return replay_in_process
    if cluster is None:
        raise UserError(f"--workers and --engine {engine} need ragrounds/extensions/cluster, which is not there.")
    if workers is not None and workers > in_flight:
        raise UserError(
            f"--workers {workers} with --concurrency {in_flight}: a worker has at least one attempt in flight. Raise "
            "--concurrency, which is for all workers together, or use fewer workers."
        )
    options: dict[str, Any] = {
        "recipe": recipe,
        "home": settings.home,
        "url": settings.store,
        "say": message,
        "worker_timeout": settings.worker_timeout,
        "store_timeout": settings.store_timeout,
    }
    if execution.alone:

        def lead(*leader_arguments: Any) -> Any:
            """Return the leader of workers that join this process; its module is imported only here."""
            *positional, count = leader_arguments
            return import_module(cluster).leader(*positional, workers=count, **options)

        return partial(replay_in_process, lead=lead)
    executor: Callable[..., Awaitable[str]] = import_module(cluster).executor(
        workers=workers, in_flight=in_flight, exit_stack=exit_stack, **options
    )
    return executor
