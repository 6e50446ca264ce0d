"""Search engines of the tests' own, as real servers on loopback: Chroma, and PostgreSQL with pgvector."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.servers.process import ENDS_WITH_PARENT


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ChromaServer:
    """A Chroma server that a test may kill and start again on the same port and folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        code = f"{ENDS_WITH_PARENT.format(signal=9)}from chromadb.cli.cli import app; app()"
        command = [sys.executable, "-c", code, "run", "--host", "127.0.0.1"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self._port), "--path", str(self._folder)],
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            assert self._process.poll() is None, "the server ended"
            time.sleep(0.1)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


@contextlib.contextmanager
def chroma(folder: Path) -> Iterator[ChromaServer]:
    """Run a Chroma server until the block ends."""
    server = ChromaServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def pgvector_programs() -> Path | None:
    """The programs of a PostgreSQL with pgvector, as the package `pgserver` brings them; ``None``: it is not here,
    or where its own user cannot reach it."""
    found = importlib.util.find_spec("pgserver")
    if found is None or found.origin is None:
        return None
    programs = Path(found.origin).parent / "pginstall" / "bin"
    if not (programs / "initdb").exists():
        return None
    # Started by root it runs as another user, who has to get there.
    closed = os.geteuid() == 0 and any(not folder.stat().st_mode & 0o001 for folder in programs.parents)
    return None if closed else programs
