"""Engine ``ray``: workers are actors on the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import Any

from ragrounds.base.errors import UserError
from ragrounds.evals.engine.plan import asked_models
from ragrounds.extensions.cluster.leader import WorkerOptions, replay_distributed
from ragrounds.extensions.cluster.ray_cluster import open_cluster
from ragrounds.models.options import starts_server


def executor(
    *, workers: int | None, in_flight: int, exit_stack: ExitStack, **options: Any
) -> Callable[..., Awaitable[str]]:
    """Return a function that replays on the cluster, which is joined when the run begins.

    Raises:
        UserError: Ray is not installed, or would have to start servers.
    """
    if find_spec("ray") is None:
        raise UserError("--engine ray needs Ray: pip install 'ragrounds[ray]'. Processes on this machine: --workers N.")
    if any(map(starts_server, asked_models(options["recipe"]))):
        raise UserError("--engine ray starts no servers: start them yourself, and give them with --base-url.")
    joining = partial(open_cluster, workers, in_flight, options["url"] is not None, exit_stack, options["say"])
    return partial(replay_distributed, open_links=joining, options=WorkerOptions(**options))
