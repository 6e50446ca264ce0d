"""Work of hosts, handled on this side: calls and events of an attempt, or of the loading of a system."""

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
from ragrounds.agents.systems.reads import RecordedDependencies
from ragrounds.base.contracts import Observation
from ragrounds.recorder.clock import Values
from ragrounds.recorder.frames import BadFrame, Reader, framed
from ragrounds.recorder.observer import STEP, TOLD_AT, SystemAnswer
from ragrounds.recorder.unpacking import BadReply
from ragrounds.recorder.wire import WATCHER, ReportedCall, SizeCheck, Unsent, WireRequest, WireResponse

_MAX_REQUESTS = 20_000
"""Maximum number of pending requests of one host."""
_MOST_TOLD, _MAX_EVENT_BYTES = 200_000, 512 << 20
"""Maximum number of events of one attempt, and of their bytes."""


class ClientFailed(Exception):
    """Error that a client in a host raised while it sent a request."""


class Work:
    """An attempt in a host, or the loading of a system there.

    Frames of the host are handled in the caller's context, on an event loop: the attempt's own. The watcher in that
    context decides how its calls are answered.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        seen: Observation | None = None,
        values: Values | None = None,
    ) -> None:
        self.name = name
        """The user's name for the system."""
        self.done: Future[Any] = Future()
        """Future of the attempt's answer, or of the loading of the system."""
        self.again: Callable[[], AbstractAsyncContextManager[Any]] | None = None
        """For an attempt: opens its system in a host that answers nothing else."""
        self.events = self.bytes = 0
        """Number of events so far, and of their bytes."""
        self._loop, self._seen, self._values = loop, seen, values
        self._watcher, self._context = WATCHER.get(), copy_context()
        self._calls: dict[tuple[Line, int], asyncio.Task[None]] = {}
        self._sending: dict[tuple[Line, int], asyncio.Future[WireResponse]] = {}

    @property
    def busy(self) -> bool:
        """Return True while some of its calls are in flight."""
        return bool(self._calls)

    def take(self, line: Line, frames: list[tuple[AnySaid, bytes]]) -> None:
        """Handle received frames, in order. Called by the reading thread."""
        try:
            self._loop.call_soon_threadsafe(self._act, line, frames, context=self._context)
        except RuntimeError:  # the event loop is closed
            for header, _ in frames:
                if isinstance(header, Exchange):
                    line.settle(header.n, "refuse", why="the evaluation of this call has ended")

    def fail(self, error: Exception) -> None:
        """Fail all pending work, because the host is gone. Called by the reading thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fail, error)

    def cut_off(self) -> None:
        """Cancel the calls in flight."""
        for task in list(self._calls.values()):
            task.cancel()

    def _fail(self, error: Exception) -> None:
        for waiting in self._sending.values():
            if not waiting.done():
                waiting.set_exception(ClientFailed(str(error)))
        self._end(error)

    def _end(self, error: BaseException | None, result: object = None) -> None:
        with contextlib.suppress(InvalidStateError):  # it has ended before, or was cancelled
            if error is not None:
                self.done.set_exception(error)
            else:
                self.done.set_result(result)

    def _act(self, line: Line, frames: list[tuple[AnySaid, bytes]]) -> None:
        for header, body in frames:
            match header:
                case Tell():
                    self._tell(line, header)
                case Exchange():
                    self._restore_context(header)
                    key = (line, header.n)
                    self._calls[key] = self._loop.create_task(self._exchange(line, header, body))
                case Sent():
                    self._sent(line, header, body)
                case Gone() if (line, header.n) in self._calls:
                    self._calls[line, header.n].cancel()
                case SystemAnswered():
                    try:
                        self._end(None, answer_of(SystemAnswer(header.text, header.choice, header.passages)))
                    except ValueError as error:
                        line.host.offend(str(error))
                case SystemOpened():
                    self._end(None, header)
                case PersonAsked() | SystemRaised():
                    self._end(header.error)

    def _restore_context(self, header: Tell | Exchange) -> None:
        """Restore the step and model call in which the system sent this frame."""
        STEP.set(header.step)
        ReportedCall(header.model_call)

    def _tell(self, line: Line, header: Tell) -> None:
        receivers = {"unseen": self._watcher, "value": self._values, "read": line.host.heard}
        receiver = receivers.get(header.what, self._seen)
        self._restore_context(header)
        TOLD_AT.set(min(header.at, time.perf_counter()))
        try:
            values = event(header)
            if receiver is not None:
                getattr(receiver, header.what)(**values)
        except BadFrame as bad:
            line.host.offend(str(bad))
        except Unsent:  # the recorder of the attempt ends it
            line.post("cancel", attempt=header.attempt)
        except Exception as error:  # in ragrounds' process, the system would have raised it
            self._end(error)
            line.post("cancel", attempt=header.attempt)
        finally:
            TOLD_AT.set(None)

    async def _exchange(self, line: Line, header: Exchange, body: bytes) -> None:
        """Get the verdict on a request, and send it to the host."""
        sent: WireResponse | None = None

        async def send(grown: SizeCheck) -> WireResponse:
            """Let the host send the request."""
            nonlocal sent
            self._sending[line, header.n] = response = self._loop.create_future()
            line.post("send", n=header.n, longest=grown.longest)
            sent = await response
            grown(len(sent.body))
            return sent

        request, watcher = WireRequest(header.method, header.url, header.headers, body), self._watcher
        try:
            answer = None if watcher is None else await watcher.exchange(request, send, waits=header.waits)
        except BaseException as error:
            # Any Exception makes the client in the host fail; a refusal is a BaseException, as it is there.
            verdict = "fail" if isinstance(error, Exception) else "refuse"
            line.settle(header.n, verdict, why=str(error) or type(error).__name__)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            line.give(header.n, answer, sent)
        finally:
            self._calls.pop((line, header.n), None)
            self._sending.pop((line, header.n), None)

    def _sent(self, line: Line, header: Sent, body: bytes) -> None:
        response = self._sending.get((line, header.n))
        if response is None or response.done():
            return
        if header.error:
            error = BadReply(header.fault, header.error) if header.fault else ClientFailed(header.error)
            response.set_exception(error)
        else:
            response.set_result(WireResponse(header.status, header.content_type, body, header.headers))


class Working(Protocol):
    """Interface of a host for its connection."""

    def work(self, number: int) -> Work | None:
        """Return the work of a number, or ``None`` if it ended long ago.

        Raises:
            BadFrame: no work has this number.
        """

    def offend(self, how: str) -> None:
        """End the host, because it sent an invalid message."""

    def refuse(self, reason: str) -> None:
        """Record the host's report that it cannot start."""

    @property
    def closed(self) -> bool:
        """Return True if nothing may leave the host."""

    @property
    def heard(self) -> RecordedDependencies:
        """Return the recorded dependencies of its systems."""


class Line:
    """A connection with a host. Requests are answered on the connection on which they arrive."""

    def __init__(self, host: Working, line: socket.socket) -> None:
        self.host = host
        self._socket = line
        self._lock = threading.Lock()
        self._unsent: list[bytes] = []
        """Frames that are not sent yet."""
        self._waits = False
        """True while a thread waits until the socket has room."""
        self._requests: dict[int, Work] = {}

    def read(self) -> None:
        """Pass received frames to the work that they concern, until the host is gone.

        Raises:
            BadFrame: the host sent an invalid frame.
        """
        reader = Reader(self._socket)
        while frames := reader.next():
            received: dict[Work, list[tuple[AnySaid, bytes]]] = {}
            for frame in frames:
                header = read_frame(frame)
                work = self._work_for(header, frame.size)
                if work is not None:
                    received.setdefault(work, []).append((header, frame.body))
            for work, headers_and_bodies in received.items():
                work.take(self, headers_and_bodies)

    def _work_for(self, header: AnySaid, size: int) -> Work | None:
        """Return the work that a frame concerns, or ``None`` if it has ended."""
        if isinstance(header, Sent | Gone):
            return self._requests.get(header.n)
        if isinstance(header, SystemRaised) and not header.attempt:
            self.host.refuse(header.text)
            return None
        work = self.host.work(header.attempt)
        if isinstance(header, Tell) and work is not None:
            work.events, work.bytes = work.events + 1, work.bytes + size
            if work.events > _MOST_TOLD or work.bytes > _MAX_EVENT_BYTES:
                raise BadFrame(f"{work.events:,} events of one attempt, {work.bytes:,} bytes")
        if isinstance(header, Exchange):
            if header.n in self._requests or len(self._requests) >= _MAX_REQUESTS:
                raise BadFrame(f"request {header.n} comes twice, or too many wait at the same time")
            if work is not None:
                self._requests[header.n] = work
            elif self.host.closed:  # from a thread that an attempt has left behind
                self.post("fail", n=header.n, why="A replay sends nothing.")
            else:
                self.post("pass", n=header.n)
        return work

    def give(self, n: int, answer: WireResponse | None, sent: WireResponse | None) -> None:
        """Send a response, without its body if the host has read the same body. ``None`` lets the request pass."""
        if answer is None:
            self.settle(n, "pass")
            return
        same = sent is not None and sent.body == answer.body
        self.settle(
            n, "give", b"" if same else answer.body, own=same, status=answer.status, content_type=answer.content_type,
            headers=dict(answer.headers),
        )  # fmt: skip

    def settle(self, n: int, frame: str, body: bytes = b"", **fields: Any) -> None:
        """Send the verdict on a request to the host."""
        self._requests.pop(n, None)
        self.post(frame, body, n=n, **fields)

    def post(self, frame: str, body: bytes = b"", **fields: Any) -> None:
        """Send a frame. On an event loop, it is sent together with those of other tasks. A host that does not read
        blocks no one.
        """
        data = framed(msgspec.json.encode({"frame": frame, **fields}), body)
        with self._lock:
            self._unsent.append(data)
        try:
            asyncio.get_running_loop().call_soon(self.flush)
        except RuntimeError:
            self.flush()

    def flush(self) -> None:
        """Send the pending frames."""
        with self._lock:
            if self._waits or not self._unsent:
                return
            pending, self._unsent = b"".join(self._unsent), []
            try:
                pending = pending[self._socket.send(pending, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError:  # the host is gone; the reading thread reports that
                return
            if pending:
                self._waits = True
                threading.Thread(target=self._wait, args=(pending,), name="ragrounds-host-send", daemon=True).start()

    def _wait(self, pending: bytes) -> None:
        """Send the rest for which the socket had no room."""
        with contextlib.suppress(OSError):
            self._socket.sendall(pending)
        self._waits = False
        self.flush()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
