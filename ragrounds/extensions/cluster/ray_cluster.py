"""Workers on a Ray cluster: each worker is one actor, whose methods the leader calls.

The cluster is one that runs already; nothing of the leader's code or settings is shipped to it, every node has
ragrounds installed and its own keys in its environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.processes import Activity, Process, activity_of, process
from ragrounds.extensions.cluster.worker import Inbox, serve

G = TypeVar("G")
R = TypeVar("R")
_START_SECONDS = 120.0
"""Seconds in which a worker must have started."""
_CONNECT_SECONDS = 10.0
_NODE_SECONDS = 15.0
"""Seconds in which a node must have carried out a task that reserves no processor."""
_HEARTBEAT_GROUP = "beats"
"""Name of the actor's concurrency group with a separate thread and event loop for heartbeats."""


class RayWorker:
    """Worker's end of the link.

    Calls fill the inbox of this actor, and a waiting call empties its outbox.
    """

    def __init__(self) -> None:
        self._inbox: Inbox = asyncio.Queue()
        self._frames_by_number: dict[int, bytes] = {}
        self._next = 0
        self._out: list[bytes] = []
        self._ready = asyncio.Event()
        self._work: asyncio.Task[None] | None = None

    async def begin(self) -> Process | None:
        """Start to work, and return the process that works."""
        self._work = asyncio.create_task(serve(self._inbox, self._post))
        self._work.add_done_callback(lambda task: self._ready.set())
        return process(os.getpid())

    async def beat(self) -> None:
        """Answer a heartbeat; the call runs apart from the event loop that works."""

    async def take(self, number: int, frame: bytes) -> None:
        """Take in frame `number` from the leader. Calls may overtake each other, so frames are put in order here."""
        self._frames_by_number[number] = frame
        while (next_frame := self._frames_by_number.pop(self._next, None)) is not None:
            self._next += 1
            self._inbox.put_nowait(next_frame)

    async def frames(self) -> list[bytes] | None:
        """Return the worker's frames since the last call, as soon as there is one; ``None`` after it has ended."""
        assert self._work is not None
        await self._ready.wait()
        frames, self._out = self._out, []
        if frames:
            if not self._work.done():
                self._ready.clear()
            return frames
        self._work.result()
        return None

    def _post(self, frame: bytes) -> None:
        self._out.append(frame)
        self._ready.set()


class RayLink:
    """Leader's end of the link (contract: :class:`WorkerLink`)."""

    def __init__(self, worker: Any, name: str, node: object) -> None:
        self._worker = worker
        self._name = name
        self._node = node
        """Node of the worker, as Ray's strategy for scheduling."""
        self._process: Process | None = None
        self._numbers = itertools.count()
        self._frames: deque[bytes] = deque()
        self._failure = ""

    @property
    def name(self) -> str:
        """``worker N on node ADDRESS``."""
        return self._name

    async def begin(self) -> bool:
        """Start the worker; return True if it has started."""
        from ray.exceptions import RayError

        try:
            self._process = await asyncio.wait_for(self._worker.begin.remote(), _START_SECONDS)
        except TimeoutError:
            self._failure = f"did not start within {_START_SECONDS:g} s: its node is busy"
        except RayError as error:
            self._failure = _cause(error)
        return not self._failure

    def post(self, frame: bytes) -> None:
        """Send a frame, with its number."""
        self._worker.take.remote(next(self._numbers), frame)

    async def receive(self) -> bytes | None:
        """Return the worker's next frame; ``None`` if the worker has ended, or is lost."""
        from ray.exceptions import RayError

        if not self._frames:
            try:
                frames = await self._worker.frames.remote()
            except RayError as error:
                self._failure = _cause(error)
                return None
            if frames is None:
                return None
            self._frames.extend(frames)
        return self._frames.popleft()

    @property
    def process_note(self) -> str:
        """Process of the worker on its node, as `` (process 1234)``."""
        return f" (process {self._process.pid})" if self._process else ""

    async def beat(self) -> None:
        """Send a heartbeat to the actor's group for it, and wait for the answer."""
        from ray.exceptions import RayError

        with contextlib.suppress(RayError):  # it is lost: the receiver of its frames reports that
            await self._worker.beat.options(concurrency_group=_HEARTBEAT_GROUP).remote()

    async def activity(self) -> Activity | None:
        """Return the activity of the worker's process; ``None`` if its node does not answer in time."""
        return None if self._process is None else await self._on_node(activity_of, self._process.pid)

    async def kill(self) -> None:
        """Kill the process by a task on its node, then the actor; a stopped process does not react to Ray."""
        import ray

        if self._process is not None:
            await self._on_node(_kill, self._process)
        ray.kill(self._worker)

    async def _on_node(self, function: Callable[[G], R], argument: G) -> R | None:
        """Carry out a function on the worker's node, in a separate process there; ``None`` if it is not in time."""
        import ray
        from ray.exceptions import RayError

        task = ray.remote(function).options(num_cpus=0, max_retries=0, scheduling_strategy=self._node)
        try:
            result: R = await asyncio.wait_for(task.remote(argument), _NODE_SECONDS)
        except (TimeoutError, RayError):
            return None
        return result

    async def end(self) -> str:
        """Kill the actor, and return how the worker was lost; empty if it was not."""
        import ray

        ray.kill(self._worker)
        return self._failure


async def open_cluster(
    workers: int | None, concurrency: int, shared_store: bool, exit_stack: ExitStack, say: Callable[[str], None]
) -> Sequence[RayLink]:
    """Join the cluster, and start one worker on each of its nodes, or `workers` on them in turn.

    Args:
        workers: number of workers; ``None``: the number of nodes with a processor for Ray.
        concurrency: attempts in flight in all; there are never more workers.
        shared_store: whether the store can be reached from other machines.
        exit_stack: exit stack that leaves the cluster at its end.
        say: called with a line for each worker that does not start.

    Raises:
        UserError: no cluster runs, or it has several nodes and the store is a file.
        StopRun: no worker could be started.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    _join(exit_stack)
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not nodes:
        raise UserError("The Ray cluster has no node with a processor for workers. Start one: `ray start --address=…`.")
    worker_nodes = list(itertools.islice(itertools.cycle(nodes), min(workers or len(nodes), concurrency)))
    leader_node = ray.get_runtime_context().get_node_id()
    if not shared_store and any(node["NodeID"] != leader_node for node in worker_nodes):
        raise UserError(
            f"The Ray cluster has {len(nodes)} nodes, and the store is a file on this machine. Set RAGROUNDS_STORE to "
            "a PostgreSQL database that all nodes reach: postgresql://USER@HOST/DATABASE."
        )
    links = []
    for number, node in enumerate(worker_nodes, 1):
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        kind = ray.remote(concurrency_groups={_HEARTBEAT_GROUP: 1})(RayWorker)
        actor = kind.options(num_cpus=1, max_restarts=0, scheduling_strategy=strategy).remote()
        links.append(RayLink(actor, f"worker {number} on node {node['NodeManagerAddress']}", strategy))
    started = await asyncio.gather(*(link.begin() for link in links))
    for link, has_started in zip(links, started, strict=True):
        if not has_started:
            say(f"{link.name} {await link.end()}.")
    if not any(started):
        raise StopRun("No worker could be started on the Ray cluster.")
    return [link for link, has_started in zip(links, started, strict=True) if has_started]


def _join(exit_stack: ExitStack) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    if ray.is_initialized():  # the pilot's questions have joined it already
        return
    from ray.exceptions import RayError

    try:
        _reach(os.environ.get("RAY_ADDRESS", ""))
        ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError, RayError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"Cannot join a Ray cluster: {reason}. Start one with `ray start --head`, or name one by RAY_ADDRESS; "
            "RAY_AUTH_MODE must be set alike on every part. Processes on this machine need no cluster: --workers N."
        ) from error
    # Ray prints pages about lost nodes on standard output, which is for results.
    devnull = exit_stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115 - `exit_stack` closes it
    exit_stack.enter_context(contextlib.redirect_stdout(devnull))
    exit_stack.callback(ray.shutdown)


def _reach(address: str) -> None:
    """Check that something answers at ``HOST:PORT``, because Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise OSError(f"nothing answers at RAY_ADDRESS {address} ({error.strerror or error})") from error


def _kill(worker: Process) -> None:
    """Kill the worker's process if it is still the same one; runs on the worker's node."""
    if worker.alive:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(worker.pid, signal.SIGKILL)


def _cause(error: Exception) -> str:
    from ray.exceptions import RayActorError

    if isinstance(error, RayActorError):
        return "was lost with its node, or cannot be reached"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"was lost: {lines[-1] if lines else type(error).__name__}"
