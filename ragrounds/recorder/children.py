"""Child processes of a process in which a system answers: forked ones, workers of pools, Python programs that it
starts.

A child has neither the threads nor the connections of the process that it comes from. Therefore that process, the
parent, listens on a Unix socket, and each call of a child is a connection to it. The parent asks the watcher of the
attempt that the child belongs to. The child then sends the request, receives the answer, or is refused. A forked child
ends itself when its parent is gone.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import uuid
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from typing import Any

from .closed import count_of_python
from .frames import BadFrame, Reader, packed
from .observer import STEP
from .reads import Reads, current_reads
from .wire import (
    GATE,
    WATCHER,
    BlockingSend,
    NotSent,
    ReportedCall,
    Send,
    SizeCheck,
    Unsent,
    Watcher,
    WireRequest,
    WireResponse,
    model_call,
    passing,
    running_loop,
    traffic_watcher,
)

PLACE = "RAGROUNDS_PARENT"
"""Variable by which a program finds its parent. Its lines are: the recorder's package name there, the socket's path, a
token, a step, and ``closed`` if nothing may leave the program.
"""
_SITE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "started")  # noqa: PTH118, PTH120, PTH100
_PARENT_ENDED = "the process that this one belongs to has ended"
Header = Mapping[str, Any]


class _Connection:
    """A connection between a child and its parent, for one call."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._reader = end, Reader(end)

    def ask(self, header: Header, body: bytes = b"") -> tuple[Header, bytes]:
        """Send a frame, and read the next one."""
        self.send(header, body)
        return self.receive()

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send a frame."""
        self._end.sendall(packed(header, body, redact=False))  # to the host, which redacts

    def receive(self) -> tuple[Header, bytes]:
        """Read the next frame.

        Raises:
            OSError: the connection has ended.
        """
        for frame in self._reader.next():
            return json.loads(frame.header), frame.body
        raise ConnectionError(_PARENT_ENDED)


class ChildWatcher:
    """Watcher of an attempt in a child process (contract: :class:`~.wire.Watcher`). It asks the parent."""

    def __init__(self, path: str, token: str, closed: bool) -> None:
        self.path, self.token, self.closed = path, token, closed

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """Return the response to a call (contract: Watcher). A thread waits for the parent, and the client sends
        here.
        """
        loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(1)

        def sent(grown: SizeCheck) -> WireResponse:
            """Send the request with the client, on its event loop."""

            async def response() -> WireResponse:  # a client may return any awaitable, and the loop takes coroutines
                return await send(grown)

            return asyncio.run_coroutine_threadsafe(response(), loop).result()

        try:
            return await loop.run_in_executor(pool, self.exchange_blocking, request, sent)
        finally:
            pool.shutdown(wait=False)

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """Do the same for a synchronous client."""
        with self._line() as ask:
            fields = {"method": request.method, "url": request.url, "headers": dict(request.headers)}
            context = {"token": self.token, "step": STEP.get(), "model_call": model_call()}
            header, body = ask({**context, **fields}, request.body)
            if "send" in header:
                try:
                    answer = send(SizeCheck(int(header["send"]), lambda: False))
                except BaseException as error:
                    ask({"error": f"{type(error).__name__}: {error}"[:2000]}, b"")
                    raise
                header, body = ask(_response_header(answer), answer.body)
            return _response_or_error(header, body)

    def unseen(self, label: str, *, counted: bool = False) -> None:
        """Report traffic that left the process through no known client (contract: Watcher)."""
        with self._line() as ask:
            _response_or_error(*ask({"token": self.token, "unseen": label, "counted": counted}, b""))

    def count_socket(self) -> None:
        """Report a socket that Python requested in this process."""
        with self._line() as ask:
            ask({"token": self.token, "socket": True}, b"")

    def read(self, reported: dict[str, dict[str, Any]]) -> None:
        """Report files, variables and modules that this process has read."""
        with suppress(Unsent), self._line() as ask:  # the parent has ended, and so will this process
            ask({"token": self.token, "reads": reported}, b"")

    def forked(self) -> None:
        """Do nothing. A child of a child asks the same parent."""

    @contextmanager
    def _line(self) -> Iterator[Callable[[Header, bytes], tuple[Header, bytes]]]:
        def ask(header: Header, body: bytes) -> tuple[Header, bytes]:
            """Send a frame, and read the next one."""
            try:
                return line.ask(header, body)
            except OSError:
                raise Unsent(_PARENT_ENDED) from None

        with socket.socket(socket.AF_UNIX) as end:
            try:
                with passing():
                    end.connect(self.path)
            except OSError:
                raise Unsent(_PARENT_ENDED) from None
            line = _Connection(end)
            yield ask


def _response_header(answer: WireResponse) -> Header:
    return {"status": answer.status, "content_type": answer.content_type, "headers": dict(answer.headers)}


def _response_or_error(header: Header, body: bytes) -> WireResponse | None:
    if "refused" in header:
        raise Unsent(str(header["refused"]))
    if "error" in header:
        raise NotSent(str(header["error"]))
    return None if "pass" in header else _response(header, body)


def _response(header: Header, body: bytes) -> WireResponse:
    return WireResponse(
        int(header["status"]), str(header["content_type"]), body, {str(k): str(v) for k, v in header["headers"].items()}
    )


class _Listener:
    """Socket on which the children of this process ask."""

    def __init__(self) -> None:
        # Imported first: its exit handler waits for children, and handlers registered later run before it and end them.
        import multiprocessing.util  # noqa: F401

        self.process = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="ragrounds-")
        self.path = f"{self._folder}/s"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(128)
        self.ends_with, self._open = os.pipe()
        """End of a pipe that children read, to notice when this process ends."""
        # Its threads belong to no attempt.
        Context().run(threading.Thread(target=self._accept, name="ragrounds-children", daemon=True).start)
        atexit.register(self.close)

    def close(self) -> None:
        """Stop listening, which ends the children."""
        if os.getpid() == self.process:
            self.leave()
            shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """Close the inherited ends in a child. They must not stay open when the parent ends."""
        self._socket.close()
        os.close(self._open)

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(end,), name="ragrounds-child", daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        with end:
            line = _Connection(end)
            try:
                header, body = line.receive()
                line.send(*self._answer(line, header, body))
            # The child ended in the middle, or the client is not a child.
            except (OSError, KeyError, TypeError, ValueError, AttributeError, BadFrame):
                return

    def _answer(self, line: _Connection, header: Header, body: bytes) -> tuple[Header, bytes]:
        def send(grown: SizeCheck) -> WireResponse:
            """Let the child send the request."""
            reply_header, answer = line.ask({"send": grown.longest})
            if "error" in reply_header:
                raise ConnectionError(str(reply_header["error"]))
            grown(len(answer))
            return _response(reply_header, answer)

        watcher = _watchers.get(str(header["token"]))
        try:
            if "socket" in header:
                count_of_python()
                return {"pass": True}, b""
            if "reads" in header:
                if (reads := _reads.get(str(header["token"]))) is not None:
                    reads.take_in(header["reads"])
                return {"pass": True}, b""
            if watcher is None:
                return ({"refused": "the attempt that it belongs to is over"} if GATE.closed else {"pass": True}), b""
            if "unseen" in header:
                watcher.unseen(str(header["unseen"]), counted=bool(header["counted"]))
                return {"pass": True}, b""
            STEP.set(str(header["step"]))
            ReportedCall(str(header["model_call"]))
            headers = {str(name): str(value) for name, value in header["headers"].items()}
            response = watcher.exchange_blocking(
                WireRequest(str(header["method"]), str(header["url"]), headers, body), send
            )
        except Unsent as refused:
            return {"refused": str(refused)}, b""
        except Exception as error:
            return {"error": str(error)[:2000]}, b""
        return ({"pass": True}, b"") if response is None else (_response_header(response), response.body)


_listening: list[_Listener] = []
_starting = threading.RLock()  # a signal handler of the same thread may start a child, too
_watchers: weakref.WeakValueDictionary[str, Watcher] = weakref.WeakValueDictionary()
_tokens: weakref.WeakKeyDictionary[Watcher, str] = weakref.WeakKeyDictionary()
_reads: weakref.WeakValueDictionary[str, Reads] = weakref.WeakValueDictionary()
_forking = threading.local()


def way() -> ChildWatcher | None:
    """Return a watcher through which a child started now can ask the watcher of this context.

    ``None`` if nothing watches this context, or no socket is available.
    """
    if isinstance(watcher := WATCHER.get() or GATE.parent, ChildWatcher):
        return watcher
    if (watcher := traffic_watcher()) is None:
        return None
    with _starting:
        try:
            if not _listening:
                _listening.append(_Listener())
        except (OSError, AttributeError):  # no such sockets here, or a path that is too long
            return None
        if watcher not in _tokens:
            _tokens[watcher] = token = uuid.uuid4().hex
            _watchers[token] = watcher
            if (reads := current_reads()) is not None:
                _reads[token] = reads
        return ChildWatcher(_listening[0].path, _tokens[watcher], watcher.closed)


def watcher_of(child: ChildWatcher) -> Watcher | None:
    """Return the watcher for work submitted by an attempt.

    In the listening process, this is the attempt's own watcher. In any other process, it is the child's watcher.
    """
    if _listening and _listening[0].process == os.getpid():  # in a pool of threads
        return _watchers.get(child.token)
    return child


class Forks:
    """Coordination of forks by concurrent attempts in threads.

    A lock that another attempt holds at the time of a fork would stay locked in the child forever. Therefore an attempt
    forks only when each other attempt has ended, waits for an answer, or wants to fork as well. Those that want to fork
    do so one after the other, and continue together.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: Counter[Watcher] = Counter()
        """Running attempts → 1, minus the number of answers that each waits for."""
        self._waiting: dict[object, Watcher] = {}
        """Forks that wait → their attempt's watcher."""
        self._due: set[object] = set()

    @contextmanager
    def add(self, watcher: Watcher, count: int) -> Iterator[None]:
        """Mark an attempt as running (1), or as waiting for an answer (-1), until the block ends."""
        self._count(watcher, count)
        try:
            yield
        finally:
            self._count(watcher, -count)

    def _count(self, watcher: Watcher, count: int) -> None:
        with self._changed:
            self._busy[watcher] += count
            if not self._busy[watcher]:
                del self._busy[watcher]
            self._changed.notify_all()

    def _is_due(self, fork: object) -> bool:
        waiting_watchers = set(self._waiting.values())
        if all(count <= 0 or watcher in waiting_watchers for watcher, count in self._busy.items()):
            self._due |= self._waiting.keys()
            self._waiting.clear()
        return fork in self._due

    def begin(self) -> object:
        """Wait until this thread may fork, and block the other forks. Return ``None`` if it need not wait."""
        watcher = WATCHER.get()
        if watcher is None or running_loop():
            return None
        fork = object()
        self._changed.acquire()
        self._waiting[fork] = watcher
        if not self._changed.wait_for(lambda: self._is_due(fork), _MAX_WAIT):
            self._due.add(fork)
            del self._waiting[fork]
        return fork

    def end(self, fork: object) -> None:
        """Let the others continue, once all due forks are done."""
        self._due.discard(fork)
        self._changed.notify_all()
        self._changed.wait_for(lambda: not self._due, _MAX_WAIT)
        self._changed.release()


_MAX_WAIT = 5.0
"""Maximum seconds that a fork waits. Without it, another attempt could wait for a lock that the forking one holds."""
FORKS = Forks()


def before_fork() -> None:
    """Remember the watcher for the child, in the forking thread."""
    _forking.way, _forking.turn = way(), FORKS.begin()


def after_fork() -> None:
    """Forget that watcher, in the parent."""
    _forking.way = None
    if (turn := getattr(_forking, "turn", None)) is not None:
        _forking.turn = None
        FORKS.end(turn)


def joined() -> bool:
    """Return True if this forked child has its own connection to its parent. Everything inherited is closed."""
    global _starting
    _starting = threading.RLock()  # another thread may have held it
    FORKS.__init__()  # type: ignore[misc]
    watcher, inherited = getattr(_forking, "way", None), WATCHER.get()
    _forking.way = _forking.turn = None
    if inherited is not None:
        inherited.forked()
    listener = _listening.pop() if _listening else None
    if listener is not None:
        listener.leave()
    WATCHER.set(watcher)
    GATE.parent = watcher
    if watcher is None:
        return False
    signal.set_wakeup_fd(-1)  # a signal to the child would wake its parent
    for number, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if getattr(signal.getsignal(number), "__module__", "").partition(".")[0] in ("asyncio", "ragrounds"):
            signal.signal(number, default)
    if listener is not None:
        pipe = listener.ends_with

        def end_with_parent() -> None:
            os.read(pipe, 1)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=end_with_parent, name="ragrounds-parent", daemon=True).start()
    return True


def of_programs(module: Any) -> Iterator[Callable[[], None]]:
    """Patch the functions by which `subprocess` starts programs. Yield functions that undo the patches.

    Python programs then know their parent. Other programs are reported by name.
    """
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def start_program(argv: Sequence[Any], programs: Sequence[Any], *arguments: Any) -> int:
        watcher = traffic_watcher()
        parent = way() if watcher is not None and _is_python(argv, programs) else None
        if parent is not None:  # the environment is the fourth of these arguments
            arguments = (*arguments[:3], _environment(parent, arguments[3]), *arguments[4:])
        elif watcher is not None and (label := program(argv[0])):
            watcher.unseen(label)
        return fork_exec(argv, programs, *arguments)

    if getattr(module, "_USE_POSIX_SPAWN", False):
        module._USE_POSIX_SPAWN = False  # as its manual says; so every program starts in one way
        yield partial(setattr, module, "_USE_POSIX_SPAWN", True)
    for holder, name in ((_posixsubprocess, "fork_exec"), (module, "_fork_exec")):
        if hasattr(holder, name):  # Python 3.9 has no other name for it
            setattr(holder, name, start_program)
            yield partial(setattr, holder, name, fork_exec)


_HARMLESS = frozenset("uname lsb_release ldconfig gcc cc file git sw_vers nvidia-smi which hostname arch".split())
"""Programs that libraries call to inspect the machine."""


def program(path: Any) -> str:
    """Return the label of a program that is not recorded. Empty if the program is harmless."""
    name = os.fsdecode(path).replace("\\", "/").rpartition("/")[2]
    return "" if name in _HARMLESS else f"a process: {name[:100]}"


def _is_python(argv: Sequence[Any], programs: Sequence[Any]) -> bool:
    """Return True if a program is this interpreter with options that let it find its parent."""
    first, *rest = map(os.fsdecode, argv)
    executable = next((candidate for candidate in map(os.fsdecode, programs) if os.access(candidate, os.X_OK)), first)
    if os.path.realpath(executable) != os.path.realpath(sys.executable):
        return False
    for option in rest:
        if not option.startswith("-") or option in ("-c", "-m", "-"):
            break
        if not option.startswith("--") and set(option) & set("EIS"):
            return False
    return True


def _environment(watcher: ChildWatcher, environment: Sequence[bytes] | None) -> list[bytes]:
    pairs = [b"%s=%s" % pair for pair in os.environb.items()] if environment is None else environment
    variables = dict(pair.partition(b"=")[::2] for pair in pairs)
    paths = [os.fsencode(_SITE_FOLDER), *variables.get(b"PYTHONPATH", b"").split(os.pathsep.encode())]
    variables[b"PYTHONPATH"] = os.pathsep.encode().join(dict.fromkeys(filter(None, paths)))
    variables[PLACE.encode()] = "\n".join(
        (__package__, watcher.path, watcher.token, STEP.get(), "closed" if watcher.closed else "")
    ).encode()
    return [b"%s=%s" % pair for pair in variables.items()]
