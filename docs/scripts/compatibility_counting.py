"""Servers that count what they are asked, each in a process of its own; and what listens where one of them was."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

from compatibility_seed import LIMIT, ROOT


class Server:
    """A model server in a process of its own, which can be ended and begun again at the same port."""

    model = "gpt-4o-mini"
    """The name that is asked for."""
    latency = 0.0

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def command(self) -> list[str | Path]:
        """What starts it."""
        raise NotImplementedError

    def answered(self) -> int:
        """Requests that it has answered whole."""
        raise NotImplementedError

    def start(self) -> None:
        """Listen, at the same port as before."""
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            self.command(), cwd=ROOT, stdout=self.log(), stderr=nowhere, env=environment(), start_new_session=True
        )
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{type(self).__name__} does not listen (exit code {self._process.poll()})")

    def log(self) -> int | IO[bytes]:
        """Where what it prints goes."""
        return subprocess.DEVNULL

    def stop(self) -> None:
        """End it, with what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def settled(self) -> int:
        """Requests answered, once nothing is in hand any more."""
        before = -1
        while before != (now := self.answered()):
            before = now
            time.sleep(self.latency + 0.3)
        return now

    def tokens(self) -> dict[str, int] | None:
        """What it counts itself; ``None``: it does not tell."""
        return None

    def touched(self) -> int:
        """Requests of any kind that it has heard, searches among them."""
        return self.answered()


class AgentServer(Server):
    """`tests.servers.agent_server`: ours, scripted."""

    def __init__(self, python: Path, latency: float = 0.0) -> None:
        super().__init__()
        self._python, self.latency = python, latency

    def command(self) -> list[str | Path]:
        """What starts it."""
        words = ["-m", "tests.servers.agent_server", "--port", str(self.port), "--latency", str(self.latency)]
        return [self._python, *words]

    def stats(self) -> dict[str, object]:
        """What it was asked and answered."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}/stats", timeout=10) as answer:
            return dict(json.load(answer))

    def answered(self) -> int:
        """Requests to a model that it has answered whole."""
        paths = self.stats()["paths"]
        assert isinstance(paths, dict)
        return sum(count for path, count in paths.items() if not path.endswith("search"))

    def touched(self) -> int:
        """Requests that came, searches among them."""
        return int(str(self.stats()["asked"]))

    def tokens(self) -> dict[str, int]:
        """Tokens in and out, and of texts for vectors."""
        counted = self.stats()["tokens"]
        assert isinstance(counted, dict)
        return counted


class GrpcServer(AgentServer):
    """The same with gRPC before it, which runs under the Python of what calls it."""

    def __init__(self, python: Path, theirs: Path, latency: float = 0.0) -> None:
        super().__init__(python, latency)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.front: int = free.getsockname()[1]
        self._theirs = theirs

    def command(self) -> list[str | Path]:
        """What starts both, in one group of processes."""
        words = '"$1" "$2" "$3" "$4" & shift 4; exec "$@"'
        front = [self._theirs, ROOT / "tests" / "servers" / "grpc_front.py", str(self.front), str(self.port)]
        return ["sh", "-c", words, "sh", *front, *super().command()]


@contextlib.contextmanager
def trap(port: int) -> Iterator[list[str]]:
    """Listen where the server was, answer nothing, and keep who came."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.settimeout(0.2)
        over = threading.Event()

        def _listen() -> None:
            while not over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, peer = listening.accept()
                    came.append(str(peer))
                    connection.close()

        thread = threading.Thread(target=_listen, daemon=True)
        thread.start()
        try:
            yield came
        finally:
            over.set()
            thread.join()


def environment() -> dict[str, str]:
    """This process's variables, but for proxies: everything here is on loopback."""
    proxies = {"http_proxy", "https_proxy", "all_proxy"}
    return {key: value for key, value in os.environ.items() if key.lower() not in proxies} | {"NO_PROXY": "127.0.0.1"}
