"""The recorder in a process of the system's own: calls and events go over a socket to whoever started it.

Every frame has a header with the name of what it is, in `frame`. From here go: ``opened`` (of a system),
``exchange`` (a request: may it be sent?), ``sent`` (what its server answered, or how the client failed), ``gone`` (the
caller has gone away), ``tell`` (an event, held until the next frame), ``answered`` and ``asked`` (of an attempt), and
``failed`` (of either). From there come: ``open``, ``answer``, ``cancel``, ``end``, and what becomes of a request:
``send`` it, ``give`` this answer, let it ``pass`` unread, ``fail`` as its client did, or ``refuse`` it.
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
from .closed import close, natively_told
from .errors import AskedPerson, Refused, failure
from .forms import adapted, heard
from .frames import LONGEST_BODY, BadFrame, RawFrame, Reader, Sender, packed
from .function import MOST_THREADS
from .observer import Form, Observer, step_here
from .reads import NAMED, Reads
from .targets import loaded
from .unpacking import BadReply
from .watch import installed
from .wire import (
    WATCHER,
    BlockingSend,
    Grown,
    NotThere,
    Send,
    Unsent,
    WireRequest,
    WireResponse,
    model_call,
    running_loop,
)

_FLUSH = 0.25
"""Seconds after which events are sent that no other frame has followed."""
_LONGEST_TRACE = 50_000


class WireVerdict(NamedTuple):
    """What becomes of a request."""

    said: Mapping[str, Any]
    body: bytes


class Link:
    """The line to whoever started this process."""

    def __init__(self, line: socket.socket, *, closed: bool = False, sealed: bool = False) -> None:
        self.closed = closed
        """Nothing may leave this process: a replay."""
        self.sealed = sealed
        """The kernel holds everybody in it to that."""
        self.left = False
        """This is a copy in a forked child: nothing that it is told goes anywhere."""
        line.set_inheritable(False)
        self._line = line
        self.reader = Reader(line)
        self._sender = Sender(line)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[WireVerdict], None]] = {}

    def forked(self) -> None:
        """Let go of the line, in a forked child, which has its own: it would hold this one open."""
        self.left = True
        self._line.close()
        self._sender = Sender(self._line)  # another thread may have held its lock

    def post(self, frame: str, body: bytes = b"", **said: Any) -> None:
        """Send a frame, behind the events before it: on a loop, once its other tasks have had their turn."""
        self._sender.hold(packed({"frame": frame, **said}, body))
        if (loop := running_loop()) is not None:
            loop.call_soon(self.flush)
        else:
            self.flush()

    def tell(self, attempt: int, what: str, *args: object, **named: object) -> None:
        """Tell of an event, with the next frame."""
        if self.left:
            return
        said = {
            "frame": "tell", "attempt": attempt, "what": what, "args": args, "named": named, "step": step_here(),
            "model_call": model_call(), "at": time.perf_counter(),
        }  # fmt: skip
        try:
            frame = packed(said)
        except BadFrame as large:
            frame = packed({**said, "what": "note", "args": ("too_large", f"{what}: {large}"), "named": {}})
        self._sender.hold(frame)

    def flush(self) -> None:
        """Send what is held."""
        with contextlib.suppress(OSError):  # nobody is there any more: then this process ends
            self._sender.send()

    def ask(self, attempt: int, request: WireRequest, waits: bool, wake: Callable[[WireVerdict], None]) -> int:
        """Ask what becomes of a request; `wake` is called with every verdict. Gives the number of the question."""
        number = next(self._numbers)
        self._waiting[number] = wake
        self.post(
            "exchange", request.body, n=number, attempt=attempt, method=request.method, url=request.url,
            headers=dict(request.headers), step=step_here(), model_call=model_call(), waits=waits,
        )  # fmt: skip
        return number

    def forget(self, number: int) -> None:
        """No verdict of this number is waited for any more."""
        self._waiting.pop(number, None)

    def settle(self, said: Mapping[str, Any], body: bytes) -> None:
        """Hand a verdict to who waits for it."""
        wake = self._waiting.get(said["n"])
        if wake is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                wake(WireVerdict(said, body))


class HostWatcher:
    """The calls of one attempt, or of what is opened (contract: Watcher)."""

    def __init__(self, link: Link, attempt: int) -> None:
        self.link = link
        self.attempt = attempt
        self.over = False
        """It was cut off: nothing of it is sent any more."""
        self.closed = link.closed

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """The answer to a call, once it is known what becomes of it (contract: Watcher).

        Raises:
            Unsent: it may not be made.
        """
        if self._is_long(request):
            return None
        loop = asyncio.get_running_loop()
        verdicts: asyncio.Queue[WireVerdict] = asyncio.Queue()

        def wake(verdict: WireVerdict) -> None:
            """Hand a verdict over to the loop of the caller."""
            loop.call_soon_threadsafe(verdicts.put_nowait, verdict)

        with FORKS.add(self, -1), _Question(self, request, waits, wake) as question:
            verdict = await verdicts.get()
            if verdict.said["frame"] == "send":
                with question.answered():
                    question.sent = await send(Grown(verdict.said["longest"], lambda: self.over))
                verdict = await verdicts.get()
            return question.settled(verdict)

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """The same for a client without async. On an event loop it holds that up, and so waits for no call that has to
        end there."""
        if self._is_long(request):
            return None
        verdicts: queue.SimpleQueue[WireVerdict] = queue.SimpleQueue()
        with FORKS.add(self, -1), _Question(self, request, running_loop() is None, verdicts.put) as question:
            self.link.flush()
            verdict = verdicts.get()
            if verdict.said["frame"] == "send":
                with question.answered():
                    question.sent = send(Grown(verdict.said["longest"], lambda: self.over))
                self.link.flush()
                verdict = verdicts.get()
            return question.settled(verdict)

    def unseen(self, what: str, *, counted: bool = False) -> None:
        """Something left the process by no client that is known (contract: Watcher).

        Raises:
            Unsent: nothing may leave it.
        """
        self.link.tell(self.attempt, "unseen", what, counted=counted)
        if self.link.closed and not self.link.left:
            self.link.flush()
            raise Unsent(f"{what} was asked for, and a replay sends nothing")

    def forked(self) -> None:
        """Say nothing from now on (contract: Watcher)."""
        self.link.forked()

    def _is_long(self, request: WireRequest) -> bool:
        """Whether a request is longer than can be looked at: it passes, and is said not to be recorded."""
        if len(request.body) <= LONGEST_BODY:
            return False
        self.unseen(f"a request of {len(request.body):,} bytes to {request.url.partition('?')[0][:200]}")
        return True


class _Question:
    """What becomes of a request: asked when the block begins, and not waited for any more when it ends."""

    def __init__(
        self, watcher: HostWatcher, request: WireRequest, waits: bool, wake: Callable[[WireVerdict], None]
    ) -> None:
        if watcher.over:
            raise Unsent("the attempt of this call has ended")
        self._link = watcher.link
        self.sent: WireResponse | None = None
        self._failed: Exception | None = None
        self._number = self._link.ask(watcher.attempt, request, waits, wake)

    def __enter__(self) -> _Question:
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        self._link.forget(self._number)
        if error is not None and error is not self._failed:
            self._link.post("gone", n=self._number)

    @contextlib.contextmanager
    def answered(self) -> Iterator[None]:
        """While it is sent: say what came of it."""
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
            self._link.post("sent", n=self._number, error=_said(failed) or type(failed).__name__, fault=kind)

    def settled(self, verdict: WireVerdict) -> WireResponse | None:
        """The answer, as it was decided.

        Raises:
            Unsent: it may not be sent.
            Exception: what its client raised.
        """
        said, what = verdict.said, verdict.said["frame"]
        if what == "give":
            body = self.sent.body if said["own"] and self.sent is not None else verdict.body
            return WireResponse(said["status"], said["content_type"], body, said["headers"])
        if what == "pass":
            return None
        if what == "fail":
            raise self._failed or NotThere(said["why"])
        raise Unsent(said["why"])


class HostObserver:
    """Whoever is told what a system does in one attempt (contract: Observer): every event goes over the line, with its
    name and what it is told with."""

    context = None

    def __init__(self, watcher: HostWatcher, thread: str, max_steps: int, changes: bool) -> None:
        self.thread = thread
        self.changes = changes
        self.max_steps = max_steps
        self.unseen = watcher.unseen
        self._watcher = watcher

    def __getattr__(self, what: str) -> Callable[..., None]:
        if what.startswith("_"):
            raise AttributeError(what)

        def tell(*args: object, **named: object) -> None:
            """Tell of it."""
            if self._watcher.over:
                raise Unsent("the attempt has ended")
            self._watcher.link.tell(self._watcher.attempt, what, *args, **named)

        return tell


class HostLoop:
    """The systems of this process, on one event loop that lives as long as it does."""

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
        """Answer until it is enough."""
        asyncio.set_event_loop(self._loop)
        # Where this process is closed: one attempt after the other, so that what native code tries is one's.
        self._turn = asyncio.Lock()
        self._loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS))
        threading.Thread(target=self._read, name="ragrounds-host", daemon=True).start()
        flushing = self._loop.create_task(self._flush())
        while not self._ending:
            self._loop.run_forever()
            while self._opens:  # outside of the loop: what is imported may run one itself
                self._open(self._opens.popleft())
                asyncio.set_event_loop(self._loop)
        left = [*self._tasks.values(), flushing]
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._link.flush()

    def _read(self) -> None:
        """Read what comes, in a thread; once nobody is there any more, end this process with all its children."""
        try:
            while frames := self._link.reader.next():
                for frame in frames:
                    self._heed(frame)
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpgrp(), signal.SIGKILL)
            os._exit(1)

    def _heed(self, frame: RawFrame) -> None:
        said = json.loads(frame.header)
        what = said["frame"]
        if what == "answer":
            watcher = self._attempts[said["attempt"]] = HostWatcher(self._link, said["attempt"])
            self._loop.call_soon_threadsafe(self._begin, watcher, said)
        elif what == "cancel":
            watcher_of = self._attempts.get(said["attempt"])
            if watcher_of is not None:
                watcher_of.over = True
                self._loop.call_soon_threadsafe(self._cancel, said["attempt"])
        elif what == "open":
            self._opens.append(said)
            self._loop.call_soon_threadsafe(self._loop.stop)
        elif what == "end":
            self._loop.call_soon_threadsafe(self._end)
        else:
            self._link.settle(said, frame.body)

    def _end(self) -> None:
        self._ending = True
        self._loop.stop()

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH)
            self._link.flush()

    # Opening

    def _open(self, said: Mapping[str, Any]) -> None:
        """Load a system, and say of what form it is."""
        id = said["id"]
        try:
            watcher = HostWatcher(self._link, id)
            with _belonging(watcher), clock.drawing(_values(watcher, said)):
                form = _formed(said)
        except BaseException as error:
            self._failed(
                watcher, error, str(error) if isinstance(error, Refused) else f"{said['target']}: {failure(error)}"
            )
            return
        if form is not None:
            self._forms[id] = form
            self._tell_reads(id)
        kind = "" if form is None else form.kind
        self._link.post("opened", attempt=id, kind=kind, sealed=self._link.sealed)

    # Attempts

    def _begin(self, watcher: HostWatcher, said: Mapping[str, Any]) -> None:
        self._tasks[watcher.attempt] = self._loop.create_task(self._attempt(watcher, said))

    def _cancel(self, attempt: int) -> None:
        if attempt in self._tasks:
            self._tasks[attempt].cancel()

    async def _attempt(self, watcher: HostWatcher, said: Mapping[str, Any]) -> None:
        WATCHER.set(watcher)
        clock.VALUES.set(_values(watcher, said))
        seen = cast("Observer", HostObserver(watcher, said["thread"], said["max_steps"], said["changes"]))
        try:
            async with contextlib.AsyncExitStack() as held:
                if self._link.closed:
                    await held.enter_async_context(self._turn)
                    held.enter_context(natively_told(watcher))
                held.enter_context(FORKS.add(watcher, 1))
                held.enter_context(heard(seen))
                given = await self._forms[said["id"]].answer(said["question"], seen)
            passages = [dict(one) for one in given.passages]
            self._tell_reads(watcher.attempt)
            self._link.post(
                "answered", attempt=watcher.attempt, text=given.text, choice=given.choice, passages=passages
            )
        except AskedPerson as asked:
            self._tell_reads(watcher.attempt)
            self._link.post("asked", attempt=watcher.attempt, value=str(asked))
        except BaseException as error:
            if not watcher.over:
                self._tell_reads(watcher.attempt)
                self._failed(watcher, error)
        finally:
            self._attempts.pop(watcher.attempt, None)
            self._tasks.pop(watcher.attempt, None)

    def _tell_reads(self, attempt: int) -> None:
        """Tell what the systems of this process have read since it was told last."""
        if told := self._reads.take():
            self._link.tell(attempt, "read", told)

    def _failed(self, watcher: HostWatcher, error: BaseException, refused: str = "") -> None:
        kind = type(error)
        self._link.post(
            "failed", attempt=watcher.attempt, type=kind.__name__, module=kind.__module__, text=refused or _said(error),
            trace=_trace(error), refused=bool(refused) or isinstance(error, Refused), unsent=isinstance(error, Unsent),
        )  # fmt: skip


@contextlib.contextmanager
def _belonging(watcher: HostWatcher) -> Iterator[None]:
    before = WATCHER.set(watcher)
    try:
        yield
    finally:
        WATCHER.reset(before)


def _values(watcher: HostWatcher, said: Mapping[str, Any]) -> clock.Values | None:
    """What is drawn from clock and chance: given what was before, and told on; ``None``: it is the real one's."""
    if said["values"] is None:
        return None
    return clock.Values(said["values"], lambda *drawn: watcher.link.tell(watcher.attempt, "value", *drawn))


def _formed(said: Mapping[str, Any]) -> Form | None:
    """The form of what is to be opened; ``None``: it uses ragrounds itself, and does not belong here."""
    sys.path += [folder for folder in said["folders"] if folder not in sys.path]
    module = said["target"].partition(":")[0]
    if os.sep not in module:  # a package that is named is the system's own, wherever it is installed
        NAMED.add(module.partition(".")[0])
    found = loaded(said["target"], said["wiring"]["name"])
    person: Any = loaded(said["person"]) if said["person"] else None
    return None if "ragrounds" in sys.modules else adapted(found, Wiring(**said["wiring"], person=person))


def _said(error: BaseException | None) -> str:
    try:
        return str(error)
    except Exception:  # of a class that is not well made
        return ""


def _trace(error: BaseException) -> str:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text if len(text) <= _LONGEST_TRACE else f"{text[:1000]} … {text[-_LONGEST_TRACE:]}"


def serve(line: int, lifeline: int, *, closed: bool) -> None:
    """Be a host: `line` and `lifeline` are inherited, a socket and the reading end of a pipe; where this is `closed`,
    nothing may leave the process."""
    _end_with(lifeline)
    sys.argv[:] = [""]
    if sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    link = Link(socket.socket(fileno=line), closed=closed, sealed=closed and close())
    os.register_at_fork(after_in_child=link.forked)
    clock.install(always=True)
    with installed(closed=closed):
        HostLoop(link).run()
    # What threads of the system's still ask for, as reports of its libraries, is refused, and nobody need read of it.
    threading.excepthook = lambda thread: None if thread.exc_type is Unsent else threading.__excepthook__(thread)


def _end_with(lifeline: int) -> None:
    """Have the kernel end this process and its children once the other end of the pipe is closed, however that comes:
    a thread that reads would wait for code in C that holds Python up."""
    os.set_inheritable(lifeline, False)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
