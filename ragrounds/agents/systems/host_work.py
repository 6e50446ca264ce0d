"""What a host does for an attempt, or while it opens a system, acted on where the attempt is at home."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager
from contextvars import copy_context
from typing import Any, Protocol

import msgspec

from ragrounds.agents.systems.host_frames import (
    AnySaid,
    Exchange,
    Gone,
    PersonAsked,
    Sent,
    SystemAnswered,
    SystemOpened,
    SystemRaised,
    Tell,
    event,
    read_frame,
)
from ragrounds.agents.systems.in_process import answer_of
from ragrounds.agents.systems.reads import Heard
from ragrounds.base.contracts import Observation
from ragrounds.recorder.clock import Values
from ragrounds.recorder.frames import BadFrame, Reader, framed
from ragrounds.recorder.observer import AGO, STEP, Given
from ragrounds.recorder.unpacking import BadReply
from ragrounds.recorder.wire import WATCHER, Grown, ToldCall, Unsent, WireRequest, WireResponse

_MOST_ASKED = 20_000
"""Requests of one host that may wait for an answer at the same time."""
_MOST_TOLD, _LONGEST_TOLD = 200_000, 512 << 20
"""Events of one attempt, and the bytes of them."""


class ClientFailed(Exception):
    """What a client in a host raised while it sent."""


class Work:
    """An attempt in a host, or a system that is opened there. What the host sends of it is acted on in the context of
    who asked for it, on a loop: the attempt's own. Whoever watches there decides what becomes of its calls."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        seen: Observation | None = None,
        values: Values | None = None,
    ) -> None:
        self.name = name
        """What the user calls the system."""
        self.done: Future[Any] = Future()
        """The answer of an attempt; of a system, that it is open."""
        self.again: Callable[[], AbstractAsyncContextManager[Any]] | None = None
        """Of an attempt: its system in a host that answers nothing else."""
        self.told = self.bytes = 0
        """Events so far, and their bytes."""
        self._loop, self._seen, self._values = loop, seen, values
        self._watcher, self._context = WATCHER.get(), copy_context()
        self._calls: dict[tuple[Line, int], asyncio.Task[None]] = {}
        self._wanted: dict[tuple[Line, int], asyncio.Future[WireResponse]] = {}

    @property
    def busy(self) -> bool:
        """Whether calls of it are on their way."""
        return bool(self._calls)

    def take(self, line: Line, frames: list[tuple[AnySaid, bytes]]) -> None:
        """Act on what came, in its order. Called by the thread that reads."""
        try:
            self._loop.call_soon_threadsafe(self._act, line, frames, context=self._context)
        except RuntimeError:  # the loop is closed
            for said, _ in frames:
                if isinstance(said, Exchange):
                    line.settle(said.n, "refuse", why="the evaluation of this call has ended")

    def fail(self, error: Exception) -> None:
        """The host is gone. Called by the thread that reads."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fail, error)

    def cut_off(self) -> None:
        """End the calls that are on their way."""
        for task in list(self._calls.values()):
            task.cancel()

    def _fail(self, error: Exception) -> None:
        for waiting in self._wanted.values():
            if not waiting.done():
                waiting.set_exception(ClientFailed(str(error)))
        self._end(error)

    def _end(self, error: BaseException | None, result: object = None) -> None:
        with contextlib.suppress(InvalidStateError):  # it has ended before, or nobody waits
            if error is not None:
                self.done.set_exception(error)
            else:
                self.done.set_result(result)

    def _act(self, line: Line, frames: list[tuple[AnySaid, bytes]]) -> None:
        for said, body in frames:
            match said:
                case Tell():
                    self._tell(line, said)
                case Exchange():
                    self._stand(said)
                    key = (line, said.n)
                    self._calls[key] = self._loop.create_task(self._exchange(line, said, body))
                case Sent():
                    self._sent(line, said, body)
                case Gone() if (line, said.n) in self._calls:
                    self._calls[line, said.n].cancel()
                case SystemAnswered():
                    self._answered(line, said)
                case SystemOpened():
                    self._end(None, said)
                case PersonAsked() | SystemRaised():
                    self._end(said.error)

    def _answered(self, line: Line, said: SystemAnswered) -> None:
        try:
            self._end(None, answer_of(Given(said.text, said.choice, said.passages)))
        except ValueError as error:
            line.host.offend(str(error))

    def _stand(self, said: Tell | Exchange) -> None:
        """Stand where the system was when it said this."""
        STEP.set(said.step)
        ToldCall(said.model_call)

    def _tell(self, line: Line, said: Tell) -> None:
        others = {"unseen": self._watcher, "value": self._values, "read": line.host.heard}
        whom = others.get(said.what, self._seen)
        self._stand(said)
        AGO.set(max(0.0, time.perf_counter() - said.at))
        try:
            values = event(said)
            if whom is not None:
                getattr(whom, said.what)(**values)
        except BadFrame as bad:
            line.host.offend(str(bad))
        except Unsent:  # its recorder ends the attempt
            line.post("cancel", attempt=said.attempt)
        except Exception as error:  # as it would have been raised in the system
            self._end(error)
            line.post("cancel", attempt=said.attempt)
        finally:
            AGO.set(0.0)

    async def _exchange(self, line: Line, said: Exchange, body: bytes) -> None:
        """Have it decided what becomes of a request, and tell the host."""
        sent: WireResponse | None = None

        async def send(grown: Grown) -> WireResponse:
            """Have the host send it."""
            nonlocal sent
            self._wanted[line, said.n] = waiting = self._loop.create_future()
            line.post("send", n=said.n, longest=grown.longest)
            sent = await waiting
            grown(len(sent.body))
            return sent

        request, watcher = WireRequest(said.method, said.url, said.headers, body), self._watcher
        try:
            answer = None if watcher is None else await watcher.exchange(request, send, waits=said.waits)
        except BaseException as error:
            # A client that fails is told so, whatever has made it fail; what is refused is no exception there.
            what = "fail" if isinstance(error, Exception) else "refuse"
            line.settle(said.n, what, why=str(error) or type(error).__name__)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            line.give(said.n, answer, sent)
        finally:
            self._calls.pop((line, said.n), None)
            self._wanted.pop((line, said.n), None)

    def _sent(self, line: Line, said: Sent, body: bytes) -> None:
        waiting = self._wanted.get((line, said.n))
        if waiting is None or waiting.done():
            return
        if said.error:
            error = BadReply(said.fault, said.error) if said.fault else ClientFailed(said.error)
            waiting.set_exception(error)
        else:
            waiting.set_result(WireResponse(said.status, said.content_type, body, said.headers))


class Working(Protocol):
    """A host, as its lines see it."""

    def work(self, number: int) -> Work | None:
        """The work of a number; ``None``: it ended long ago.

        Raises:
            BadFrame: nothing had it.
        """

    def offend(self, how: str) -> None:
        """End the host: it has sent what no host may."""

    def refuse(self, why: str) -> None:
        """The host says that it cannot begin."""

    @property
    def closed(self) -> bool:
        """Nothing may leave it."""

    @property
    def heard(self) -> Heard:
        """What its systems have read."""


class Line:
    """A connection with a host: what it asks is answered on the same."""

    def __init__(self, host: Working, line: socket.socket) -> None:
        self.host = host
        self._socket = line
        self._lock = threading.Lock()
        self._left: list[bytes] = []
        """What is to be sent yet."""
        self._waits = False
        """A thread waits until the socket has room."""
        self._asked: dict[int, Work] = {}

    def read(self) -> None:
        """Hand what comes to whom it concerns, until the host is gone.

        Raises:
            BadFrame: the host sent what it may not.
        """
        reader = Reader(self._socket)
        while frames := reader.next():
            taken: dict[Work, list[tuple[AnySaid, bytes]]] = {}
            for frame in frames:
                said = read_frame(frame)
                whose = self._whose(said, frame.size)
                if whose is not None:
                    taken.setdefault(whose, []).append((said, frame.body))
            for whose, some in taken.items():
                whose.take(self, some)

    def _whose(self, said: AnySaid, size: int) -> Work | None:
        """Whom a frame concerns; ``None``: nobody any more."""
        if isinstance(said, Sent | Gone):
            return self._asked.get(said.n)
        if isinstance(said, SystemRaised) and not said.attempt:
            self.host.refuse(said.text)
            return None
        whose = self.host.work(said.attempt)
        if isinstance(said, Tell) and whose is not None:
            whose.told, whose.bytes = whose.told + 1, whose.bytes + size
            if whose.told > _MOST_TOLD or whose.bytes > _LONGEST_TOLD:
                raise BadFrame(f"{whose.told:,} events of one attempt, {whose.bytes:,} bytes")
        if isinstance(said, Exchange):
            if said.n in self._asked or len(self._asked) >= _MOST_ASKED:
                raise BadFrame(f"request {said.n} comes twice, or too many wait at the same time")
            if whose is not None:
                self._asked[said.n] = whose
            elif self.host.closed:  # of a thread that an attempt has left behind
                self.post("fail", n=said.n, why="A replay sends nothing.")
            else:
                self.post("pass", n=said.n)
        return whose

    def give(self, n: int, answer: WireResponse | None, sent: WireResponse | None) -> None:
        """Give an answer, without its body where that is what the host has read; ``None``: the request passes."""
        if answer is None:
            self.settle(n, "pass")
            return
        own = sent is not None and sent.body == answer.body
        self.settle(
            n, "give", b"" if own else answer.body, own=own, status=answer.status, content_type=answer.content_type,
            headers=dict(answer.headers),
        )  # fmt: skip

    def settle(self, n: int, frame: str, body: bytes = b"", **said: Any) -> None:
        """Tell the host what becomes of a request."""
        self._asked.pop(n, None)
        self.post(frame, body, n=n, **said)

    def post(self, frame: str, body: bytes = b"", **said: Any) -> None:
        """Send a frame: on a loop, with those of its other tasks. A host that does not read holds nobody up."""
        data = framed(msgspec.json.encode({"frame": frame, **said}), body)
        with self._lock:
            self._left.append(data)
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def flush(self) -> None:
        """Send what there is."""
        with self._lock:
            if self._waits or not self._left:
                return
            left, self._left = b"".join(self._left), []
            try:
                left = left[self._socket.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError:  # it is gone; who reads says so
                return
            if left:
                self._waits = True
                threading.Thread(target=self._wait, args=(left,), name="ragrounds-host-send", daemon=True).start()

    def _wait(self, left: bytes) -> None:
        """Send what the socket had no room for."""
        with contextlib.suppress(OSError):
            self._socket.sendall(left)
        self._waits = False
        self.flush()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
