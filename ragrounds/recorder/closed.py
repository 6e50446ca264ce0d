"""A process from which nothing leaves: the kernel refuses it, to Python, to code in C, to children. It needs no rights.

On Linux a seccomp filter refuses ``socket()`` of every family but AF_UNIX, ``io_uring_setup``, and the calls of other
ABIs (x86-64 and aarch64). A process beside this one is asked by the kernel for each such socket and refuses it, so that
what native code tried is known (:func:`natively_told`); where the kernel cannot ask, the filter alone refuses. On macOS
it is a profile of ``sandbox-exec``'s, which was never tried. Nothing of it can be taken back. Sockets that are open
already stay; so does what a service of this machine does that is asked over AF_UNIX: systemd-resolved looks a name up.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from .wire import Watcher, hearer

_CALLS = {"x86_64": (0xC000003E, 41, 317), "aarch64": (0xC00000B7, 198, 277)}
"""Machine → its architecture as the kernel writes it, the numbers of ``socket`` and ``seccomp``."""
_IO_URING_SETUP = 425
_X32 = 0x40000000
"""Calls of the x32 ABI have this bit."""
_ALLOW, _ASK, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.EACCES
_NO_NEW_PRIVILEGES, _DEATH_SIGNAL = 38, 1
_ALL_THREADS, _LISTENER, _NO_THREAD_NUMBER = 1, 8, 16
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_KILL = 9
_PROFILE = b"""(version 1) (allow default) (deny network*)
(allow network* (local unix-socket)) (allow network* (remote unix-socket))
(deny network-outbound (literal "/private/var/run/mDNSResponder"))"""

_heard = mmap.mmap(-1, mmap.PAGESIZE) if hasattr(os, "fork") else None
"""What this process, its forks and the one beside it count: sockets that were asked for, with the name of the last
thread that did; then those of Python's."""
_COUNT, _OF_PYTHON = struct.Struct("=Q16s"), struct.Struct("=Q")
_PLACE = 32
_INTERNET = (socket.AF_INET, socket.AF_INET6)


def close() -> bool:
    """Let nothing leave this process and its children any more. Gives whether that holds.

    To be called while this is the only thread.
    """
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform.startswith("linux") and struct.calcsize("P") == 8:
            _filter(*_CALLS.get(platform.machine(), (0, 0, 0)))
        elif sys.platform == "darwin":
            system, fault = ctypes.CDLL("/usr/lib/libSystem.dylib"), ctypes.c_char_p()
            system.sandbox_init(_PROFILE, ctypes.c_uint64(0), ctypes.byref(fault))
    holds = _refused()
    if _heard is not None:
        _heard[: _COUNT.size] = bytes(_COUNT.size)  # that was this one
    if holds:
        sys.addaudithook(_hear)
    return holds


@contextlib.contextmanager
def natively_told(watcher: Watcher) -> Iterator[None]:
    """Have what no hook of Python's hears told to an attempt, the only one that goes on: that native code, or a child,
    asked for a connection.

    Raises:
        Unsent: it did.
    """
    before = _native()[0]
    try:
        yield
    finally:
        count, name = _native()
        if count > before:
            watcher.unseen(f"a network connection, by native code or a child ({name})")


def follow(count: Callable[[], None]) -> None:
    """Be a program that a closed process has started: `count` tells that process of each socket of Python's here, which
    would be taken for native code's there."""
    global _count
    _count = count
    sys.addaudithook(_hear)


def count_of_python() -> None:
    """Count a socket that Python asks for."""
    if _heard is not None:
        _OF_PYTHON.pack_into(_heard, _PLACE, _OF_PYTHON.unpack_from(_heard, _PLACE)[0] + 1)


_count = count_of_python


def _native() -> tuple[int, str]:
    """How many sockets of the internet were asked for since this was closed, without Python's own, and the name of the
    thread or program that did last. None: the kernel does not say."""
    if _heard is None:
        return 0, ""
    count, name = _COUNT.unpack_from(_heard)
    return count - _OF_PYTHON.unpack_from(_heard, _PLACE)[0], name.rstrip(b"\0").decode("utf-8", "replace")


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    """Tell of a connection that Python is asked for, by the name that is given: it comes to none, and so to no event of
    its own."""
    if event == "socket.getaddrinfo":
        host, port = arguments[:2]
        what = f"a connection to {host.decode() if isinstance(host, bytes) else host}:{port}" if host and port else ""
    elif event == "socket.__new__" and arguments[1] in _INTERNET:
        _count()
        what = _wanted(sys._getframe(1))
    else:
        return
    if what and (watcher := hearer()) is not None:
        watcher.unseen(what)


_LOOKING = frozenset({"_filter_supported"})
"""Functions that make a socket to look what it can do, and never connect it: langchain_openai's, for each new model."""


def _wanted(frame: FrameType | None) -> str:
    """What a new socket is for; empty: a module that is imported, or a client, looks what this machine can do."""
    what = "a connection by a socket of its own"
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code.co_name in _LOOKING:
            return ""
        if frame.f_code.co_name == "_connect_sock" and "addr_info" in frame.f_locals:  # asyncio's
            host, port = frame.f_locals["addr_info"][4][:2]
            what = f"a connection to {host}:{port}"
        frame = frame.f_back
    return what


def _refused() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            return one.connect_ex(("127.0.0.1", 9)) in (errno.EACCES, errno.EPERM)
    except PermissionError:
        return True


def _filter(architecture: int, socket_call: int, seccomp_call: int) -> None:
    if not architecture:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return
    for otherwise, flags in (
        (_ASK, _LISTENER | _ALL_THREADS | _NO_THREAD_NUMBER),
        (_REFUSE, _ALL_THREADS),
    ):
        program = _program(architecture, socket_call, otherwise)
        code = ctypes.create_string_buffer(program)
        given = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        listener = libc.syscall(seccomp_call, 1, flags, given)
        if listener >= 0:
            if otherwise == _ASK:
                _stand_beside(libc, listener)
            return


def _program(architecture: int, socket_call: int, otherwise: int) -> bytes:
    """The filter: what is done with a call, by its architecture, number and first argument."""

    def load(offset: int) -> tuple[int, int, int, int]:
        return 0x20, 0, 0, offset

    def leave(verdict: int) -> tuple[int, int, int, int]:
        return 0x06, 0, 0, verdict

    steps = (
        load(4),
        (0x15, 0, 4, architecture),  # another one: refuse
        load(0),
        (0x35, 2, 0, _X32),  # of x32: refuse
        (0x15, 1, 0, _IO_URING_SETUP),
        (0x15, 1, 4, socket_call),  # no socket: allow
        leave(_REFUSE),
        load(16),
        (0x15, 1, 0, socket.AF_UNIX),
        leave(otherwise),
        leave(_ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _stand_beside(libc: ctypes.CDLL, listener: int) -> None:
    """Start the process that refuses, and notes what it refused. It ends with this one."""
    here = os.getpid()
    if os.fork():
        os.close(listener)
        return
    try:
        libc.prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(name) not in (0, 1, 2, listener):  # it holds no socket and no pipe of the other's open
                with contextlib.suppress(OSError):
                    os.close(int(name))
        while os.getppid() == here:
            _refuse_next(listener)
    finally:
        os._exit(0)


def _refuse_next(listener: int) -> None:
    import fcntl

    asked = bytearray(80)
    with contextlib.suppress(OSError):  # who asked is gone
        fcntl.ioctl(listener, _RECEIVE, asked)
        number, thread = struct.unpack_from("=QI", asked)
        family = struct.unpack_from("=Q", asked, 32)[0] & 0xFFFFFFFF
        if _heard is not None and family in _INTERNET:
            name = b""
            with contextlib.suppress(OSError), open(f"/proc/{thread}/comm", "rb") as file:  # noqa: PTH123
                name = file.read(16).rstrip(b"\n")
            _COUNT.pack_into(_heard, 0, _COUNT.unpack_from(_heard)[0] + 1, name)
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, -errno.EACCES, 0))
