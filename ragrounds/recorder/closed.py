"""Closing of a process: the kernel refuses all network traffic, for Python, code in C and children. No privileges are
needed.

On Linux, a seccomp filter refuses ``socket()`` of every family but AF_UNIX, datagram sockets of that family,
``io_uring_setup``, and the calls of other ABIs (x86-64 and aarch64). For each such socket, and for each ``connect()``
and ``bind()`` of a UNIX socket, the kernel asks a supervisor process. It lets a process connect only to sockets that
this process or its children have bound, and to the machine's user database. Thereby attempts of native code are known
(:func:`report_native_connections`). If the kernel cannot ask, the filter alone refuses, but for UNIX sockets, from
which only Python is kept then (:mod:`watch`). On macOS, a profile of ``sandbox-exec`` is used, which was never tested.
The closing cannot be undone. Open sockets stay open.
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

from .wire import Watcher, traffic_watcher

_ARCHITECTURES = {"x86_64": (0xC000003E, 41, 42, 49, 317), "aarch64": (0xC00000B7, 198, 203, 200, 277)}
"""Machine → its architecture in the kernel's encoding, numbers of ``socket``, ``connect``, ``bind`` and ``seccomp``."""
_IO_URING_SETUP = 425
_X32 = 0x40000000
"""Bit that marks calls of the x32 ABI."""
_ALLOW, _ASK, _REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000 | errno.EACCES
_NO_NEW_PRIVILEGES, _DEATH_SIGNAL, _READABLE_BY = 38, 1, 0x59616D61
_ALL_THREADS, _LISTENER, _NO_THREAD_NUMBER = 1, 8, 16
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_KILL = 9
_PROFILE = b"""(version 1) (allow default) (deny network*)
(allow network* (local unix-socket)) (allow network* (remote unix-socket))
(deny network-outbound (literal "/private/var/run/mDNSResponder"))"""

_counters = mmap.mmap(-1, mmap.PAGESIZE) if hasattr(os, "fork") else None
"""Counters shared by this process, its forks and the supervisor: requested sockets with the target of the
last one or its thread's name, then the sockets that Python requested.
"""
_COUNT, _PYTHON_COUNT = struct.Struct("=Q128s"), struct.Struct("=Q")
_PYTHON_OFFSET = 256
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_USER_DATABASE = (b"/run/systemd/userdb/", b"/var/lib/sss/pipes/")
_NAME_SERVICES = (b"/var/run/nscd/", b"/run/nscd/", b"/run/systemd/resolve/")
"""Services that the C library asks by itself: the first ones are answered; a look-up of a host's name is refused."""


def close() -> bool:
    """Refuse all network traffic of this process and its children. Return True if the refusal works.

    Must be called while this is the only thread.
    """
    with contextlib.suppress(OSError, AttributeError):
        if sys.platform.startswith("linux") and struct.calcsize("P") == 8:
            _filter(*_ARCHITECTURES.get(platform.machine(), (0, 0, 0, 0, 0)))
        elif sys.platform == "darwin":
            system, fault = ctypes.CDLL("/usr/lib/libSystem.dylib"), ctypes.c_char_p()
            system.sandbox_init(_PROFILE, ctypes.c_uint64(0), ctypes.byref(fault))
    holds = _is_refused()
    if _counters is not None:
        _counters[: _COUNT.size] = bytes(_COUNT.size)  # reset: the check above was counted
    if holds:
        _seal()
    return holds


is_sealed = False
"""True if the kernel refuses the traffic of this process."""


def _seal() -> None:
    global is_sealed
    is_sealed = True
    sys.addaudithook(_audit)


@contextlib.contextmanager
def report_native_connections(watcher: Watcher) -> Iterator[None]:
    """Report connections that no audit hook of Python sees to an attempt, which must be the only running one.

    These are connections requested by native code or by a child.

    Raises:
        Unsent: such a connection was requested.
    """
    before = _native()[0]
    try:
        yield
    finally:
        count, name = _native()
        if count > before:
            is_unix = name.startswith("the socket ")
            watcher.unseen(f"a {'' if is_unix else 'network '}connection, by native code or a child ({name})")


def follow(count: Callable[[], None]) -> None:
    """Initialize a program that a closed process has started.

    `count` reports each socket of Python in this program to that process, which would otherwise attribute it to native
    code.
    """
    global _count
    _count = count
    _seal()
    with contextlib.suppress(OSError, AttributeError):  # not Linux
        _let_supervisor_read()


def count_of_python() -> None:
    """Count a socket that Python requests."""
    if _counters is not None:
        _PYTHON_COUNT.pack_into(_counters, _PYTHON_OFFSET, _PYTHON_COUNT.unpack_from(_counters, _PYTHON_OFFSET)[0] + 1)


_count = count_of_python


def _native() -> tuple[int, str]:
    """Return how many connections were requested since closing, without Python's, and the last one's target or thread.

    The count is 0 if the kernel does not report it.
    """
    if _counters is None:
        return 0, ""
    count, name = _COUNT.unpack_from(_counters)
    return count - _PYTHON_COUNT.unpack_from(_counters, _PYTHON_OFFSET)[0], name.rstrip(b"\0").decode(
        "utf-8", "replace"
    )


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    """Report a connection that Python requests, by host name. The connection is refused, so no other event reports
    it.
    """
    if event == "socket.getaddrinfo":
        host, port = arguments[:2]
        purpose = (
            f"a connection to {host.decode() if isinstance(host, bytes) else host}:{port}" if host and port else ""
        )
    elif event == "socket.__new__" and arguments[1] in _INTERNET:
        _count()
        purpose = _socket_purpose(sys._getframe(1))
    else:
        return
    if purpose and (watcher := traffic_watcher()) is not None:
        watcher.unseen(purpose)


_PROBING_FUNCTIONS = frozenset({"_filter_supported"})
"""Functions that create a socket only to probe its features, and never connect it: langchain_openai's, for each new
model.
"""


def _socket_purpose(frame: FrameType | None) -> str:
    """Return the purpose of a new socket. Empty if an imported module, or a client, only probes this machine's
    features.
    """
    purpose = "a connection by a socket of its own"
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib") or frame.f_code.co_name in _PROBING_FUNCTIONS:
            return ""
        if frame.f_code.co_name == "_connect_sock" and "addr_info" in frame.f_locals:  # a frame of asyncio
            host, port = frame.f_locals["addr_info"][4][:2]
            purpose = f"a connection to {host}:{port}"
        frame = frame.f_back
    return purpose


def _is_refused() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            return probe.connect_ex(("127.0.0.1", 9)) in (errno.EACCES, errno.EPERM)
    except PermissionError:
        return True


def _filter(architecture: int, socket_call: int, connect_call: int, bind_call: int, seccomp_call: int) -> None:
    if not architecture:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return
    for default_action, unix_action, flags in (
        (_ASK, _ASK, _LISTENER | _ALL_THREADS | _NO_THREAD_NUMBER),
        (_REFUSE, _ALLOW, _ALL_THREADS),
    ):
        program = _program(architecture, (socket_call, connect_call, bind_call), default_action, unix_action)
        code = ctypes.create_string_buffer(program)
        filter_program = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        listener = libc.syscall(seccomp_call, 1, flags, filter_program)
        if listener >= 0:
            if default_action == _ASK:
                _supervise(libc, listener, socket_call, bind_call)
            return


def _let_supervisor_read() -> None:
    """Let the supervisor read addresses in this process's memory, which some machines allow a parent alone."""
    ctypes.CDLL(None).prctl(_READABLE_BY, ctypes.c_ulong(-1), 0, 0, 0)


def _program(architecture: int, calls: tuple[int, int, int], default_action: int, unix_action: int) -> bytes:
    """Return the filter program: the action for a call, by its architecture, number and first two arguments."""
    socket_call, connect_call, bind_call = calls
    load, equal, at_least, mask, leave = 0x20, 0x15, 0x35, 0x54, 0x06
    steps = (
        (load, 0, 0, 4),
        (equal, 0, 11, architecture),  # another architecture: refuse
        (load, 0, 0, 0),
        (at_least, 9, 0, _X32),  # x32 ABI: refuse
        (equal, 8, 0, _IO_URING_SETUP),
        (equal, 9, 0, connect_call),
        (equal, 8, 0, bind_call),
        (equal, 0, 8, socket_call),  # not `socket`: allow
        (load, 0, 0, 16),
        (equal, 0, 4, socket.AF_UNIX),
        (load, 0, 0, 24),
        (mask, 0, 0, 0xF),
        (equal, 1, 3, socket.SOCK_DGRAM),  # each message of such a socket may go somewhere else
        (leave, 0, 0, _REFUSE),
        (leave, 0, 0, default_action),
        (leave, 0, 0, unix_action),
        (leave, 0, 0, _ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _supervise(libc: ctypes.CDLL, listener: int, socket_call: int, bind_call: int) -> None:
    """Start the supervisor process, which refuses sockets and counts them. It ends with this process."""
    parent = os.getpid()
    if os.fork():
        os.close(listener)
        _let_supervisor_read()
        os.register_at_fork(after_in_child=_let_supervisor_read)
        return
    try:
        libc.prctl(_DEATH_SIGNAL, _KILL, 0, 0, 0)
        devnull = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(devnull, number)
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            if int(name) not in (0, 1, 2, listener):  # do not keep the parent's sockets and pipes open
                with contextlib.suppress(OSError):
                    os.close(int(name))
        own_sockets: set[bytes] = set()
        while os.getppid() == parent:
            _answer_next(listener, socket_call, bind_call, own_sockets)
    finally:
        os._exit(0)


def _answer_next(listener: int, socket_call: int, bind_call: int, own_sockets: set[bytes]) -> None:
    """Answer the next call about which the kernel asks. Names that the closed processes bind are added to
    `own_sockets`.
    """
    import fcntl

    notification = bytearray(80)
    with contextlib.suppress(OSError):  # the requesting thread is gone
        fcntl.ioctl(listener, _RECEIVE, notification)
        number, thread, _, call = struct.unpack_from("=QIIi", notification)
        first, address, length = struct.unpack_from("=QQQ", notification, 32)
        is_allowed, target = False, b""
        if call != socket_call:
            name = _unix_name(thread, address, length)
            if name is not None and call == bind_call:
                own_sockets.add(name)
            is_allowed = name is not None and (not name or name in own_sockets or name.startswith(_USER_DATABASE))
            if name and not is_allowed and not name.startswith(_NAME_SERVICES):
                target = b"the socket " + name.replace(b"\0", b"@")
        elif first & 0xFFFFFFFF in _INTERNET:
            with contextlib.suppress(OSError), open(f"/proc/{thread}/comm", "rb") as file:  # noqa: PTH123
                target = file.read(16).rstrip(b"\n")
        if _counters is not None and target:
            _COUNT.pack_into(_counters, 0, _COUNT.unpack_from(_counters)[0] + 1, target)
        if is_allowed:
            with contextlib.suppress(OSError):  # a kernel that cannot continue a call: refused below
                fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, 0, _CONTINUE))
                return
        fcntl.ioctl(listener, _SEND, struct.pack("=QqiI", number, 0, -errno.EACCES, 0))


def _unix_name(thread: int, address: int, length: int) -> bytes | None:
    """Return the name of a UNIX socket that a call was given. Empty for other addresses; ``None`` if not readable."""
    try:
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            raw = memory.read(min(length, 110))
        if len(raw) < 3 or struct.unpack_from("=H", raw)[0] != socket.AF_UNIX:
            return b""
        if raw[2] == 0:  # a name that is no path
            return raw[2:]
        name = raw[2:].partition(b"\0")[0]
        folder = b"" if name.startswith(b"/") else os.fsencode(os.readlink(f"/proc/{thread}/cwd")) + b"/"  # noqa: PTH115
        return folder + name
    except (OSError, OverflowError, ValueError):
        return None
