"""What leaves in a replay: Python, native code, forks and programs, counted by the server, and by the kernel (strace).

python perf/closed.py [--python PATH] [--only NAMES] [--write]

Each system asks a server on loopback. It is run once, then replayed as a new run under strace. Counted are requests and
connections at the server, and the sockets of the internet and the connections to such addresses that the kernel gave.
`--python` is an interpreter that has ragrounds, curl_cffi and grpcio; what is not installed is left out. `--write`
keeps the table in perf/closed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LONGEST = 200
"""Seconds of a command."""
HERE = Path(__file__).resolve().parent
PAGE = HERE / "closed.md"
SYSTEMS = {
    "recorded": "httpx, which is recorded",
    "forked_recorded": "a fork with httpx, which is recorded",
    "lookup": "urllib",
    "asynchronous": "a socket of asyncio's, its failure hidden",
    "curl": "curl_cffi (C)",
    "curl_hidden": "curl_cffi (C), its failure hidden",
    "grpc_hidden": "grpcio (C++), its failure hidden",
    "native": "ctypes, socket() and connect() of libc, its failure hidden",
    "forked": "a fork that calls libc, its failure hidden",
    "program": "the program curl, its failure hidden",
    "pool": "a pool of processes with http.client, its failure hidden",
    "unix": "a UNIX socket, its failure hidden",
    "unix_native": "a UNIX socket by libc's connect(), its failure hidden",
    "unix_forked": "a fork that connects a UNIX socket by libc, its failure hidden",
    "udp": "a message by UDP, its failure hidden",
}
NEEDS = {"curl": "curl_cffi", "curl_hidden": "curl_cffi", "grpc_hidden": "grpc"}
WAYS = '''
import os

PORT = {port}
URL = f"http://127.0.0.1:{{PORT}}/v1/chat/completions"
BODY = {{"model": "gpt", "messages": [{{"role": "user", "content": "Answer."}}]}}


def hidden(ask):
    """A system that goes on without what it did not get."""

    def answer(question):
        try:
            return ask(question)
        except Exception:
            return "A"

    return answer


def recorded(question):
    import httpx

    return httpx.post(URL, json=BODY).json()["choices"][0]["message"]["content"]


def forked_recorded(question):
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.write(writing, recorded(question).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    return os.read(reading, 100).decode()


def lookup(question):
    import urllib.request

    return urllib.request.urlopen(f"http://127.0.0.1:{{PORT}}/", timeout=5).read().decode()


def curl(question):
    from curl_cffi import requests

    return requests.post(URL, json=BODY, timeout=5).json()["choices"][0]["message"]["content"]


curl_hidden = hidden(curl)


def native_connect():
    import ctypes
    import socket
    import struct

    libc = ctypes.CDLL(None)
    made = libc.socket(int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
    libc.connect(made, struct.pack("=H", 2) + struct.pack("!HI", PORT, 0x7F000001) + bytes(8), 16)
    os.close(made)


@hidden
def native(question):
    native_connect()
    return "A"


def in_a_fork(connect):
    if not (child := os.fork()):
        try:
            connect()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return "A"


@hidden
def forked(question):
    return in_a_fork(native_connect)


@hidden
def program(question):
    import subprocess

    subprocess.run(["curl", "-s", "-m", "5", f"http://127.0.0.1:{{PORT}}/"], check=True, capture_output=True)
    return "A"


def get(_):
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
    line.request("GET", "/")
    return line.getresponse().read().decode()


@hidden
def pool(question):
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(1) as workers:
        return workers.map_async(get, [1]).get(20)[0]


@hidden
def grpc_hidden(question):
    import grpc

    with grpc.insecure_channel(f"127.0.0.1:{{PORT}}") as channel:
        grpc.channel_ready_future(channel).result(timeout=1)
    return "A"


def unix_connect():
    import ctypes
    import socket
    import struct

    end = socket.socket(socket.AF_UNIX)
    ctypes.CDLL(None).connect(end.fileno(), struct.pack("=H", 1) + b"{path}" + bytes(1), 3 + len("{path}"))


@hidden
def unix(question):
    import socket

    with socket.socket(socket.AF_UNIX) as end:
        end.connect("{path}")
    return "A"


@hidden
def unix_native(question):
    unix_connect()
    return "A"


@hidden
def unix_forked(question):
    return in_a_fork(unix_connect)


@hidden
def udp(question):
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.sendto(b"x", ("127.0.0.1", PORT))
    return "A"


async def asynchronous(question):
    import asyncio

    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        writer.close()
    except Exception:
        pass
    return "A"
'''
_CONNECTED = re.compile(
    r"connect\(\d+, \{sa_family=AF_INET6?,.*= (?:0|-1 EINPROGRESS)|connect\(.*AF_INET6? <unfinished"
)
_SOCKET = re.compile(r"socket\(AF_INET6?,.*= \d+$")


class Server(ThreadingHTTPServer):
    """Counts connections and requests."""

    connections = requests = 0

    def get_request(self) -> tuple[object, object]:  # type: ignore[override]
        """Count a connection."""
        self.connections += 1
        return super().get_request()

    def count_local(self, listening: socket.socket, udp: socket.socket) -> None:
        """Count connections of a UNIX socket and messages by UDP."""

        def count(receive: Callable[[], object]) -> None:
            while True:
                receive()
                self.connections += 1

        for receive in (listening.accept, lambda: udp.recvfrom(1)):
            threading.Thread(target=count, args=(receive,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Say nothing of clients that go away."""


class Handler(BaseHTTPRequestHandler):
    """Answers alike whatever it is asked."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """One letter."""
        self._give(b"A")

    def do_POST(self) -> None:
        """A chat completion."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        message = {"role": "assistant", "content": "A"}
        usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._give(json.dumps({"id": "1", "model": "gpt", "choices": [choice], "usage": usage}).encode())

    def _give(self, body: bytes) -> None:
        assert isinstance(self.server, Server)
        self.server.requests += 1
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = ["| system | run: requests (connections) | replay: the same | strace: sockets, connects | exit | said |"]
    rows.append("|---|---|---|---|---|---|")
    chosen = given.only.split(",") if given.only else list(SYSTEMS)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        listening, udp = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        listening.bind(path)
        listening.listen()
        udp.bind(("127.0.0.1", server.server_port))
        server.count_local(listening, udp)
        (Path(folder) / "ways.py").write_text(WAYS.format(port=server.server_port, path=path))
        for name in chosen:
            if (
                name in NEEDS
                and subprocess.run([given.python, "-c", f"import {NEEDS[name]}"], capture_output=True).returncode
            ):
                continue
            rows.append(_row(name, given.python, Path(folder), server))
            print(rows[-1], flush=True)
    if given.write:
        about = (
            f"{datetime.now(UTC):%Y-%m-%d}, `python perf/closed.py`: two questions of the sample, run, and then "
            "replayed as a new run under strace. Sockets and connects are those of the internet (AF_INET, AF_INET6) "
            "that the kernel gave to the command and all its children; the one socket is of ragrounds' own process, "
            "which connects it nowhere. Connections of a UNIX socket and messages by UDP count as connections. One "
            "request of a recorded system is for the server's list of models. What is said is cut after "
            "250 characters.\n\n"
        )
        PAGE.write_text("# What leaves in a replay\n\n" + about + "\n".join(rows) + "\n")


def _row(name: str, python: str, folder: Path, server: Server) -> str:
    home = folder / f"home-{name}"
    command = [python, "-m", "ragrounds", "run", "--agent", f"./ways.py:{name}", "--limit", "2", "--display", "none"]
    environment = {**os.environ, "RAGROUNDS_HOME": str(home)}
    counts = []
    trace = folder / f"trace-{name}"
    watched = [shutil.which("strace") or "", "-f", "-e", "trace=socket,connect", "-o", str(trace)]
    for extra, before in (
        (["--journal", "reuse"], []),
        (["--journal", "replay", "--new"], watched if watched[0] else []),
    ):
        server.connections = server.requests = 0
        ended = _ended([*before, *command, *extra], folder, environment)
        counts.append(f"{server.requests} ({server.connections})")
    lines = trace.read_text().splitlines() if trace.exists() else []
    sockets = sum(bool(_SOCKET.search(line)) for line in lines)
    connects = sum(bool(_CONNECTED.search(line)) for line in lines)
    said = next((one for one in ended[1].splitlines() if "replay" in one.lower()), "")
    said = " ".join(said.split()).replace("|", "\\|")
    said = said[:249] + "…" if len(said) > 250 else said
    by_strace = f"{sockets}, {connects}" if lines else "no strace"
    return f"| {SYSTEMS[name]} | {counts[0]} | {counts[1]} | {by_strace} | {ended[0]} | {said} |"


def _ended(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Run a command: its exit code, and what it said on standard error."""
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        try:
            code = str(process.wait(LONGEST))
        except subprocess.TimeoutExpired:
            code = f"hangs ({LONGEST} s)"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return code, said.read()


if __name__ == "__main__":
    main()
