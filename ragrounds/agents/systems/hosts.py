"""Hosts: processes that run users' systems, each with its own modules, environment, folder and interpreter.

A host contains only the recorder (:mod:`ragrounds.recorder.host`). The watcher of the attempt, in this process, decides
how each call in the host is answered, as if the call had been made here. Events of the system are reported here, in
order. A host serves all systems with the same :class:`HostConfig`: one agent's, unless agents share a process. It ends
with the command, and the kernel ends it if this process dies. Its messages are bounded and checked, and a bad frame
ends it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import re
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
from ragrounds.agents.systems.in_process import to_recorder_question
from ragrounds.agents.systems.opening import OPENED, module_named
from ragrounds.agents.systems.reads import RecordedDependencies
from ragrounds.base.contracts import Observation
from ragrounds.base.errors import HostEnded, SharedHostEnded, UserError
from ragrounds.base.http import own_traffic
from ragrounds.base.processes import NO_UPLOADS
from ragrounds.base.records import Answer, Question
from ragrounds.base.text import safe
from ragrounds.recorder.clock import VALUES
from ragrounds.recorder.frames import BadFrame
from ragrounds.recorder.redaction import redacted
from ragrounds.recorder.wire import WATCHER

MOST_ENDS = 3
"""Number of ends in a row without an answer, after which a host is not restarted."""
_MAX_ENDED = 64
"""Number of ended attempts that are kept, because a thread that they left behind may still make a call."""
_GRACE = 2.0
"""Seconds that a host has to end by itself, with its systems' exit handlers."""
_POLL_SECONDS = 0.005
_MAX_LINES, _MAX_LINE = 100, 500
"""Maximum number of a host's printed lines that are shown, and of the bytes of each."""
_COLOURS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_MAX_LAST_PRINTS = 2000
"""Maximum number of a host's last printed bytes that are kept."""
_LONGEST_LINE = 1 << 16
"""Number of bytes of a printed line after which its end is not waited for."""
_CLOSED_VARIABLES = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Variables of a closed host. LiteLLM and DSPy ship a list of models, and would otherwise download a newer one."""
_CHILD = str(Path(__file__).parents[2] / "recorder" / "__main__.py")


class HostConfig(NamedTuple):
    """Start configuration of a host. Systems with the same configuration share a host."""

    python: str
    """Path of the interpreter."""
    folder: str
    """The system's own folder. Another version of the system has another folder."""
    working: str
    """Working folder of the process."""
    environment: tuple[tuple[str, str], ...]
    agent: str = ""
    """The only system that it runs, with its settings, as JSON. Empty if the agents of the folder share it."""
    closed: bool = False
    """True in a replay: nothing may leave the process."""
    alone: bool = False
    """True if it answers one question and then ends, because the last host ended while it answered several."""


def environment(variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the variables of a host: those of this process without ragrounds' settings, and `variables` that are not
    set.

    No traces are uploaded.
    """
    ours = ("RAGROUNDS_", "PYTEST_CURRENT_TEST")  # pytest sets it for each test: tests could not share a host
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return tuple(sorted({**variables, **inherited, **NO_UPLOADS}.items()))


class Host:
    """A process that runs systems."""

    def __init__(self, config: HostConfig, loop: asyncio.AbstractEventLoop, ends: int = 0) -> None:
        """Start a host.

        Args:
            config: its configuration.
            loop: event loop that handles the calls made while systems are loaded.
            ends: number of earlier ends in a row of hosts with this configuration.

        Raises:
            UserError: it cannot be started.
        """
        self.config, self.closed = config, config.closed
        self.heard = dependencies_in_host(config)
        self.ends = ends
        self.answered = False
        self.how = ""
        """How it has ended. Empty while it runs."""
        self._reason = ""
        """Reason why it was ended."""
        self._loop = loop
        self._lock = threading.RLock()  # commands of several threads may use it
        self._last = 0
        self._work: dict[int, Work] = {}
        self._over: deque[int] = deque()
        self._systems: dict[HostedSystem, tuple[int, Work]] = {}
        ours, theirs = socket.socketpair()
        lifeline, self._life = os.pipe()
        variables = {**dict(config.environment), **(_CLOSED_VARIABLES if config.closed else {})}
        command = [config.python, _CHILD, str(theirs.fileno()), str(lifeline), "closed" if config.closed else "open"]
        try:
            with own_traffic():  # a process of ragrounds, not one that a system has started
                self._process = subprocess.Popen(  # noqa: S603
                    command, cwd=config.working, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(), lifeline), start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            ours.close()
            os.close(self._life)
            raise UserError(f"{config.python!r} cannot be started in {config.working}: {error.strerror}.") from error
        finally:
            theirs.close()
            os.close(lifeline)
        self.pid = self._process.pid
        self._last_prints = b""
        self._line = Line(self, ours)
        self._prints = threading.Thread(target=self._forward_output, name="ragrounds-host-prints", daemon=True)
        self._prints.start()
        self._thread = threading.Thread(target=self._read, name="ragrounds-host", daemon=True)
        self._thread.start()  # after the prints, for which it waits when the process ends
        threading.Thread(target=self._end_if_stopped, name="ragrounds-host-state", daemon=True).start()

    def opened(self, system: HostedSystem) -> Work:
        """Return the work of loading a system in this host, which is started if necessary."""
        with self._lock:
            registered = self._systems.get(system)
            if registered is not None:
                return registered[1]
            values = OPENED.get(module_named(system.name))
            work = Work(system.name, self._loop, values=values)
            work.again = None if system.config.alone else system.alone
            number = self._begin(work)
            self._systems[system] = number, work
        self._post(
            work, "open", id=number, target=system.target, folders=system.folders, wiring=system.wiring,
            person=system.person, values=values and dict(values.recorded),
        )  # fmt: skip
        self._line.flush()  # the waiting caller may block the event loop of this thread
        return work

    async def answer(self, system: HostedSystem, question: Question, seen: Observation) -> Answer:
        """Let an open system answer a question."""
        values = VALUES.get()
        work = Work(system.name, asyncio.get_running_loop(), seen, values)
        work.again = None if system.config.alone else system.alone
        number, (opened, _) = self._begin(work), self._systems[system]
        self._post(
            work, "answer", attempt=number, id=opened, question=to_recorder_question(question), thread=seen.thread,
            max_steps=seen.max_steps, changes=seen.changes, values=values and dict(values.recorded),
        )  # fmt: skip
        try:
            answer: Answer = await asyncio.wrap_future(work.done)
            _HOSTS.answered(self.config)
            return answer
        finally:
            if work.done.cancelled():
                self._line.post("cancel", attempt=number)
                self._line.flush()  # this event loop may be about to stop
                work.cut_off()
            with self._lock:
                self._over.append(number)
                while len(self._over) > _MAX_ENDED and not self._work[self._over[0]].busy:
                    del self._work[self._over.popleft()]

    def end(self) -> None:
        """Ask the process to end."""
        self._line.post("end")
        self._line.flush()

    def wait(self, until: float) -> None:
        """Wait until it has ended. At the time `until`, it is killed together with its running children."""
        while self._runs() and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        self._kill()
        if threading.current_thread() is not self._thread:
            self._thread.join(_GRACE)
            self._prints.join(_GRACE)

    # Called by its connection

    def work(self, number: int) -> Work | None:
        """Return the work of a number, or ``None`` if it ended long ago.

        Raises:
            BadFrame: no work has this number.
        """
        if not 0 < number <= self._last:
            raise BadFrame(f"there is no attempt {number}")
        return self._work.get(number)

    def offend(self, how: str) -> None:
        """End the host, because it sent an invalid message."""
        self.refuse(f"sent an invalid message ({how}) and was stopped")
        self._kill()

    def refuse(self, reason: str) -> None:
        """Record the host's report that it cannot start."""
        self._reason = self._reason or safe(reason, 300)

    def _begin(self, work: Work) -> int:
        with self._lock:
            self._last += 1
            self._work[self._last] = work
            return self._last

    def _post(self, work: Work, frame: str, **fields: Any) -> None:
        self._line.post(frame, **fields)
        if self.how:  # the host ended before the work began
            work.fail(self._ended(work, shared=True))

    def _runs(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        # The exit status is not consumed here, so that the process id is not reused.
        with contextlib.suppress(ChildProcessError):
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
        self.wait(time.monotonic() + _GRACE)  # it may be about to end by itself, and its exit code says how
        self._prints.join(_GRACE)
        code = self._process.wait()
        ended_by = next((entry.name for entry in signal.Signals if entry == -code), f"signal {-code}")
        ending = f"ended with exit code {code}" if code >= 0 else f"was ended by {ended_by}"
        self.how = self._reason or ending
        unfinished = list(self._work.values())
        # A cancelled attempt may have left a thread behind, so it counts as running.
        runs = sum(not work.done.done() or work.done.cancelled() for work in unfinished)
        for work in unfinished:
            work.fail(self._ended(work, shared=runs > 1))
        self._line.close()
        os.close(self._life)

    def _end_if_stopped(self) -> None:
        """End the host if it has stopped itself (SIGSTOP), because it would answer no more."""
        states = os.WEXITED | os.WSTOPPED | os.WNOWAIT if hasattr(os, "waitid") else 0
        with contextlib.suppress(ChildProcessError):
            while states and (state := os.waitid(os.P_PID, self.pid, states)) and state.si_code == os.CLD_STOPPED:
                time.sleep(_GRACE)  # a batch system may stop and continue all processes
                state = os.waitid(os.P_PID, self.pid, states | os.WNOHANG)
                if state is not None and state.si_code == os.CLD_STOPPED:
                    self.refuse("was stopped by a signal, and then ended")
                    self._kill()
                    return

    def _forward_output(self) -> None:
        """Forward the first lines of its output, with its name, to the current standard error, which a full-screen
        display may hold back. Traces have the rest.
        """
        output = self._process.stdout
        assert output is not None
        line, lines_left = b"", _MAX_LINES
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(output.fileno(), 1 << 16):
                self._last_prints = (self._last_prints + part)[-_MAX_LAST_PRINTS:]
                if lines_left:
                    *lines, line = (line + part).split(b"\n")
                    line = line[:_LONGEST_LINE]
                    self._forward(lines[:lines_left], more=len(lines) >= lines_left)
                    lines_left = max(0, lines_left - len(lines))
            self._forward([line] if line and lines_left else [])

    def _forward(self, lines: list[bytes], *, more: bool = False) -> None:
        names = [system.name for system in list(self._systems)]
        # Without its folders: a screen cuts long lines, and what was printed would not be seen.
        name = names[0].rpartition(os.sep)[2] if names and self.config.agent else Path(self.config.folder).name
        shown = [_COLOURS.sub(b"", line.rstrip(b"\r").rpartition(b"\r")[2]) for line in lines]
        # Redacted before it is cut: a part of a key is not found. Programs that the system starts print here, too.
        texts = [f"{name} | {safe(redacted(line.decode('utf-8', 'replace'))[:_MAX_LINE])}\n" for line in shown]
        texts += [f"{name} | … prints more: see its attempts' traces\n"] if more else []
        os.write(2, "".join(texts).encode("utf-8", "replace"))

    def _ended(self, work: Work, *, shared: bool) -> Exception:
        message = f"the process that {work.name} runs in {self.how}"
        error = SharedHostEnded(message, work.again) if shared and work.again else HostEnded(message)
        # A line that is cut may begin with a part of a key.
        last = self._last_prints if len(self._last_prints) < _MAX_LAST_PRINTS else self._last_prints.partition(b"\n")[2]
        if printed := redacted(last.decode("utf-8", "replace")).strip():
            error.trace = f"{message}. The last lines that it printed:\n{printed}"
        return error


class _Hosts:
    """The hosts of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_config: dict[HostConfig, Host] = {}
        self._owner = 0
        self._loop: asyncio.AbstractEventLoop

    def host_for(self, config: HostConfig) -> Host:
        """Return the host of a configuration, and start it if necessary.

        Raises:
            UserError: it cannot be started.
            HostEnded: it has ended too often.
        """
        with self._lock:
            if self._owner != os.getpid():  # a forked child does not have its parent's hosts
                self._owner, self._by_config, self._loop = os.getpid(), {}, asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ragrounds-opened", daemon=True).start()
            host = self._by_config.get(config)
            if host is None or host.how:
                ends = 0 if host is None or host.answered else host.ends + 1
                if host is not None and ends >= MOST_ENDS:
                    raise HostEnded(f"the process of this system {host.how}, {ends} times in a row: not restarted")
                host = self._by_config[config] = Host(config, self._loop, ends)
            return host

    def answered(self, config: HostConfig) -> None:
        """Reset the count of ends of a configuration's hosts, because one has answered, perhaps in a host for one
        question.
        """
        with self._lock:
            for running_place, host in self._by_config.items():
                host.answered |= running_place._replace(alone=config.alone) == config

    def end(self, config: HostConfig | None = None) -> None:
        """End all hosts, or those of one configuration, with their child processes."""
        with self._lock:
            ends = [
                running_place
                for running_place in self._by_config
                if config is None or running_place._replace(closed=config.closed) == config
            ]
            hosts = [self._by_config.pop(running_place) for running_place in ends] if self._owner == os.getpid() else []
        for host in hosts:
            host.end()
        until = time.monotonic() + _GRACE
        for host in hosts:
            host.wait(until)


_HOSTS = _Hosts()
atexit.register(_HOSTS.end)


_RECORDS: dict[HostConfig, RecordedDependencies] = {}


def dependencies_in_host(config: HostConfig) -> RecordedDependencies:
    """Return the recorded dependencies of a host configuration's systems in this command."""
    location = config._replace(closed=False, alone=False, agent="")
    return _RECORDS.setdefault(location._replace(agent=config.agent), RecordedDependencies(location=location))


def end_hosts() -> None:
    """End the hosts of this process, with their child processes. A command calls this at its end."""
    _HOSTS.end()
    _RECORDS.clear()


class HostedSystem:
    """A system in a host (contract: System)."""

    takes_context = False

    def __init__(
        self,
        name: str,
        target: str,
        config: HostConfig,
        *,
        wiring: Mapping[str, Any],
        folders: tuple[str, ...] = (),
        person: str = "",
    ) -> None:
        """Describe a system and its host.

        Args:
            name: the user's name for it, for errors.
            target: ``/folder/file.py:NAME`` or ``package.module:NAME``.
            config: configuration of its host.
            wiring: the fields of its wiring (:class:`ragrounds.recorder.answers.Wiring`), except `person`.
            folders: are searched for modules, after everything else.
            person: import path of the function that answers if it asks a person; empty if not set.
        """
        self.name, self.target, self.config = name, target, config
        self.wiring, self.folders, self.person = dict(wiring), folders, person
        self.kind = ""
        """Form of the system. Empty after opening if it imports ragrounds, and so must be opened in this process."""
        self.sealed = False
        """True if the kernel refuses all traffic of its last host process, in a replay."""
        self.version = ""
        """Version of its host's Python: ``3.12``."""

    @property
    def heard(self) -> RecordedDependencies:
        """Return the recorded dependencies of its host's systems."""
        return dependencies_in_host(self.config)

    def open(self) -> HostedSystem:
        """Open the system, and wait until it is open.

        Raises:
            UserError: it cannot be opened.
        """
        try:
            self._set_state(self._host().opened(self).done.result())
        except HostEnded as ended:
            raise UserError(f"{self.name} cannot be opened: {ended}.") from None
        return self

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Answer a question in the host, which is restarted if it has ended.

        Raises:
            HostEnded: its host ended.
            SharedHostEnded: its host ended, and another question may have caused that.
            SystemFailed: the system raised an exception.
        """
        host = self._host()
        opening = host.opened(self)
        if not opening.done.done():
            await asyncio.shield(asyncio.wrap_future(opening.done))  # shielded, because other attempts wait for it too
        self._set_state(opening.done.result())
        return await host.answer(self, question, seen)

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[HostedSystem]:
        """Open the same system in a new host, which answers nothing else and ends with the block."""
        config = self.config._replace(alone=True)
        try:
            yield HostedSystem(
                self.name, self.target, config, wiring=self.wiring, folders=self.folders, person=self.person
            )
        finally:
            await asyncio.to_thread(_HOSTS.end, config)

    def _host(self) -> Host:
        watcher = WATCHER.get()
        return _HOSTS.host_for(self.config._replace(closed=watcher is not None and watcher.closed))

    def _set_state(self, opened: SystemOpened) -> None:
        self.kind, self.sealed, self.version = opened.kind, opened.sealed, safe(opened.python, 20)
