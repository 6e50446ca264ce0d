"""Hosts: processes in which systems of anyone's run, each with its own modules, environment, folder and interpreter.

A host has the recorder and nothing else of ours (:mod:`ragrounds.recorder.host`). What becomes of a call that a system
makes there is decided here, by whoever watches the attempt, as if the call had been made in this process; what the
system does is told here, in order. A host serves all systems of one place and is ended with the command, and by the
kernel where this process dies. What it sends is bounded and checked, and a bad frame ends it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ragrounds.agents.systems.host_frames import SystemOpened
from ragrounds.agents.systems.host_work import Line, Work
from ragrounds.agents.systems.in_process import asked
from ragrounds.agents.systems.opening import OPENED, module_named
from ragrounds.agents.systems.reads import Heard
from ragrounds.base.contracts import Observation
from ragrounds.base.errors import HostEnded, SharedHostEnded, UserError
from ragrounds.base.http import own_traffic
from ragrounds.base.processes import NO_UPLOADS
from ragrounds.base.records import Answer, Question
from ragrounds.base.text import safe
from ragrounds.recorder.clock import VALUES
from ragrounds.recorder.frames import BadFrame
from ragrounds.recorder.wire import WATCHER

MOST_ENDS = 3
"""How often in a row a host may end by itself, with no attempt answered, before it is not started again."""
_KEPT = 64
"""Attempts that have ended and of which a call may come still, of a thread that they left behind."""
_GRACE = 2.0
"""Seconds that a host has to end by itself, with what its systems do at the end."""
_LOOK = 0.005
_CLOSED = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Variables of a closed host: LiteLLM and DSPy have a list of models with them, and ask for a newer one by network."""
_CHILD = str(Path(__file__).parents[2] / "recorder" / "__main__.py")


class HostPlace(NamedTuple):
    """What a host is started with. Systems that have the same share one."""

    python: str
    """The interpreter."""
    folder: str
    """The system's own: another version of it stands in another."""
    working: str
    """The working folder."""
    environment: tuple[tuple[str, str], ...]
    closed: bool = False
    """Nothing may leave it: a replay."""
    alone: bool = False
    """It answers one question, and is ended then: others had been in hand when the last one ended."""


def environment(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The variables of a host: those of this process without our own settings, and `variables` where they are not
    set. No traces are uploaded."""
    ours = ("RAGROUNDS_", "PYTEST_CURRENT_TEST")  # pytest sets it for each test: none could use the host of another
    own = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return tuple(sorted({**variables, **own, **NO_UPLOADS}.items()))


class Host:
    """A process that systems run in."""

    def __init__(self, place: HostPlace, loop: asyncio.AbstractEventLoop, ends: int = 0) -> None:
        """Start one.

        Args:
            place: what it is started with.
            loop: on which the calls are looked at that are made while systems are opened.
            ends: how often in a row such a host has ended.

        Raises:
            UserError: it cannot be started.
        """
        self.place, self.closed = place, place.closed
        self.heard = heard_in(place)
        self.ends = ends
        self.answered = False
        self.how = ""
        """How it has ended; empty: it lives."""
        self._why = ""
        """Why it was ended."""
        self._loop = loop
        self._lock = threading.RLock()  # commands of several threads may use it
        self._last = 0
        self._work: dict[int, Work] = {}
        self._over: deque[int] = deque()
        self._systems: dict[HostedSystem, tuple[int, Work]] = {}
        ours, theirs = socket.socketpair()
        lifeline, self._life = os.pipe()
        variables = {**dict(place.environment), **(_CLOSED if place.closed else {})}
        command = [place.python, _CHILD, str(theirs.fileno()), str(lifeline), "closed" if place.closed else "open"]
        try:
            with own_traffic():  # a process of ours, and none that a system has started
                self._process = subprocess.Popen(  # noqa: S603
                    command, cwd=place.working, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(), lifeline), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            ours.close()
            os.close(self._life)
            raise UserError(f"{place.python!r} cannot be started in {place.working}: {error.strerror}.") from error
        finally:
            theirs.close()
            os.close(lifeline)
        self.pid = self._process.pid
        self._line = Line(self, ours)
        self._thread = threading.Thread(target=self._read, name="ragrounds-host", daemon=True)
        self._thread.start()
        self._prints = threading.Thread(target=self._hand_on, name="ragrounds-host-prints", daemon=True)
        self._prints.start()

    def opened(self, system: HostedSystem) -> Work:
        """A system, opened in this host or being opened."""
        with self._lock:
            known = self._systems.get(system)
            if known is not None:
                return known[1]
            values = OPENED.get(module_named(system.name))
            work = Work(system.name, self._loop, values=values)
            work.again = None if system.place.alone else system.alone
            number = self._begin(work)
            self._systems[system] = number, work
        self._post(
            work, "open", id=number, target=system.target, folders=system.folders, wiring=system.wiring,
            person=system.person, values=values and dict(values.known),
        )  # fmt: skip
        self._line.flush()  # whoever waits for it may hold up the loop that runs here
        return work

    async def answer(self, system: HostedSystem, question: Question, seen: Observation) -> Answer:
        """Have a system answer that is open."""
        values = VALUES.get()
        work = Work(system.name, asyncio.get_running_loop(), seen, values)
        work.again = None if system.place.alone else system.alone
        number, (opened, _) = self._begin(work), self._systems[system]
        self._post(
            work, "answer", attempt=number, id=opened, question=asked(question), thread=seen.thread,
            max_steps=seen.max_steps, changes=seen.changes, values=values and dict(values.known),
        )  # fmt: skip
        try:
            answer: Answer = await asyncio.wrap_future(work.done)
            _HOSTS.answered(self.place)
            return answer
        finally:
            if work.done.cancelled():
                self._line.post("cancel", attempt=number)
                self._line.flush()  # this loop may be at its end
                work.cut_off()
            with self._lock:
                self._over.append(number)
                while len(self._over) > _KEPT and not self._work[self._over[0]].busy:
                    del self._work[self._over.popleft()]

    def end(self) -> None:
        """Ask it to end."""
        self._line.post("end")
        self._line.flush()

    def wait(self, until: float) -> None:
        """Wait until it has ended; at the time `until` it is killed, and so are its children that still run."""
        while self._runs() and time.monotonic() < until:
            time.sleep(_LOOK)
        self._kill()
        if threading.current_thread() is not self._thread:
            self._thread.join(_GRACE)
            self._prints.join(_GRACE)

    # For its lines

    def work(self, number: int) -> Work | None:
        """The work of a number; ``None``: it ended long ago.

        Raises:
            BadFrame: nothing had it.
        """
        if not 0 < number <= self._last:
            raise BadFrame(f"there is no attempt {number}")
        return self._work.get(number)

    def offend(self, how: str) -> None:
        """End it: it has sent what no host may."""
        self.refuse(f"sent an invalid message ({how}) and was stopped")
        self._kill()

    def refuse(self, why: str) -> None:
        """It says that it cannot begin."""
        self._why = self._why or safe(why, 300)

    def _begin(self, work: Work) -> int:
        with self._lock:
            self._last += 1
            self._work[self._last] = work
            return self._last

    def _post(self, work: Work, frame: str, **said: Any) -> None:
        self._line.post(frame, **said)
        if self.how:  # it had ended before the work was begun
            work.fail(self._ended(work, others=True))

    def _runs(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        with contextlib.suppress(ChildProcessError):  # looked at alone, so that nobody else gets its number
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        return False

    def _kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _read(self) -> None:
        try:
            self._line.read()
        except BadFrame as bad:
            self.offend(str(bad))
        self.wait(time.monotonic() + _GRACE)  # it may be about to end by itself, and its code says how
        code = self._process.wait()
        said = f"ended with exit code {code}" if code >= 0 else f"was ended by {_signal(-code)}"
        self.how = self._why or said
        left = list(self._work.values())
        # What was cut off may have left a thread behind.
        runs = sum(not work.done.done() or work.done.cancelled() for work in left)
        for work in left:
            work.fail(self._ended(work, others=runs > 1))
        self._line.close()
        os.close(self._life)

    def _hand_on(self) -> None:
        """Hand on what it prints, to standard error as it is at the moment: a screen that is drawn holds it back."""
        said = self._process.stdout
        assert said is not None
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(said.fileno(), 1 << 16):
                os.write(2, part)

    def _ended(self, work: Work, *, others: bool) -> Exception:
        said = f"the process that {work.name} runs in {self.how}"
        return SharedHostEnded(said, work.again) if others and work.again else HostEnded(said)


def _signal(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


class _Hosts:
    """The hosts of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[HostPlace, Host] = {}
        self._owner = 0
        self._loop: asyncio.AbstractEventLoop

    def at(self, place: HostPlace) -> Host:
        """The host of a place, started where there is none.

        Raises:
            UserError: it cannot be started.
            HostEnded: it has ended too often.
        """
        with self._lock:
            if self._owner != os.getpid():  # a fork has its parent's hosts no more
                self._owner, self._held, self._loop = os.getpid(), {}, asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ragrounds-opened", daemon=True).start()
            host = self._held.get(place)
            if host is None or host.how:
                ends = 0 if host is None or host.answered else host.ends + 1
                if host is not None and ends >= MOST_ENDS:
                    raise HostEnded(f"the process of this system {host.how}, {ends} times in a row: not restarted")
                host = self._held[place] = Host(place, self._loop, ends)
            return host

    def answered(self, place: HostPlace) -> None:
        """Begin anew to count how often in a row the hosts of a place end: one has answered, perhaps alone."""
        with self._lock:
            for at, host in self._held.items():
                host.answered |= at._replace(alone=place.alone) == place

    def end(self, place: HostPlace | None = None) -> None:
        """End them, or those of one place, with all that they have started."""
        with self._lock:
            ends = [at for at in self._held if place is None or at._replace(closed=place.closed) == place]
            held = [self._held.pop(at) for at in ends] if self._owner == os.getpid() else []
        for host in held:
            host.end()
        until = time.monotonic() + _GRACE
        for host in held:
            host.wait(until)


_HOSTS = _Hosts()
atexit.register(_HOSTS.end)


_HEARD: dict[HostPlace, Heard] = {}


def heard_in(place: HostPlace) -> Heard:
    """What the systems of a host's place have read in this command."""
    return _HEARD.setdefault(place._replace(closed=False, alone=False), Heard())


def end_hosts() -> None:
    """End the hosts of this process, with all that they have started: a command does it when it ends."""
    _HOSTS.end()
    _HEARD.clear()


class HostedSystem:
    """A system in a host (contract: System)."""

    takes_context = False

    def __init__(
        self,
        name: str,
        target: str,
        place: HostPlace,
        *,
        wiring: Mapping[str, Any],
        folders: tuple[str, ...] = (),
        person: str = "",
    ) -> None:
        """Say what is to be opened, and where.

        Args:
            name: what the user calls it, for errors.
            target: ``/folder/file.py:NAME`` or ``package.module:NAME``.
            place: what its host is started with.
            wiring: the fields of its wiring (:class:`ragrounds.recorder.answers.Wiring`), but for `person`.
            folders: are looked in for modules, behind everything else.
            person: where the function stands that answers where it asks a person; empty: there is none.
        """
        self.name, self.target, self.place = name, target, place
        self.wiring, self.folders, self.person = dict(wiring), folders, person
        self.kind = ""
        """Empty once it is open: it uses ragrounds itself, and has to be opened in this process."""
        self.sealed = False
        """The kernel lets nothing leave the process that it was opened in last, for a replay."""

    @property
    def heard(self) -> Heard:
        """What the systems of its host have read."""
        return heard_in(self.place)

    def open(self) -> HostedSystem:
        """Open it, and wait until it is.

        Raises:
            UserError: it cannot be opened.
        """
        try:
            self._known(self._host().opened(self).done.result())
        except HostEnded as ended:
            raise UserError(f"{self.name} cannot be opened: {ended}.") from None
        return self

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Have it answer in its host, which is started again where it has ended.

        Raises:
            HostEnded: its host ended.
            SharedHostEnded: that may have been another question's doing.
            SystemFailed: what it raised.
        """
        host = self._host()
        opening = host.opened(self)
        if not opening.done.done():
            await asyncio.shield(asyncio.wrap_future(opening.done))  # others wait for it too
        self._known(opening.done.result())
        return await host.answer(self, question, seen)

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[HostedSystem]:
        """The same system in a fresh host, which answers nothing else and is ended with the block."""
        place = self.place._replace(alone=True)
        try:
            yield HostedSystem(
                self.name, self.target, place, wiring=self.wiring, folders=self.folders, person=self.person
            )
        finally:
            await asyncio.to_thread(_HOSTS.end, place)

    def _host(self) -> Host:
        watcher = WATCHER.get()
        return _HOSTS.at(self.place._replace(closed=watcher is not None and watcher.closed))

    def _known(self, opened: SystemOpened) -> None:
        self.kind, self.sealed = opened.kind, opened.sealed
