"""Watching the HTTP clients of this process, and what leaves it by other means.

The clients of httpx, httpx2, aiohttp, urllib3 (which is requests', too) and DSPy are replaced once, at class level, for
as long as a system is watched; :mod:`threads` carries the context of a call into threads. What opens a connection or
starts a program by other means is seen by an audit hook, and cannot be recorded. Forked children, and Python programs,
ask by :mod:`children`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from . import aiohttp_client, children, httpx_clients, lm15_client, threads, urllib3_client
from . import closed as closing
from .loading import when_loaded
from .observer import STEP
from .wire import GATE, WATCHER, Unsent, hearer, passing

_lock = threading.RLock()
_users = 0
_undo: list[Callable[[], None]] = []
_hooked = False


@contextmanager
def installed(*, closed: bool = False) -> Iterator[None]:
    """Have the clients of this process watched until the block ends; blocks may overlap.

    `closed`: of what belongs to no attempt, nothing leaves the process either.
    """
    global _users
    keep_watching()
    with _lock:
        GATE.closed += closed
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            GATE.closed -= closed
            if not _users:
                while _undo:
                    _undo.pop()()


def keep_watching() -> None:
    """Have the clients watched for good: a thread of an attempt that was cut off goes on, and is to be refused."""
    global _users, _hooked
    with _lock:
        _users += 1
        if _users == 1:
            _undo.append(threads.install())
            for name, install in _LIBRARIES.items():
                when_loaded(name, install)
        if not _hooked:
            _hooked = True
            sys.addaudithook(_audit)  # nothing takes one away again
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=_before_fork, after_in_parent=children.after_fork, after_in_child=_after_fork
                )


def watched() -> None:
    """Have the clients watched for good, where they are not yet."""
    if not _users:
        keep_watching()


def follow(path: str, token: str, step: str, closed: str) -> None:
    """Be a program that a system started: what it asks for belongs to the attempt of this token, behind this path."""
    GATE.parent = parent = children.ChildWatcher(path, token, bool(closed))
    if closed:
        closing.follow(parent.count_socket)
    STEP.set(step)
    keep_watching()


def _before_fork() -> None:
    if _users:
        children.before_fork()


def _after_fork() -> None:
    """Have a forked child ask its parent. One that has no way there sends by itself what it sends: that it was started
    is known as not recorded. Where nothing may leave this process, nothing leaves such a child either."""
    global _lock, _users
    _lock = threading.RLock()  # another thread may have held it
    httpx_clients.forked()
    urllib3_client.forked()
    if not children.joined() and not GATE.closed:
        _users = 0
        while _undo:
            _undo.pop()()


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _users and event in _EVENTS and (what := _EVENTS[event](arguments)):
        _tell(what)


def _tell(what: str, *, counted: bool = False) -> None:
    if (found := hearer()) is not None:
        found.unseen(what, counted=counted)


def _connected(arguments: tuple[object, ...]) -> str:
    address = arguments[1] if len(arguments) > 1 else ""
    if not isinstance(address, tuple) or len(address) < 2:
        return ""  # a socket of this machine's file system
    return f"a connection to {address[0]}:{address[1]}"


def _of_http_client(module: Any) -> Iterator[Callable[[], None]]:
    """Have each request of http.client told of, which is one with the connection that it opens, all addresses that this
    is tried at, and the parts that it is sent in. Gives what undoes it."""
    kind = module.HTTPConnection
    putrequest, connect = kind.putrequest, kind.connect

    def asked(self: Any, *given: Any, **named: Any) -> None:
        _tell(f"a request to {self.host} by http.client")
        putrequest(self, *given, **named)

    def connected(self: Any) -> None:
        _tell(f"a request to {self.host} by http.client", counted=True)
        with passing():
            connect(self)

    kind.putrequest, kind.connect = asked, connected
    yield partial(setattr, kind, "putrequest", putrequest)
    yield partial(setattr, kind, "connect", connect)


class Carried:
    """Work that another process does, as a part of the attempt that handed it in."""

    def __init__(self, work: Callable[..., Any], path: children.ChildWatcher, whole: bool) -> None:
        self._work, self._way, self._whole = work, path, whole

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Do it."""
        watcher = children.watcher_of(self._way)
        if watcher is self._way:
            watched()
        before = WATCHER.set(watcher)
        try:
            return self._work(*given, **named)
        except Unsent as refused:
            if self._whole:
                raise SystemExit(1) from None
            raise RuntimeError(f"a call was refused: {refused}") from None  # pools pass on no other kind
        finally:
            WATCHER.reset(before)


def _carried(work: Any, whole: bool = False) -> Any:
    found = children.way() if callable(work) and not isinstance(work, Carried) and _reads_variables() else None
    return work if found is None else Carried(work, found, whole)


def _reads_variables() -> bool:
    """Whether programs that this interpreter starts like itself hear of their parent."""
    return not (sys.flags.ignore_environment or sys.flags.no_site)


def _of_processes(module: Any) -> Iterator[Callable[[], None]]:
    """Have a process of multiprocessing belong to who starts it. Gives what undoes it."""
    start = module.BaseProcess.start

    def started(self: Any) -> None:
        self._target = _carried(self._target, whole=True)
        start(self)

    module.BaseProcess.start = started
    yield partial(setattr, module.BaseProcess, "start", start)


def _of_pools(module: Any) -> Iterator[Callable[[], None]]:
    """Have the work of a pool of processes belong to who hands it in. Gives what undoes it."""

    def handed_in(method: Callable[..., Any]) -> Callable[..., Any]:
        def handing(self: Any, *given: Any, **named: Any) -> Any:
            if given:
                return method(self, _carried(given[0]), *given[1:], **named)
            return method(self, **{name: _carried(one) if name == "func" else one for name, one in named.items()})

        return handing

    kinds = {"Pool": ("apply_async", "_map_async", "imap", "imap_unordered"), "ProcessPoolExecutor": ("submit",)}
    for kind, names in kinds.items():
        for name in names if hasattr(module, kind) else ():
            method = getattr(getattr(module, kind), name)
            setattr(getattr(module, kind), name, handed_in(method))
            yield partial(setattr, getattr(module, kind), name, method)


def _install(install: Callable[[Any], Iterator[Callable[[], None]]], module: ModuleType) -> None:
    with _lock:
        if _users:
            _undo.extend(install(module))


_LIBRARIES: dict[str, Callable[[ModuleType], None]] = {
    name: partial(_install, install)
    for name, install in (
        ("httpx", httpx_clients.install),
        ("httpx2", httpx_clients.install),
        ("aiohttp", aiohttp_client.install),
        ("urllib3", urllib3_client.install),
        (lm15_client.PLACE, lm15_client.install),
        ("http.client", _of_http_client),
        ("subprocess", children.of_programs),
        ("multiprocessing.process", _of_processes),
        ("multiprocessing.pool", _of_pools),
        ("concurrent.futures.process", _of_pools),
    )
}
"""What is replaced in which module, once it is loaded: nobody has to wait for those that are not used. Each function
gives what undoes it."""


def _started(arguments: tuple[Any, ...]) -> str:
    return children.program(arguments[0])


def _forked(arguments: tuple[object, ...]) -> str:
    return "" if children.way() else "a forked process"  # it asks by itself


def _commanded(arguments: tuple[object, ...]) -> str:
    return "a command of the shell"


_EVENTS: dict[str, Callable[[tuple[object, ...]], str]] = {
    "socket.connect": _connected,
    "os.posix_spawn": _started,
    "os.exec": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.system": _commanded,
}
