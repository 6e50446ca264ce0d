"""Children of a process in which a system answers: forked ones, workers of pools, Python programs that it starts.

A child does not have the threads, nor the connections, of the process that it comes from. So that process, the parent,
listens on a path of its own, and each call of a child is a connection to it: the parent asks the watcher of the attempt
that the child belongs to, and the child sends, is given the answer, or is refused. A forked child ends itself when its
parent is gone.
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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from typing import Any

from .closed import count_of_python
from .frames import BadFrame, Reader, packed
from .observer import STEP
from .wire import (
    GATE,
    WATCHER,
    BlockingSend,
    Grown,
    NotThere,
    Send,
    ToldCall,
    Unsent,
    Watcher,
    WireRequest,
    WireResponse,
    hearer,
    model_call,
    running_loop,
)

PLACE = "RAGROUNDS_PARENT"
"""The variable by which a program finds its parent: lines of the recorder's name there, the path, a token, a step, and
whether nothing may leave it."""
_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "started")  # noqa: PTH118, PTH120, PTH100
_GONE = "the process that this one belongs to has ended"
Said = Mapping[str, Any]


class _Line:
    """A connection between a child and its parent, for one call."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._reader = end, Reader(end)

    def ask(self, header: Said, body: bytes = b"") -> tuple[Said, bytes]:
        """Send a frame, and read the next one."""
        self.say(header, body)
        return self.heard()

    def say(self, header: Said, body: bytes = b"") -> None:
        """Send a frame."""
        self._end.sendall(packed(header, body))

    def heard(self) -> tuple[Said, bytes]:
        """The next frame.

        Raises:
            OSError: there is none.
        """
        for frame in self._reader.next():
            return json.loads(frame.header), frame.body
        raise ConnectionError(_GONE)


class ChildWatcher:
    """The watcher of an attempt, seen from a child (contract: :class:`~.wire.Watcher`): it asks the parent."""

    def __init__(self, path: str, token: str, closed: bool) -> None:
        self.path, self.token, self.closed = path, token, closed

    async def exchange(self, request: WireRequest, send: Send, *, waits: bool = True) -> WireResponse | None:
        """The answer to a call (contract: Watcher). A thread waits for the parent, and the client sends here."""
        loop, pool = asyncio.get_running_loop(), ThreadPoolExecutor(1)

        def sent(grown: Grown) -> WireResponse:
            """Have the client send."""
            return asyncio.run_coroutine_threadsafe(_awaited(send(grown)), loop).result()

        try:
            return await loop.run_in_executor(pool, self.exchange_blocking, request, sent)
        finally:
            pool.shutdown(wait=False)

    def exchange_blocking(self, request: WireRequest, send: BlockingSend) -> WireResponse | None:
        """The same for a client without async."""
        with self._line() as ask:
            said, body = ask(*self._asked(request))
            if "send" in said:
                try:
                    answer = send(Grown(int(said["send"]), lambda: False))
                except BaseException as error:
                    ask(_failed(error), b"")
                    raise
                said, body = ask(_sent(answer), answer.body)
            return _given(said, body)

    def unseen(self, what: str, *, counted: bool = False) -> None:
        """Something left the process by no client that is known (contract: Watcher)."""
        with self._line() as ask:
            _given(*ask({"token": self.token, "unseen": what, "counted": counted}, b""))

    def count_socket(self) -> None:
        """Have a socket counted that Python asks for here."""
        with self._line() as ask:
            ask({"token": self.token, "socket": True}, b"")

    def forked(self) -> None:
        """Nothing: a child of a child asks the same parent."""

    @contextmanager
    def _line(self) -> Iterator[Callable[[Said, bytes], tuple[Said, bytes]]]:
        def ask(header: Said, body: bytes) -> tuple[Said, bytes]:
            """Send a frame, and read the next one."""
            try:
                return line.ask(header, body)
            except OSError:
                raise Unsent(_GONE) from None

        with socket.socket(socket.AF_UNIX) as end:
            try:
                end.connect(self.path)
            except OSError:
                raise Unsent(_GONE) from None
            line = _Line(end)
            yield ask

    def _asked(self, request: WireRequest) -> tuple[Said, bytes]:
        asked = {"method": request.method, "url": request.url, "headers": dict(request.headers)}
        return {"token": self.token, "step": STEP.get(), "model_call": model_call(), **asked}, request.body


async def _awaited(sent: Awaitable[WireResponse]) -> WireResponse:
    return await sent


def _failed(error: BaseException) -> Said:
    return {"error": f"{type(error).__name__}: {error}"[:2000]}


def _sent(answer: WireResponse) -> Said:
    return {"status": answer.status, "content_type": answer.content_type, "headers": dict(answer.headers)}


def _given(said: Said, body: bytes) -> WireResponse | None:
    if "refused" in said:
        raise Unsent(str(said["refused"]))
    if "error" in said:
        raise NotThere(str(said["error"]))
    return None if "pass" in said else _response(said, body)


def _response(said: Said, body: bytes) -> WireResponse:
    return WireResponse(
        int(said["status"]), str(said["content_type"]), body, {str(k): str(v) for k, v in said["headers"].items()}
    )


class _Listener:
    """Where the children of this process ask."""

    def __init__(self) -> None:
        import multiprocessing.util  # noqa: F401 - it waits for children at the end; what is registered later ends them

        self.process = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="ragrounds-")
        self.path = f"{self._folder}/s"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen(128)
        self.ends_with, self._open = os.pipe()
        """The end that children read, to hear of this process' end."""
        # Its threads belong to no attempt.
        Context().run(threading.Thread(target=self._accept, name="ragrounds-children", daemon=True).start)
        atexit.register(self.close)

    def close(self) -> None:
        """Have the children end."""
        if os.getpid() == self.process:
            self.leave()
            shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """Let go, in a child: it must not hold open what ends with its parent."""
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
            line = _Line(end)
            try:
                said, body = line.heard()
                line.say(*self._answer(line, said, body))
            except (
                OSError,
                KeyError,
                TypeError,
                ValueError,
                AttributeError,
                BadFrame,
            ):  # it ended in the middle, or is no child
                return

    def _answer(self, line: _Line, said: Said, body: bytes) -> tuple[Said, bytes]:
        def send(grown: Grown) -> WireResponse:
            """Have the child send."""
            told, answer = line.ask({"send": grown.longest})
            if "error" in told:
                raise ConnectionError(str(told["error"]))
            grown(len(answer))
            return _response(told, answer)

        found = _watchers.get(str(said["token"]))
        try:
            if "socket" in said:
                count_of_python()
                return {"pass": True}, b""
            if found is None:
                return ({"refused": "the attempt that it belongs to is over"} if GATE.closed else {"pass": True}), b""
            if "unseen" in said:
                found.unseen(str(said["unseen"]), counted=bool(said["counted"]))
                return {"pass": True}, b""
            STEP.set(str(said["step"]))
            ToldCall(str(said["model_call"]))
            headers = {str(name): str(value) for name, value in said["headers"].items()}
            given = found.exchange_blocking(WireRequest(str(said["method"]), str(said["url"]), headers, body), send)
        except Unsent as refused:
            return {"refused": str(refused)}, b""
        except Exception as error:
            return {"error": str(error)[:2000]}, b""
        return ({"pass": True}, b"") if given is None else (_sent(given), given.body)


_listening: list[_Listener] = []
_starting = threading.Lock()
_watchers: weakref.WeakValueDictionary[str, Watcher] = weakref.WeakValueDictionary()
_tokens: weakref.WeakKeyDictionary[Watcher, str] = weakref.WeakKeyDictionary()
_forking = threading.local()


def way() -> ChildWatcher | None:
    """The way to the watcher of this context for a child that is made now; ``None``: there is none, or no way."""
    if isinstance(found := WATCHER.get() or GATE.parent, ChildWatcher):
        return found
    if (found := hearer()) is None:
        return None
    with _starting:
        try:
            if not _listening:
                _listening.append(_Listener())
        except (OSError, AttributeError):  # no such sockets here, or a path that is too long
            return None
        if found not in _tokens:
            _tokens[found] = token = uuid.uuid4().hex
            _watchers[token] = found
        return ChildWatcher(_listening[0].path, _tokens[found], found.closed)


def watcher_of(child: ChildWatcher) -> Watcher | None:
    """Return what watches work handed in by an attempt: in the process that listens the attempt's own watcher, in any
    other the way to it."""
    if _listening and _listening[0].process == os.getpid():  # in a pool of threads
        return _watchers.get(child.token)
    return child


class Forks:
    """Forks of attempts that go on at the same time in threads. A lock that another of them holds just then would be
    held in the child for good: so an attempt forks once each of the others has ended, waits for an answer, or wants to
    fork as well; those that want to do so one after the other, and go on together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: Counter[Watcher] = Counter()
        """Attempts that go on → 1, less what each waits for."""
        self._wanted: dict[object, Watcher] = {}
        """Forks that are waited with → whose each is."""
        self._due: set[object] = set()

    @contextmanager
    def add(self, watcher: Watcher, count: int) -> Iterator[None]:
        """An attempt goes on (1), or waits for an answer (-1), until the block ends."""
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

    def _is_due(self, one: object) -> bool:
        wanting = set(self._wanted.values())
        if all(count <= 0 or watcher in wanting for watcher, count in self._busy.items()):
            self._due |= self._wanted.keys()
            self._wanted.clear()
        return one in self._due

    def begin(self) -> object:
        """Wait until this thread may fork, and hold the others up. ``None``: it need not."""
        found = WATCHER.get()
        if found is None or running_loop():
            return None
        one = object()
        self._changed.acquire()
        self._wanted[one] = found
        if not self._changed.wait_for(lambda: self._is_due(one), _LONGEST_WAIT):
            self._due.add(one)
            del self._wanted[one]
        return one

    def end(self, one: object) -> None:
        """Let the others continue, once all have forked that were to."""
        self._due.discard(one)
        self._changed.notify_all()
        self._changed.wait_for(lambda: not self._due, _LONGEST_WAIT)
        self._changed.release()


_LONGEST_WAIT = 5.0
"""Seconds that a fork waits at most: another attempt may wait for a lock that the one which forks holds itself."""
FORKS = Forks()


def before_fork() -> None:
    """Remember, in the thread that forks, where the child belongs."""
    _forking.way, _forking.turn = way(), FORKS.begin()


def after_fork() -> None:
    """Forget it, in the parent."""
    _forking.way = None
    if (turn := getattr(_forking, "turn", None)) is not None:
        _forking.turn = None
        FORKS.end(turn)


def joined() -> bool:
    """In a forked child: whether it has its own way to its parent. What it inherited of its parent's is let go."""
    global _starting
    _starting = threading.Lock()  # another thread may have held it
    FORKS.__init__()  # type: ignore[misc]
    found, inherited = getattr(_forking, "way", None), WATCHER.get()
    _forking.way = _forking.turn = None
    if inherited is not None:
        inherited.forked()
    listener = _listening.pop() if _listening else None
    if listener is not None:
        listener.leave()
    WATCHER.set(found)
    GATE.parent = found
    if found is None:
        return False
    signal.set_wakeup_fd(-1)  # what the child is sent would wake its parent
    for number, usual in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
        if getattr(signal.getsignal(number), "__module__", "").partition(".")[0] in ("asyncio", "ragrounds"):
            signal.signal(number, usual)
    if listener is not None:
        threading.Thread(target=_end_with, args=(listener.ends_with,), name="ragrounds-parent", daemon=True).start()
    return True


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def of_programs(module: Any) -> Iterator[Callable[[], None]]:
    """Have Python programs that are started hear of their parent, and other programs be named: by whoever starts them
    as `subprocess` does. Gives what undoes it."""
    import _posixsubprocess

    begin = _posixsubprocess.fork_exec

    def begun(argv: Sequence[Any], programs: Sequence[Any], *given: Any) -> int:
        found = hearer()
        path = way() if found is not None and _is_python(argv, programs) else None
        if path is not None:  # the fourth of what follows is the environment
            given = (*given[:3], _environment(path, given[3]), *given[4:])
        elif found is not None and (what := program(argv[0])):
            found.unseen(what)
        return begin(argv, programs, *given)

    if getattr(module, "_USE_POSIX_SPAWN", False):
        module._USE_POSIX_SPAWN = False  # as its manual says; so every program starts in one way
        yield partial(setattr, module, "_USE_POSIX_SPAWN", True)
    for place, name in ((_posixsubprocess, "fork_exec"), (module, "_fork_exec")):
        if hasattr(place, name):  # Python 3.9 has no other name for it
            setattr(place, name, begun)
            yield partial(setattr, place, name, begin)


_HARMLESS = frozenset("uname lsb_release ldconfig gcc cc file git sw_vers nvidia-smi which hostname arch".split())
"""Programs that libraries ask about the machine."""


def program(path: Any) -> str:
    """What a program is called that is not recorded; empty: it need not be named."""
    name = os.fsdecode(path).replace("\\", "/").rpartition("/")[2]
    return "" if name in _HARMLESS else f"a process: {name[:100]}"


def _is_python(argv: Sequence[Any], programs: Sequence[Any]) -> bool:
    """Whether a program is this interpreter, and will hear of its parent."""
    first, *rest = map(os.fsdecode, argv)
    found = next((one for one in map(os.fsdecode, programs) if os.access(one, os.X_OK)), first)
    if os.path.realpath(found) != os.path.realpath(sys.executable):
        return False
    for one in rest:
        if not one.startswith("-") or one in ("-c", "-m", "-"):
            break
        if not one.startswith("--") and set(one) & set("EIS"):
            return False
    return True


def _environment(found: ChildWatcher, given: Sequence[bytes] | None) -> list[bytes]:
    pairs = [b"%s=%s" % pair for pair in os.environb.items()] if given is None else given
    variables = dict(pair.partition(b"=")[::2] for pair in pairs)
    paths = [os.fsencode(_SITE), *variables.get(b"PYTHONPATH", b"").split(os.pathsep.encode())]
    variables[b"PYTHONPATH"] = os.pathsep.encode().join(dict.fromkeys(filter(None, paths)))
    variables[PLACE.encode()] = "\n".join(
        (__package__, found.path, found.token, STEP.get(), "closed" if found.closed else "")
    ).encode()
    return [b"%s=%s" % pair for pair in variables.items()]
