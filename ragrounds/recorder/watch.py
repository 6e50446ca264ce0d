"""Watching the HTTP clients of this process, and what leaves it by other means.

The clients of httpx, httpx2, aiohttp, urllib3 (which is requests', too) and DSPy are replaced once, at class level, for
as long as a system is watched; :mod:`threads` carries the context of a call into threads. What opens a connection or
starts a program by other means is seen by an audit hook, and cannot be recorded. Forked children, and Python programs,
ask by :mod:`children`.
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from . import aiohttp_client, children, httpx_clients, lm15_client, threads, urllib3_client
from . import closed as closing
from .loading import when_loaded
from .observer import STEP
from .wire import GATE, OWN_TRAFFIC, PASSING

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
    if not children.joined() and not GATE.closed:
        _users = 0
        while _undo:
            _undo.pop()()


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
        ("subprocess", children.of_programs),
        ("multiprocessing.process", children.of_processes),
        ("multiprocessing.pool", children.of_pools),
        ("concurrent.futures.process", children.of_pools),
    )
}
"""What is replaced in which module, once it is loaded: nobody has to wait for those that are not used. Each function
gives what undoes it."""


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not _users or event not in _EVENTS:
        return
    if PASSING.get() or OWN_TRAFFIC.get():
        return
    found = children.current()
    if found is not None and (what := _EVENTS[event](arguments)):
        found.unseen(what, counted=event in _OF_REQUESTS and _is_counted(event, arguments))


_OPENED: weakref.WeakSet[http.client.HTTPConnection] = weakref.WeakSet()
"""Connections of http.client whose opening was told, and whose first request was not sent yet."""
_BEGINS = re.compile(rb"(?!CONNECT )[A-Z]+ [^\r\n]* HTTP/1\.[01]\r\n")
"""How a request begins; its body is sent apart, and one to a proxy that opens a tunnel is none of the system's."""


def _is_counted(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether what http.client does is a part of a request that was told of: one request is one, with the connection
    that it is the first on, all addresses that this was tried at, and the parts that it is sent in."""
    if event == "socket.connect":
        client = _opening()
        told = client in _OPENED
        if client is not None:
            _OPENED.add(client)
        return told
    sender, data = (arguments[0], arguments[1]) if len(arguments) > 1 else (None, b"")
    if not isinstance(data, (bytes, bytearray)) or not _BEGINS.match(data):
        return True
    told = sender in _OPENED
    if isinstance(sender, http.client.HTTPConnection):
        _OPENED.discard(sender)
    return told


def _opening() -> http.client.HTTPConnection | None:
    """The connection that http.client opens in this thread just now."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is http.client.HTTPConnection.connect.__code__:
            opened: http.client.HTTPConnection = frame.f_locals["self"]
            return opened
        frame = frame.f_back
    return None


def _connected(arguments: tuple[object, ...]) -> str:
    address = arguments[1] if len(arguments) > 1 else ""
    if not isinstance(address, tuple) or len(address) < 2:
        return ""  # a socket of this machine's file system
    client = _opening()
    return f"a connection to {address[0]}:{address[1]}" if client is None else _sent((client,))


def _sent(arguments: tuple[object, ...]) -> str:
    host = getattr(arguments[0], "host", "?") if arguments else "?"
    return f"a request to {host} by http.client"


_OF_REQUESTS = frozenset({"socket.connect", "http.client.send"})


def _started(arguments: tuple[Any, ...]) -> str:
    return children.program(arguments[0])


def _forked(arguments: tuple[object, ...]) -> str:
    return "" if children.way() else "a forked process"  # it asks by itself


def _commanded(arguments: tuple[object, ...]) -> str:
    return "a command of the shell"


_EVENTS: dict[str, Callable[[tuple[object, ...]], str]] = {
    "socket.connect": _connected,
    "http.client.send": _sent,
    "os.posix_spawn": _started,
    "os.exec": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.system": _commanded,
}
