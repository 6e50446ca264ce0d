"""A process that was closed: nothing leaves it, whoever asks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RECORDER = Path(__file__).parents[2] / "ragrounds" / "recorder"
ASKS = """
import asyncio, ctypes, errno, json, os, platform, socket, subprocess, sys, threading
sys.path.insert(0, {folder!r})
import closed
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
said = {{"before": closed.tried()[0], "python": python(), "python 6": python(socket.AF_INET6)}}
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
said["tried"] = closed.tried()[0]
a, b = socket.socketpair()
a.send(b"x")
said["unix"], said["unix too"] = b.recv(1).decode(), python(socket.AF_UNIX)
said["loop"] = asyncio.run(asyncio.sleep(0, "runs"))
print(json.dumps(said))
"""


def test_no_socket_is_opened_by_python_by_c_and_by_children() -> None:
    code = ASKS.format(folder=str(RECORDER))
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    if said is None:
        pytest.skip("this system refuses a filter of system calls")
    assert (said.pop("unix"), said.pop("unix too"), said.pop("loop")) == ("x", "open", "runs")
    assert said.pop("before") == 0
    assert said.pop("tried") in (0, 7)  # 0: a kernel that does not ask
    assert set(said.values()) == {"EACCES"}, said
