"""Engine ``local``: workers are processes of this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from ragrounds.evals.engine.plan import with_servers
from ragrounds.extensions.cluster.leader import Leader, WorkerOptions, replay_distributed
from ragrounds.extensions.cluster.worker import open_pipes


def leader(*arguments: Any, workers: int, **options: Any) -> Leader:
    """Return the leader of workers that join a process that is replaying already."""
    return Leader(*arguments, open_links=partial(open_pipes, workers), options=WorkerOptions(**options))


def executor(
    *, workers: int | None, in_flight: int, exit_stack: ExitStack, **options: Any
) -> Callable[..., Awaitable[str]]:
    """Return a function that replays in `workers` processes; servers of models are started once for all of them."""
    serve = partial(with_servers, home=options["home"], tell=options["say"], exit_stack=exit_stack)
    open_links = partial(open_pipes, workers or 1)
    return partial(replay_distributed, open_links=open_links, serve=serve, options=WorkerOptions(**options))
