"""Model server that this process starts, waits for, and stops.

It runs under `ragrounds.models.supervisor`, which stops it when this process ends in any way. Its log is in
``RAGROUNDS_HOME/logs``.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ragrounds.base.errors import StopRun
from ragrounds.base.http import REPLY
from ragrounds.models import supervisor
from ragrounds.recorder.redaction import redacted


def environment() -> Iterator[tuple[str, str]]:
    """Yield this process's environment without providers' keys, which a local server does not need."""
    for name, value in os.environ.items():
        if not name.endswith("_API_KEY") or name.startswith("VLLM_"):
            yield name, value
    # By default vLLM sends usage statistics to its developers.
    yield from (("VLLM_NO_USAGE_STATS", "1"), ("DO_NOT_TRACK", "1"))


def free_port() -> int:
    """Return a port of the loopback interface that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def answer_of(port: int, path: str) -> bytes | None:
    """Return the body of an answer to a GET of a server on this machine; ``None`` if it did not answer with success."""
    key = os.environ.get("VLLM_API_KEY")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        answer = connection.getresponse()
        return answer.read(REPLY.size) if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


Tell = Callable[[str], None]
_EVERY = 10.0
"""Seconds between lines of progress while a server loads its model."""
_TAIL = 6
"""Lines of the log that are shown when a server ends."""


class ServeCommand(Struct, frozen=True):
    """Model to serve, with arguments. Equal commands share one server."""

    model: str
    """Name under which the server lists the model."""
    arguments: tuple[str, ...]
    """Further arguments of the server's program."""
    start_timeout: float
    """Seconds until it must be ready."""

    software: ClassVar[str]
    """Name of the server's program in messages."""

    def line(self, port: int) -> list[str]:
        """Return the program and all its arguments, to serve on a port of the loopback interface.

        Raises:
            UserError: the program or the weights are not installed.
        """
        raise NotImplementedError


class StartedServer:
    """Server of one command. Its methods may be called from any thread."""

    def __init__(self, command: ServeCommand, home: Path, tell: Tell) -> None:
        self.command = command
        self._tell = tell
        self._starting = threading.Lock()
        self._closing = threading.Event()
        self._running: subprocess.Popen[bytes] | None = None
        self._listeners: list[Callable[[], None]] = []
        model = "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in command.model)[-60:]
        program = command.software.lower()
        self._log = home / "logs" / f"{program}-{model}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        self._port = 0
        self._ready = False

    @property
    def url(self) -> str:
        """Address of the server, once it has been started."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def died(self) -> bool:
        """True if the server was ready and has ended by itself."""
        return self._ready and not self._closing.is_set() and self._running is not None and self._has_ended()

    def start(self) -> str:
        """Start the server unless it runs already, and wait until it answers. Return its URL.

        Raises:
            UserError: the server or the weights are not installed.
            StopRun: it ended while it started, or was not ready in time; with the last lines of its log.
        """
        with self._starting:
            if self.died:
                raise self.death()
            if self._ready:
                return self.url
            self._spawn()
            try:
                self._wait()
            except StopRun:
                self._end()
                raise
            self._ready = True
            threading.Thread(target=self._watch, name="ragrounds-server", daemon=True).start()
            return self.url

    def stop(self) -> None:
        """Stop the server, also while it is starting. It can be started again."""
        self._closing.set()
        with self._starting:
            self._end()
            self._ready = False
            self._closing.clear()

    def when_died(self, notify: Callable[[], None]) -> None:
        """Call `notify`, in another thread, when the server ends by itself."""
        self._listeners.append(notify)

    def death(self) -> StopRun:
        """Return the error to raise when the server has ended by itself."""
        code = self._running.poll() if self._running else None
        return StopRun(f"The {self._name} ended {_exit_words(code)}. {self._tail()}")

    @property
    def _name(self) -> str:
        return f"{self.command.software} server of {self.command.model}"

    def _spawn(self) -> None:
        self._port = free_port()
        line = self.command.line(self._port)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            log = self._log.open("ab")
        except OSError as error:
            raise StopRun(f"Cannot write the server's log {self._log}: {error.strerror}.") from error
        with log:
            self._running = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", str(Path(supervisor.__file__)), *line],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=dict(environment()),
                start_new_session=True,  # Ctrl-C in the terminal must not reach it: calls in flight need their server
            )

    def _wait(self) -> None:
        start = last_report = time.monotonic()
        self._tell(f"{self.command.software}: starting {self.command.model} on port {self._port}; its log: {self._log}")
        while True:
            if self._closing.is_set():
                raise StopRun(f"The start of the {self._name} was cancelled.")
            if self._has_ended():
                code = self._running.returncode if self._running else None
                raise StopRun(
                    f"{self.command.software} could not serve {self.command.model}: it ended {_exit_words(code)}. "
                    f"{self._tail()}"
                )
            if self._healthy():
                break
            now = time.monotonic()
            if now - start > self.command.start_timeout:
                raise StopRun(
                    f"The {self._name} was not ready after {self.command.start_timeout:g} s "
                    f"(start_timeout). {self._tail()}"
                )
            if now - last_report >= _EVERY:
                last_report = now
                self._tell(f"{self.command.software}: loading {self.command.model}, {now - start:.0f} s so far")
            self._closing.wait(0.1 if now - start < 5 else 1.0)
        self._tell(f"{self.command.software}: {self.command.model} is ready after {time.monotonic() - start:.0f} s")

    def _healthy(self) -> bool:
        """Return True if ``/health`` answers, and ``/v1/models`` names the model."""
        if answer_of(self._port, "/health") is None:
            return False
        body = answer_of(self._port, "/v1/models")
        try:
            listed = json.loads(body or b"{}").get("data", [])
            return self.command.model in [entry.get("id") for entry in listed]
        except (ValueError, AttributeError):
            return False

    def _has_ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def _watch(self) -> None:
        running = self._running
        if running is not None:
            running.wait()
            if self._ready and not self._closing.is_set():
                for notify in self._listeners:
                    notify()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            with contextlib.suppress(BrokenPipeError):
                running.stdin.close()  # type: ignore[union-attr]
            try:
                running.wait(supervisor.GRACE + 5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()

    def _tail(self) -> str:
        try:
            text = self._log.read_text(encoding="utf-8", errors="replace")[-20_000:]
        except OSError:
            return f"Its log: {self._log}"
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()][-_TAIL:]
        last_lines = redacted(" / ".join(lines), os.environ.get("VLLM_API_KEY", ""), os.environ.get("HF_TOKEN", ""))
        return f"Its last lines: {last_lines[-1500:] or '(none)'} (all of them: {self._log})"


def _exit_words(code: int | None) -> str:
    if code is None:
        return "by itself"
    return f"by signal {code - 128}" if code > 128 else f"with exit code {code}"
