"""Leases: a row of the store says which process makes a run, so that no two processes make the same one.

The owner counts a number up every few seconds, and whoever finds its row waits to see whether the number changes. No
two clocks are compared, so one that jumps or is wrong does no harm. On the same machine nobody waits: the owner is
looked up by its process id and the time of its start.
"""

from __future__ import annotations

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType

import sqlalchemy as sa

from ragrounds.base.errors import UserError
from ragrounds.base.processes import Process, process, this_machine
from ragrounds.evals.store import schema
from ragrounds.evals.store.database import again, insert_new, write

BEAT = 3.0
"""Seconds between two counts of an owner."""
SILENCE = 20.0
"""Seconds without a count after which an owner on another machine is taken to be dead."""
_LOOK = 0.5
_leases = schema.leases


class Lease:
    """The lease of some runs, held by this process while the block lasts.

    It is a reason to stop these runs too (the engine's contract `Stop`): another process may have taken one over.
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
            UserError: another process holds one of them.
            StopRun: the store cannot be written.
        """
        try:
            for run in self._runs:
                self._take(run)
        except BaseException:
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
        """Nothing: no attempt says who holds its run."""

    def reached(self) -> str:
        """Why to stop; empty: this process still holds its runs.

        Another process takes a run over from one that was suspended or cut off from the store for too long.
        """
        return "another process continues the run, because this one did not respond for too long" if self._lost else ""

    def _take(self, run: str) -> None:
        mine = {"run": run, "owner": self._owner, **_here(), "beat": 0}
        while True:
            self._write(insert_new(self._engine, _leases), mine)
            held = self._row(run)
            # The row that is there decides, not whether the insert wrote one: of two that come at once exactly one
            # has its own there.
            if held is None:
                continue  # given back in this moment
            if held.owner == self._owner:
                return
            if self._alive(run, held):
                raise UserError(
                    f"The run {run} is being made by process {held.pid} on {held.host}. Wait until it has ended, or "
                    "stop it and give the same command again; --new starts another run."
                )
            # Only from the owner and count that was seen: one who takes it, or counts, in this moment wins.
            taken = sa.update(_leases).where(
                _leases.c.run == run, _leases.c.owner == held.owner, _leases.c.beat == held.beat
            )
            self._write(taken.values(**mine))

    def _alive(self, run: str, held: sa.Row[tuple[object, ...]]) -> bool:
        if held.machine == this_machine():
            return Process(held.pid, held.started).alive
        self._say(
            f"The run {run} was begun by process {held.pid} on {held.host}: waiting up to {SILENCE:g} s to see "
            "whether it is still running."
        )
        end = time.monotonic() + SILENCE
        while time.monotonic() < end:
            time.sleep(_LOOK)
            now = self._row(run)
            if now is None:
                return False
            if (now.owner, now.beat) != (held.owner, held.beat):
                return True
        return False

    def _keep(self) -> None:
        counted = sa.update(_leases).where(_leases.c.owner == self._owner).values(beat=_leases.c.beat + 1)
        while not self._over.wait(BEAT):
            try:
                with self._engine.begin() as connection:
                    self._lost = connection.execute(counted).rowcount < len(self._runs)
            except (sa.exc.SQLAlchemyError, UserError):
                continue  # whoever writes results will meet it too, and say so
            if self._lost:
                return

    def _row(self, run: str) -> sa.Row[tuple[object, ...]] | None:
        def read() -> sa.Row[tuple[object, ...]] | None:
            with self._engine.connect() as connection:
                return connection.execute(sa.select(_leases).where(_leases.c.run == run)).first()

        return again(read)

    def _release(self) -> None:
        self._write(sa.delete(_leases).where(_leases.c.owner == self._owner))

    def _write(self, statement: sa.Executable, values: dict[str, object] | None = None) -> None:
        write(self._engine, lambda connection: connection.execute(statement, values))


def is_stale(held: sa.Row[tuple[object, ...]]) -> bool:
    """Whether the owner of a lease was a process of this machine that has ended. Of another machine's nothing is
    known."""
    return held.machine == this_machine() and not Process(held.pid, held.started).alive


def worker(engine: sa.Engine, run: str) -> str:
    """Which process holds the lease of a run, in words; empty: none."""
    with engine.connect() as connection:
        held = connection.execute(sa.select(_leases).where(_leases.c.run == run)).first()
    return f"process {held.pid} on {held.host}" if held else ""


def _here() -> dict[str, object]:
    """This process as a row names it."""
    own = process(os.getpid())
    return {
        "host": platform.node(),
        "machine": this_machine(),
        "pid": os.getpid(),
        "started": own.started if own else "",
    }
