"""The recorder in a user's system's own process. Calls and events go over a socket to the process that started it.

The header of every frame has its type in `frame`. The host sends: ``opened`` (a system was loaded), ``exchange`` (a
request that needs a verdict), ``sent`` (the server's response, or the client's failure), ``gone`` (the caller was
cancelled), ``tell`` (an event, held until the next frame), ``answered`` and ``asked`` (of an attempt), and ``failed``
(of loading or of an attempt). The host receives: ``open``, ``answer``, ``cancel``, ``end``, and verdicts on requests:
``send`` it, ``give`` this answer, let it ``pass`` without a record, ``fail`` as its client did, or ``refuse`` it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

from . import clock
from .answers import Wiring
from .children import FORKS
from .closed import close, report_native_connections
from .errors import AskedPerson, Refused, failure
from .forms import adapted, observe_libraries
from .frames import LONGEST_BODY, BadFrame, RawFrame, Reader, Sender, packed
from .function import MOST_THREADS
from .observer import Form, Observer, step_here
from .prints import Prints, keep_prints
from .reads import NAMED, Reads
from .redaction import redact_output, redacted
from .targets import loaded
from .unpacking import BadReply
from .watch import installed
from .wire import (
    WATCHER,
    BlockingSend,
    NotSent,
    Send,
    SizeCheck,
    Unsent,
    WireRequest,
    WireResponse,
    model_call,
    running_loop,
    setting,
)

_FLUSH = 0.25
"""Seconds after which held events are sent if no other frame has followed."""
_MAX_TRACE = 50_000
_MAX_FRAMES = 200
"""Maximum number of frames of a traceback, the last ones. Millions, after an endless recursion, take minutes."""


class WireVerdict(NamedTuple):
    """Verdict on a request: header and body of the frame."""

    header: Mapping[str, Any]
    body: bytes


class Link:
    """Connection to the process that started this one."""

    def __init__(self, line: socket.socket, *, closed: bool = False, sealed: bool = False) -> None:
        self.closed = closed
        """True if this is a replay, in which nothing may leave the process."""
        self.sealed = sealed
        """True if the kernel enforces this for all code of the process."""
        self.left = False
        """True if this is a copy in a forked child, which drops all events."""
        line.set_inheritable(False)
        self._line = line
        self.reader = Reader(line)
        self._sender = Sender(line)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[WireVerdict], None]] = {}

    def forked(self) -> None:
        """Close the connection in a forked child, which has its own. The copy would keep this connection open."""
        self.left = True
        self._line.close()
        self._sender = Sender(self._line)  # another thread may have held its lock

    def post(self, frame: str, body: bytes = b"", **fields: Any) -> None:
        """Send a frame after the held events. On an event loop, other tasks get a turn first."""
        self._sender.hold(packed({"frame": frame, **fields}, body, redact=frame != "exchange"))  # it is to be sent
        if (loop := running_loop()) is not None:
            loop.call_soon(self.flush)
        else:
            self.flush()

    def tell(self, attempt: int, event: str, *args: object, **keywords: object) -> None:
        """Hold an event, to be sent with the next frame."""
        if self.left:
            return
        header = {
            "frame": "tell", "attempt": attempt, "what": event, "args": args, "named": keywords, "step": step_here(),
            "model_call": model_call(), "at": time.perf_counter(),
        }  # fmt: skip
        try:
            frame = packed(header)
        except BadFrame as large:
            frame = packed({**header, "what": "note", "args": ("too_large", f"{event}: {large}"), "named": {}})
        self._sender.hold(frame)

    def flush(self) -> None:
        """Send the held frames."""
        with contextlib.suppress(OSError):  # the other side is gone: then this process ends
            self._sender.send()

    def ask(self, attempt: int, request: WireRequest, waits: bool, wake: Callable[[WireVerdict], None]) -> int:
        """Request a verdict on a request, and return its number. `wake` is called with every verdict."""
        number = next(self._numbers)
        self._waiting[number] = wake
        self.post(
            "exchange", request.body, n=number, attempt=attempt, method=request.method, url=request.url,
            headers=dict(request.headers), step=step_here(), model_call=model_call(), waits=waits,
        )  # fmt: skip
        return number

    def forget(self, number: int) -> None:
        """Stop waiting for verdicts of this number."""
        self._waiting.pop(number, None)

    def settle(self, verdict: Mapping[str, Any], body: bytes) -> None:
        """Pass a verdict to the function that waits for it."""
        wake = self._waiting.get(verdict["n"])
        if wake is not None:
            with contextlib.suppress(RuntimeError):  # the event loop of the caller is closed
                wake(WireVerdict(verdict, body))


class HostWatcher:
    """Watcher of the calls of one attempt, or of the loading of a system (contract: Watcher)."""

    def __init__(self, link: Link, attempt: int) -> None:
        self.link = link
        self.attempt = attempt
        self.over = False
        """True if the attempt was cancelled. Nothing of it is sent any more."""
        self.closed = link.closed
        self.prints = Prints()

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """Return the response to a call, after its verdict (contract: Watcher).

        Raises:
            Unsent: the call is not allowed.
        """
        if self._is_long(request):
            return None
        loop = asyncio.get_running_loop()
        verdicts: asyncio.Queue[WireVerdict] = asyncio.Queue()

        def wake(verdict: WireVerdict) -> None:
            """Pass a verdict to the caller's event loop."""
            loop.call_soon_threadsafe(verdicts.put_nowait, verdict)

        with FORKS.add(self, -1), _VerdictRequest(self, request, waits, wake) as question:
            verdict = await verdicts.get()
            if verdict.header["frame"] == "send":
                with question.answered():
                    question.sent = await send(SizeCheck(verdict.header["longest"], lambda: self.over))
                verdict = await verdicts.get()
            return question.settled(verdict)

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """Do the same for a synchronous client.

        On an event loop, this blocks the loop. It then does not wait for an equal call that must finish on the same
        loop.
        """
        if self._is_long(request):
            return None
        verdicts: queue.SimpleQueue[WireVerdict] = queue.SimpleQueue()
        with FORKS.add(self, -1), _VerdictRequest(self, request, running_loop() is None, verdicts.put) as question:
            self.link.flush()
            verdict = verdicts.get()
            if verdict.header["frame"] == "send":
                with question.answered():
                    question.sent = send(SizeCheck(verdict.header["longest"], lambda: self.over))
                self.link.flush()
                verdict = verdicts.get()
            return question.settled(verdict)

    def unseen(self, label: str, *, counted: bool = False) -> None:
        """Report traffic that left the process through no known client (contract: Watcher).

        Raises:
            Unsent: nothing may leave the process.
        """
        self.link.tell(self.attempt, "unseen", label, counted=counted)
        if self.link.closed and not self.link.left:
            self.link.flush()
            raise Unsent(f"{label} was asked for, and a replay sends nothing")

    def forked(self) -> None:
        """Stop reporting, in a forked child (contract: Watcher)."""
        self.link.forked()

    def _is_long(self, request: WireRequest) -> bool:
        """Return True if a request is too long to be inspected. It then passes and is reported as not recorded."""
        if len(request.body) <= LONGEST_BODY:
            return False
        self.unseen(f"a request of {len(request.body):,} bytes to {request.url.partition('?')[0][:200]}")
        return True


class _VerdictRequest:
    """Context of one request that needs a verdict: it asks at the start of the block, and stops waiting at its end."""

    def __init__(
        self, watcher: HostWatcher, request: WireRequest, waits: bool, wake: Callable[[WireVerdict], None]
    ) -> None:
        if watcher.over:
            raise Unsent("the attempt of this call has ended")
        self._link = watcher.link
        self.sent: WireResponse | None = None
        self._failed: Exception | None = None
        self._number = self._link.ask(watcher.attempt, request, waits, wake)

    def __enter__(self) -> _VerdictRequest:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._link.forget(self._number)
        if error is not None and error is not self._failed:
            self._link.post("gone", n=self._number)

    @contextlib.contextmanager
    def answered(self) -> Iterator[None]:
        """Report the outcome of the sending in the block."""
        try:
            yield
        except Exception as error:
            self._failed = error
        sent, failed = self.sent, self._failed
        if sent is not None:
            headers = dict(sent.headers)
            self._link.post(
                "sent", sent.body, n=self._number, status=sent.status, content_type=sent.content_type, headers=headers
            )
        else:
            kind = failed.kind if isinstance(failed, BadReply) else ""
            self._link.post("sent", n=self._number, error=_message(failed) or type(failed).__name__, fault=kind)

    def settled(self, verdict: WireVerdict) -> WireResponse | None:
        """Return the response according to the verdict.

        Raises:
            Unsent: the request must not be sent.
            Exception: the error that its client raised.
        """
        header, frame_type = verdict.header, verdict.header["frame"]
        if frame_type == "give":
            body = self.sent.body if header["own"] and self.sent is not None else verdict.body
            return WireResponse(header["status"], header["content_type"], body, header["headers"])
        if frame_type == "pass":
            return None
        if frame_type == "fail":
            raise self._failed or NotSent(header["why"])
        raise Unsent(header["why"])


class HostObserver:
    """Observer of one attempt (contract: Observer). Every event is sent over the connection by name, with its
    arguments.
    """

    context = None

    def __init__(self, watcher: HostWatcher, thread: str, max_steps: int, changes: bool) -> None:
        self.thread = thread
        self.changes = changes
        self.max_steps = max_steps
        self.unseen = watcher.unseen
        self._watcher = watcher

    def __getattr__(self, event: str) -> Callable[..., None]:
        if event.startswith("_"):
            raise AttributeError(event)

        def tell(*args: object, **keywords: object) -> None:
            """Send the event."""
            if self._watcher.over:
                raise Unsent("the attempt has ended")
            self._watcher.link.tell(self._watcher.attempt, event, *args, **keywords)

        return tell


class HostLoop:
    """The systems of this process, on one event loop that lives as long as the process."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.new_event_loop()
        self._opens: deque[dict[str, Any]] = deque()
        self._forms: dict[int, Form] = {}
        self._attempts: dict[int, HostWatcher] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending = False
        self._reads = Reads(alone=True)

    def run(self) -> None:
        """Answer questions until the end is requested."""
        asyncio.set_event_loop(self._loop)
        # In a closed process, attempts run one after another, so that traffic of native code belongs to one attempt.
        self._turn = asyncio.Lock()
        self._loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))
        threading.Thread(target=self._read, name="ragrounds-host", daemon=True).start()
        flushing = self._loop.create_task(self._flush())
        while not self._ending:
            self._loop.run_forever()
            while self._opens:  # outside of the event loop: an imported module may run its own
                self._open(self._opens.popleft())
                asyncio.set_event_loop(self._loop)
        unfinished = [*self._tasks.values(), flushing]
        for task in unfinished:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*unfinished, return_exceptions=True))
        self._link.flush()

    def _read(self) -> None:
        """Read frames in a thread. When the other side is gone, end this process with all its children."""
        try:
            while frames := self._link.reader.next():
                for frame in frames:
                    self._handle(frame)
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpgrp(), signal.SIGKILL)
            os._exit(1)

    def _handle(self, frame: RawFrame) -> None:
        header = json.loads(frame.header)
        frame_type = header["frame"]
        if frame_type == "answer":
            watcher = self._attempts[header["attempt"]] = HostWatcher(self._link, header["attempt"])
            self._loop.call_soon_threadsafe(self._begin, watcher, header)
        elif frame_type == "cancel":
            cancelled = self._attempts.get(header["attempt"])
            if cancelled is not None:
                cancelled.over = True
                self._loop.call_soon_threadsafe(self._cancel, header["attempt"])
        elif frame_type == "open":
            self._opens.append(header)
            self._loop.call_soon_threadsafe(self._loop.stop)
        elif frame_type == "end":
            self._loop.call_soon_threadsafe(self._end)
        else:
            self._link.settle(header, frame.body)

    def _end(self) -> None:
        self._ending = True
        self._loop.stop()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH)
            self._link.flush()

    # Loading of systems

    def _open(self, header: Mapping[str, Any]) -> None:
        """Load a system, and report its form."""
        id = header["id"]
        try:
            watcher = HostWatcher(self._link, id)
            with setting(WATCHER, watcher), setting(clock.VALUES, _values(watcher, header)):
                form = _load_form(header)
        except BaseException as error:
            message = str(error) if isinstance(error, Refused) else f"{header['target']}: {failure(error)}"
            self._failed(watcher, error, message)
            return
        if form is not None:
            self._forms[id] = form
            self._report_reads(id)
        kind = "" if form is None else form.kind
        python = "{}.{}".format(*sys.version_info)
        self._link.post("opened", attempt=id, kind=kind, sealed=self._link.sealed, python=python)

    # Attempts

    def _begin(self, watcher: HostWatcher, header: Mapping[str, Any]) -> None:
        self._tasks[watcher.attempt] = self._loop.create_task(self._attempt(watcher, header))

    def _cancel(self, attempt: int) -> None:
        if attempt in self._tasks:
            self._tasks[attempt].cancel()

    async def _attempt(self, watcher: HostWatcher, header: Mapping[str, Any]) -> None:
        WATCHER.set(watcher)
        clock.VALUES.set(_values(watcher, header))
        seen = cast("Observer", HostObserver(watcher, header["thread"], header["max_steps"], header["changes"]))
        try:
            async with contextlib.AsyncExitStack() as stack:
                if self._link.closed:
                    await stack.enter_async_context(self._turn)
                    stack.enter_context(report_native_connections(watcher))
                stack.enter_context(FORKS.add(watcher, 1))
                stack.enter_context(observe_libraries(seen))
                answer = await self._forms[header["id"]].answer(header["question"], seen)
            passages = [dict(passage) for passage in answer.passages]
            self._report(watcher)
            self._link.post(
                "answered", attempt=watcher.attempt, text=answer.text, choice=answer.choice, passages=passages
            )
        except AskedPerson as question:
            self._report(watcher)
            self._link.post("asked", attempt=watcher.attempt, value=str(question))
        except BaseException as error:
            if not watcher.over:
                self._report(watcher)
                self._failed(watcher, error)
        finally:
            self._attempts.pop(watcher.attempt, None)
            self._tasks.pop(watcher.attempt, None)

    def _report(self, watcher: HostWatcher) -> None:
        """Report what an attempt has printed, and the new dependencies."""
        if words := watcher.prints.words():
            self._link.tell(watcher.attempt, "note", "printed", words)
        self._report_reads(watcher.attempt)

    def _report_reads(self, attempt: int) -> None:
        """Report the dependencies that the systems of this process have read since the last report."""
        if reads := self._reads.take():
            self._link.tell(attempt, "read", reads)

    def _failed(self, watcher: HostWatcher, error: BaseException, refused: str = "") -> None:
        kind = type(error)
        lines = traceback.format_exception(kind, error, error.__traceback__, limit=-_MAX_FRAMES)
        trace = redacted("".join(lines))  # before it is cut
        if len(trace) > _MAX_TRACE:
            trace = f"{trace[:1000]} … {trace[-_MAX_TRACE:]}"
        self._link.post(
            "failed", attempt=watcher.attempt, type=kind.__name__, module=kind.__module__, trace=trace,
            text=refused or _message(error), refused=bool(refused) or isinstance(error, Refused),
            unsent=isinstance(error, Unsent),
        )  # fmt: skip


def _values(watcher: HostWatcher, header: Mapping[str, Any]) -> clock.Values | None:
    """Return the recorded clock and random values of a frame, with a reporter of new ones. ``None`` if the real ones
    are used.
    """
    if header["values"] is None:
        return None
    return clock.Values(header["values"], lambda *draw: watcher.link.tell(watcher.attempt, "value", *draw))


def _load_form(header: Mapping[str, Any]) -> Form | None:
    """Load the requested system and return its form. ``None`` if it imports ragrounds itself, and so does not belong in
    a host.
    """
    sys.path += [folder for folder in header["folders"] if folder not in sys.path]
    module = header["target"].partition(":")[0]
    if os.sep not in module:  # a package that the user names is the system's own code, wherever it is installed
        NAMED.add(module.partition(".")[0])
    target = loaded(header["target"], header["wiring"]["name"])
    person: Any = loaded(header["person"]) if header["person"] else None
    return None if "ragrounds" in sys.modules else adapted(target, Wiring(**header["wiring"], person=person))


def _message(error: BaseException | None) -> str:
    try:
        return str(error)
    except Exception:  # a faulty exception class
        return ""


def serve(line: int, lifeline: int, *, closed: bool) -> None:
    """Run a host. `line` and `lifeline` are inherited: a socket and the reading end of a pipe.

    If `closed`, nothing may leave the process.
    """
    _end_with(lifeline)
    sys.argv[:] = [""]
    keep_prints(lambda: getattr(WATCHER.get(), "prints", None))
    redact_output()  # before it is kept
    link = Link(socket.socket(fileno=line), closed=closed, sealed=closed and close())
    os.register_at_fork(after_in_child=link.forked)
    clock.install(always=True)
    with installed(closed=closed):
        HostLoop(link).run()
    # Late requests of the system's threads, such as reports of its libraries, are refused. This needs no message.
    threading.excepthook = lambda thread: None if thread.exc_type is Unsent else threading.__excepthook__(thread)


def _end_with(lifeline: int) -> None:
    """Let the kernel end this process and its children when the other end of the pipe is closed, for whatever reason.

    A thread that reads the pipe would not suffice: code in C can block Python.
    """
    os.set_inheritable(lifeline, False)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
