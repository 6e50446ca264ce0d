"""Watching the HTTP clients of this process, and what leaves it by other means.

The clients of httpx, httpx2, aiohttp, urllib3 (which is requests', too) and DSPy are replaced once, at class level, for
as long as a system is watched; :mod:`threads` carries the context of a call into threads. What opens a connection or
starts a process by other means is seen by an audit hook, and cannot be recorded. A forked child leaves the hooks: the
threads that would answer it are not there.
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
from types import FrameType

from . import aiohttp_client, httpx_clients, lm15_client, threads, urllib3_client
from .wire import GATE, OWN_TRAFFIC, PASSING, WATCHER

_lock = threading.Lock()
_users = 0
_undo: list[Callable[[], None]] = []
_hooked = False


@contextmanager
def installed(*, closed: bool = False) -> Iterator[None]:
    """Have the clients of this process watched until the block ends; blocks may overlap.

    `closed`: of what belongs to no attempt, nothing leaves the process either.
    """
    global _users, _hooked
    with _lock:
        _users += 1
        GATE.closed += closed
        if _users == 1:
            _undo.extend(_install())
        if not _hooked:
            _hooked = True
            sys.addaudithook(_audit)  # nothing takes one away again
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_leave)
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
    """Leave the clients watched for good: a thread of an attempt that was cut off goes on, and is to be refused."""
    global _users
    with _lock:
        _users += 1


def _leave() -> None:
    """Let a forked child send what it sends by itself: that it was started is known as not recorded. Where nothing may
    leave this process, nothing leaves the child either."""
    global _lock, _users
    _lock = threading.Lock()  # another thread may have held it
    WATCHER.set(None)
    if not GATE.closed:
        _users = 0
        while _undo:
            _undo.pop()()


def _install() -> Iterator[Callable[[], None]]:
    yield threads.install()
    for name in ("httpx", "httpx2"):
        yield from httpx_clients.install(name)
    yield from aiohttp_client.install()
    yield from urllib3_client.install()
    yield from lm15_client.install()


_HARMLESS = frozenset("uname lsb_release ldconfig gcc cc file git sw_vers nvidia-smi which hostname arch".split())
"""Programs that libraries ask about the machine."""


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if not _users or event not in _EVENTS:
        return
    if PASSING.get() or OWN_TRAFFIC.get():
        return
    found = WATCHER.get()
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


def _started(arguments: tuple[object, ...]) -> str:
    name = str(arguments[0]).replace("\\", "/").rpartition("/")[2] if arguments else "?"
    return "" if name in _HARMLESS else f"a process: {name[:100]}"


def _forked(arguments: tuple[object, ...]) -> str:
    return "a forked process"


def _commanded(arguments: tuple[object, ...]) -> str:
    return "a command of the shell"


_EVENTS: dict[str, Callable[[tuple[object, ...]], str]] = {
    "socket.connect": _connected,
    "http.client.send": _sent,
    "subprocess.Popen": _started,
    "os.posix_spawn": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.system": _commanded,
}
