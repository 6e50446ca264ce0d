"""Observation of the HTTP clients of this process, and of traffic by other means.

The clients of httpx, httpx2, aiohttp, urllib3 (also used by requests) and DSPy are patched once, at class level, while
a system is watched. :mod:`threads` carries the context of a call into threads. An audit hook notices connections and
programs that are started by other means; these cannot be recorded. Forked children, and Python programs, ask through
:mod:`children`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType, ModuleType
from typing import Any

from . import aiohttp_client, children, httpx_clients, lm15_client, threads, urllib3_client
from . import closed as closing
from .loading import when_loaded
from .observer import STEP
from .reads import Reads, current_reads
from .wire import GATE, WATCHER, Unsent, passing, setting, traffic_watcher

_lock = threading.RLock()
_users = 0
_undo: list[Callable[[], None]] = []
_hooked = False


@contextmanager
def installed(*, closed: bool = False) -> Iterator[None]:
    """Watch the clients of this process until the block ends. Blocks may overlap.

    If `closed`, calls that belong to no attempt are refused, too.
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
    """Watch the clients permanently. A thread of a cancelled attempt continues, and its calls must be refused."""
    global _users, _hooked
    with _lock:
        _users += 1
        if _users == 1:
            _undo.append(threads.install())
            for name, install in _LIBRARIES.items():
                when_loaded(name, install)
        if not _hooked:
            _hooked = True
            sys.addaudithook(_audit)  # an audit hook cannot be removed
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(
                    before=lambda: children.before_fork() if _users else None,
                    after_in_parent=children.after_fork,
                    after_in_child=_after_fork,
                )


def watched() -> None:
    """Watch the clients permanently, if they are not watched yet."""
    if not _users:
        keep_watching()


def follow(path: str, token: str, step: str, closed: str) -> None:
    """Initialize a program that a system started. Its calls belong to the attempt of this token, via the parent's
    socket path.
    """
    GATE.parent = parent = children.ChildWatcher(path, token, bool(closed))
    if closed:
        closing.follow(parent.count_socket)
    Reads(alone=True).forked(parent.read)
    STEP.set(step)
    keep_watching()


def _after_fork() -> None:
    """Let a forked child ask its parent.

    A child without a connection to it sends its calls itself; its start was reported as not recorded. If nothing may
    leave this process, nothing leaves such a child either.
    """
    global _lock, _users
    _lock = threading.RLock()  # another thread may have held it
    httpx_clients.forked()
    urllib3_client.forked()
    is_joined, reads = children.joined(), current_reads()
    if reads is not None and isinstance(GATE.parent, children.ChildWatcher):
        reads.forked(GATE.parent.read)
    if not is_joined and not GATE.closed:
        _users = 0
        while _undo:
            _undo.pop()()


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    if _users and event in _EVENTS and (label := _EVENTS[event](arguments)):
        _tell(label)


def _tell(label: str, *, counted: bool = False) -> None:
    if (watcher := traffic_watcher()) is not None:
        watcher.unseen(label, counted=counted)


_LOGS = ("/dev/log", "/run/systemd/", "/var/run/syslog")
_bound: set[object] = set()
"""Addresses of the UNIX sockets that this process has bound."""


def _connected(arguments: tuple[object, ...], what: str = "a connection") -> str:
    address = arguments[1] if len(arguments) > 1 else None
    if isinstance(address, tuple):
        return f"{what} to {address[0]}:{address[1]}" if len(address) > 1 else ""
    if not address or address in _bound or not isinstance(address, (str, bytes)):
        return ""
    name = os.fsdecode(address).replace("\0", "@")
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:  # processes of multiprocessing talk to each other
        if frame.f_globals.get("__name__", "").startswith("multiprocessing."):
            return ""
        frame = frame.f_back
    return "" if name.startswith(_LOGS) else f"{what} to the socket {name[:100]}"


def _binds(arguments: tuple[object, ...]) -> str:
    if isinstance(arguments[1], (str, bytes)):
        _bound.add(arguments[1])
    return ""


def _looked_up(arguments: tuple[object, ...]) -> str:
    if closing.is_sealed or arguments[1] not in ("connect", "sendto", "sendmsg"):
        return ""
    return "a connection by native code (ctypes)"


def _patch_http_client(module: Any) -> Iterator[Callable[[], None]]:
    """Patch http.client to report each request. Yield functions that undo the patch.

    A request is one report, together with the connection that it opens, all addresses that are tried, and its parts.
    """
    kind = module.HTTPConnection
    putrequest, connect = kind.putrequest, kind.connect

    def report_request(self: Any, *arguments: Any, **keywords: Any) -> None:
        _tell(f"a request to {self.host} by http.client")
        putrequest(self, *arguments, **keywords)

    def connected(self: Any) -> None:
        _tell(f"a request to {self.host} by http.client", counted=True)
        with passing():
            connect(self)

    kind.putrequest, kind.connect = report_request, connected
    yield partial(setattr, kind, "putrequest", putrequest)
    yield partial(setattr, kind, "connect", connect)


class Carried:
    """Work that another process does, as a part of the attempt that submitted it."""

    def __init__(self, work: Callable[..., Any], parent: children.ChildWatcher, is_process: bool) -> None:
        self._work, self._parent, self._is_process = work, parent, is_process

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run the work."""
        watcher = children.watcher_of(self._parent)
        if watcher is self._parent:
            watched()
        with setting(WATCHER, watcher):
            try:
                return self._work(*arguments, **keywords)
            except Unsent as refused:
                if self._is_process:
                    raise SystemExit(1) from None
                raise RuntimeError(f"a call was refused: {refused}") from None  # pools pass on only an Exception


def _carry(work: Any, is_process: bool = False) -> Any:
    # Programs that this interpreter starts with these flags of its own cannot find their parent.
    if not callable(work) or isinstance(work, Carried) or sys.flags.ignore_environment or sys.flags.no_site:
        return work
    parent = children.way()
    return work if parent is None else Carried(work, parent, is_process)


def _patch_processes(module: Any) -> Iterator[Callable[[], None]]:
    """Patch processes of multiprocessing to belong to their starter's attempt. Yield functions that undo the patch."""
    start = module.BaseProcess.start

    def started(self: Any) -> None:
        self._target = _carry(self._target, is_process=True)
        start(self)

    module.BaseProcess.start = started
    yield partial(setattr, module.BaseProcess, "start", start)


def _patch_pools(module: Any) -> Iterator[Callable[[], None]]:
    """Patch pools of processes, so that work belongs to its submitter's attempt. Yield functions that undo the
    patch.
    """

    def handed_in(method: Callable[..., Any]) -> Callable[..., Any]:
        def handing(self: Any, *arguments: Any, **keywords: Any) -> Any:
            if arguments:
                return method(self, _carry(arguments[0]), *arguments[1:], **keywords)
            return method(
                self, **{name: _carry(argument) if name == "func" else argument for name, argument in keywords.items()}
            )

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
        ("http.client", _patch_http_client),
        ("subprocess", children.of_programs),
        ("multiprocessing.process", _patch_processes),
        ("multiprocessing.pool", _patch_pools),
        ("concurrent.futures.process", _patch_pools),
    )
}
"""Patches by module, applied when the module is loaded, so that unused modules need not be imported.

Each patch yields functions that undo it.
"""


def _started(arguments: tuple[Any, ...]) -> str:
    return children.program(arguments[0])


def _forked(arguments: tuple[object, ...]) -> str:
    return "" if children.way() else "a forked process"  # the child itself asks


_EVENTS: dict[str, Callable[[tuple[object, ...]], str]] = {
    "socket.connect": _connected,
    "socket.sendto": partial(_connected, what="a message"),
    "socket.sendmsg": partial(_connected, what="a message"),
    "socket.bind": _binds,
    "ctypes.dlsym": _looked_up,
    "os.posix_spawn": _started,
    "os.exec": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
    "os.system": lambda arguments: "a command of the shell",
}
