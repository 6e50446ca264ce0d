"""Leases: a row of the store names the process that makes a run, so that no two processes make the same one.

The owner increments a number every few seconds, and a process that finds its row waits to see whether the number
changes. No two clocks are compared, so a clock that jumps or is wrong does no harm. On the same machine there is no
waiting: the owner is looked up by its process id and its start time.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType

import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.base.processes import Process, process, this_machine
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import fetch_rows, insert_new, write

BEAT = 3.0
"""Seconds between two increments by an owner."""
SILENCE = 20.0
"""Seconds without an increment after which an owner on another machine is considered dead."""
_LOOK = 0.5
_leases = schema.leases


class Lease:
    """Lease of some runs, owned by this process while the block lasts.

    It is also a reason to stop these runs (the engine's contract `Stop`): another process may have taken one over.
    """

    epochs_together = False

    def __init__(self, engine: sa.Engine, runs: Sequence[str], say: Callable[[str], None] = lambda text: None) -> None:
        self._engine = engine
        self._runs = sorted(runs)
        self._say = say
        self._owner = uuid.uuid4().hex
        self._over = threading.Event()
        self._lost = False
        self._keeper = threading.Thread(target=self._keep, name="ragrounds-lease", daemon=True)

    def __enter__(self) -> Lease:
        """Take the runs.

        Raises:
            UserError: another process owns one of them.
            StopRun: the store cannot be written.
        """
        try:
            for run in self._runs:
                self._take(run)
        except BaseException:
            with suppress(UserError):  # the first reason counts
                self._release()
            raise
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._keeper.join()
        try:
            self._release()
        except UserError:
            if error is None:  # the first reason counts
                raise

    def observe(self, finished: object) -> None:
        """Do nothing: an attempt does not show who owns its run."""

    def reached(self) -> str:
        """Return the reason to stop; empty while this process owns its runs.

        Another process takes a run over from one that was suspended or cut off from the store for too long.
        """
        return "another process continues the run, because this one did not respond for too long" if self._lost else ""

    def _take(self, run: str) -> None:
        own_process = process(os.getpid())
        own_row = {
            "run": run,
            "owner": self._owner,
            "host": platform.node(),
            "machine": this_machine(),
            "pid": os.getpid(),
            "started": own_process.started if own_process else "",
            "beat": 0,
        }
        while True:
            self._write(insert_new(self._engine, _leases), own_row)
            row = _lease_of(self._engine, run)
            # The existing row decides, not the result of the insert: if two processes come at once, exactly one finds
            # its own row.
            if row is None:
                continue  # released at this moment
            if row.owner == self._owner:
                return
            if self._alive(run, row):
                raise UserError(
                    f"The run {run} is being made by process {row.pid} on {row.host}. Wait until it has ended, or "
                    "stop it and give the same command again; --new starts another run."
                )
            # The update requires the owner and number that were seen, so that a process that takes the lease or
            # increments the number at this moment wins.
            take_over = sa.update(_leases).where(
                _leases.c.run == run, _leases.c.owner == row.owner, _leases.c.beat == row.beat
            )
            self._write(take_over.values(**own_row))

    def _alive(self, run: str, row: sa.Row[tuple[object, ...]]) -> bool:
        if row.machine == this_machine():
            return Process(row.pid, row.started).alive
        self._say(
            f"The run {run} was begun by process {row.pid} on {row.host}: waiting up to {SILENCE:g} s to see "
            "whether it is still running."
        )
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            time.sleep(_LOOK)
            new_row = _lease_of(self._engine, run)
            if new_row is None:
                return False
            if (new_row.owner, new_row.beat) != (row.owner, row.beat):
                return True
        return False

    def _keep(self) -> None:
        increment = sa.update(_leases).where(_leases.c.owner == self._owner).values(beat=_leases.c.beat + 1)
        while not self._over.wait(BEAT):
            try:
                with self._engine.begin() as connection:
                    self._lost = connection.execute(increment).rowcount < len(self._runs)
            except (sa.exc.SQLAlchemyError, UserError):
                continue  # writing results fails with the same error, which is reported
            if self._lost:
                return

    def _release(self) -> None:
        self._write(sa.delete(_leases).where(_leases.c.owner == self._owner))

    def _write(self, statement: sa.Executable, values: dict[str, object] | None = None) -> None:
        write(self._engine, lambda connection: connection.execute(statement, values))


def is_stale(lease: sa.Row[tuple[object, ...]]) -> bool:
    """Return True if the owner of a lease was a process of this machine that has ended. Owners on other machines are
    unknown.
    """
    return lease.machine == this_machine() and not Process(lease.pid, lease.started).alive


def worker(engine: sa.Engine, run: str) -> str:
    """Describe the process that owns the lease of a run; empty if there is no lease, or its owner has ended."""
    row = _lease_of(engine, run)
    return f"process {row.pid} on {row.host}" if row and not is_stale(row) else ""


def _lease_of(engine: sa.Engine, run: str) -> sa.Row[tuple[object, ...]] | None:
    return next(iter(fetch_rows(engine, sa.select(_leases).where(_leases.c.run == run))), None)
