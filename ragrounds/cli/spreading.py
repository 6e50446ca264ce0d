"""Where `ragrounds run` does its work: in this process, in several, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ragrounds.cli.common import one_of, say
from ragrounds.errors import UserError

if TYPE_CHECKING:
    from ragrounds.evals.engine.planning import Recipe
    from ragrounds.settings import Settings

ENGINES = ("local", "ray")


def replayer(
    engine: str, workers: int | None, concurrency: int, recipe: Recipe, chosen: Settings, held: ExitStack
) -> Callable[..., Awaitable[str]]:
    """What replays: :func:`ragrounds.evals.engine.replay.replay` itself, or something that is called alike.
    What it needs until the run's end is put into `held`.

    Raises:
        UserError: an unknown engine; Ray without PostgreSQL on more than one machine; Ray is not installed.
    """
    from ragrounds.evals.engine.replay import replay

    if one_of("--engine", engine, ENGINES) == "local" and (workers or 1) == 1:
        return replay
    from ragrounds.evals.engine.distributed.leading import spread
    from ragrounds.evals.engine.serving import needs_servers, with_servers

    if workers is not None and workers > concurrency:
        raise UserError(
            f"--workers {workers} with --concurrency {concurrency}: a worker has at least one attempt in flight. "
            "Raise --concurrency, which is for all workers together, or take fewer workers."
        )
    spreading = partial(spread, recipe=recipe, home=chosen.home, url=chosen.store, say=say)
    if engine == "local":
        from ragrounds.evals.engine.distributed.pipes import open_pipes

        serve = partial(with_servers, tell=say, held=held)
        return partial(spreading, open_lines=partial(open_pipes, workers or 1), serve=serve)
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: pip install 'ragrounds[ray]'. Processes on this machine: --workers N.")
    if needs_servers(recipe):
        raise UserError("--engine ray starts no servers: start them yourself, and name them with --base-url.")
    from ragrounds.evals.engine.distributed.cluster import open_cluster

    joining = partial(open_cluster, workers, concurrency, chosen.store is not None, held, say)
    return partial(spreading, open_lines=joining)
