"""A process that was closed: nothing leaves it, whoever asks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

RECORDER = Path(__file__).parents[2] / "ragrounds" / "recorder"
LOADS = f"""
import sys
from importlib import util
made = util.spec_from_file_location("the", "{RECORDER}/__init__.py", submodule_search_locations=["{RECORDER}"])
sys.modules["the"] = util.module_from_spec(made)
from the import closed
"""
ASKS = """
import asyncio, ctypes, errno, json, os, platform, socket, subprocess, threading
from the.wire import WATCHER, Unsent
class Told:
    said = []
    def unseen(self, what, *, counted=False):
        self.said.append(what)
        raise Unsent(what)
holds = closed.close()
if not holds:
    print(json.dumps(None)); sys.exit()
libc = ctypes.CDLL(None, use_errno=True)
def native(family=socket.AF_INET, kind=socket.SOCK_STREAM):
    number = libc.socket(int(family), int(kind), 0)
    return "open" if number >= 0 else errno.errorcode[ctypes.get_errno()]
def python(family=socket.AF_INET):
    try:
        socket.socket(family).close()
        return "open"
    except OSError as error:
        return errno.errorcode[error.errno]
said = {"before": closed._native()[0], "python": python(), "python 6": python(socket.AF_INET6)}
said["native"] = native()
said["native udp"] = native(kind=socket.SOCK_DGRAM)
said["netlink"] = native(16, socket.SOCK_RAW)
results = []
thread = threading.Thread(target=lambda: results.append(native())); thread.start(); thread.join()
said["thread"] = results[0]
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, native().encode()); os._exit(0)
said["forked"] = os.read(reading, 20).decode()
code = "import socket\\ntry:\\n socket.socket(); print('open')\\nexcept OSError as error: print(error.errno)"
said["child"] = errno.errorcode[int(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)]
libc.syscall(425, 4, 0)
said["io_uring"] = errno.errorcode[ctypes.get_errno()]
if platform.machine() == "x86_64":
    libc.syscall(0x40000000 | 41, 2, 1, 0)
    said["x32"] = errno.errorcode[ctypes.get_errno()]
said["heard"] = closed._native()[0]
a, b = socket.socketpair()
a.send(b"x")
said["unix"], said["unix too"] = b.recv(1).decode(), python(socket.AF_UNIX)
said["loop"] = asyncio.run(asyncio.sleep(0, "runs"))
WATCHER.set(Told())
async def connects(host, port):
    await asyncio.open_connection(host, port)
for asked in (
    lambda: socket.create_connection(("db.example", 5432)),
    lambda: asyncio.run(connects("127.0.0.1", 7687)),
    lambda: socket.socket().connect(("127.0.0.1", 6379)),
):
    try:
        asked()
    except Unsent:
        pass
try:
    with closed.report_native_connections(Told()):
        native()
        raise OSError("what the system makes of it")
except Unsent:
    pass
with closed.report_native_connections(Told()):
    pass
print(json.dumps([said, Told.said]))
"""


def test_no_socket_is_opened_by_python_by_c_and_by_children() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADS + ASKS], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    if (found := json.loads(ran.stdout)) is None:
        pytest.skip("this system refuses a filter of system calls")
    said, told = found
    asks = said.pop("heard")  # of C in two ways, of a thread, a fork and another program; none by this Python
    assert asks in (0, 5)  # 0: a kernel that does not ask
    assert told[:3] == [
        "a connection to db.example:5432",
        "a connection to 127.0.0.1:7687",
        "a connection by a socket of its own",
    ]
    assert [what.partition(" (")[0] for what in told[3:]] == ["a network connection, by native code or a child"][:asks]
    assert (said.pop("unix"), said.pop("unix too"), said.pop("loop")) == ("x", "open", "runs")
    assert said.pop("before") == 0
    assert set(said.values()) == {"EACCES"}, said


REFUSES = f"""#!{sys.executable}
import ctypes, os, platform, struct, sys
seccomp = {{"x86_64": 317, "aarch64": 277}}[platform.machine()]
libc = ctypes.CDLL(None)
# Load the number of the call; where it is seccomp's, refuse it with EPERM (1), else allow it.
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, seccomp), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, struct.pack("@HP", len(steps), ctypes.addressof(program)))
os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
"""
"""Python where the kernel refuses filters of system calls, as it does in some containers."""


def python_that_cannot_be_closed(folder: Path) -> str:
    """Write an interpreter into a folder whose processes cannot be closed."""
    if not sys.platform.startswith("linux") or os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("needs Linux' filters of system calls")
    path = folder / "python"
    path.write_text(REFUSES)
    path.chmod(0o755)
    return str(path)


def test_a_process_whose_filter_is_refused_is_not_closed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        code = f"import socket\nprint(closed.close())\nsocket.create_connection({listening.getsockname()!r})"
        command = [python_that_cannot_be_closed(tmp_path), "-c", LOADS + code]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("False\n", "")
