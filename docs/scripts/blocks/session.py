"""A page's terminal: commands with what `cd` and `export` leave behind, Python cells, servers and screens."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

COLUMNS, LINES = 120, 40
_AFTER = 'code=$?; env -0 > "$BLOCKS_ENV"; pwd > "$BLOCKS_PWD"; exit $code'
_STARTED = {"BLOCKS_STARTED": "1"}
"""It is a process of its own, even where others are forked from one (:mod:`blocks.preloaded`)."""
_QUIET = 1.5
"""Seconds without a byte after which a screen is drawn."""
_DRAWN = 15.0
"""Seconds after which it is taken as drawn, also where it never is quiet."""


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    talk: str = ""
    """Standard error."""

    @property
    def told(self) -> str:
        """All that was printed."""
        return self.talk + self.out


class Terminal:
    """Commands typed one after another."""

    def __init__(self, folder: Path, environment: dict[str, str], scratch: Path) -> None:
        self.folder, self.environment = folder, environment
        self._scratch = scratch
        self._groups: list[int] = []
        self._servers: list[subprocess.Popen[bytes]] = []
        self._cells: subprocess.Popen[str] | None = None

    def run(self, command: str, seconds: float, extra: Mapping[str, str] = MappingProxyType({})) -> Ended:
        """Run a command; it is ended, with all that it started, where it takes longer."""
        files = [self._scratch / name for name in ("out", "talk")]
        kept = {"BLOCKS_ENV": str(self._scratch / "env"), "BLOCKS_PWD": str(self._scratch / "pwd")}
        # What it prints goes to a file: a process left in the background must not be waited for.
        script = f"trap '{_AFTER}' EXIT\nset -o pipefail\n{command}\n"
        with files[0].open("wb") as output, files[1].open("wb") as talk:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.folder,
                env={**self.environment, **kept, **extra},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=talk,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                _end_group(process.pid)
                process.wait()
                code = 124
        self._remember(name for name in extra if f"{name}=" not in command)
        printed, told = (one.read_text(encoding="utf-8", errors="replace") for one in files)
        return Ended(code, printed, told + (f"\nstopped after {seconds:.0f} s\n" if code == 124 else ""))

    def _remember(self, forgotten: Iterable[str]) -> None:
        kept = self._scratch / "env"
        if kept.exists():
            pairs = kept.read_text(encoding="utf-8", errors="surrogateescape").split("\0")
            left = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            for name in ("BLOCKS_ENV", "BLOCKS_PWD", "SHLVL", "_", "OLDPWD", *forgotten):
                left.pop(name, None)
            self.environment = left
            self.folder = Path((self._scratch / "pwd").read_text(encoding="utf-8").strip())
            kept.unlink()

    def python(self, cell: Mapping[str, object], seconds: float) -> Ended:
        """Run a Python block in the page's process: what `cells.py` takes, but for the file."""
        if self._cells is None:
            self._cells = subprocess.Popen(
                [sys.executable, "-u", str(Path(__file__).with_name("cells.py"))],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            self._groups.append(self._cells.pid)
        stdin, stdout = self._cells.stdin, self._cells.stdout
        assert stdin
        assert stdout
        out = self._scratch / "cell"
        asked = {**cell, "out": str(out)}
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(asked) + "\n")
            stdin.flush()
        poll = select.poll()  # select.select() knows no descriptor above 1,023
        poll.register(stdout, select.POLLIN)
        answer = stdout.readline() if poll.poll(1000 * seconds) else ""
        printed = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
        if not answer:
            _end_group(self._cells.pid)
            self._cells = None
            printed += f"\nthe process ended, or took longer than {seconds:.0f} s\n"
        return Ended(0 if answer == "true\n" else 1, printed)

    def serve(self, command: str, says: str, seconds: float) -> Ended:
        """Start a server and wait for the line that says that it listens; it lives until the page's end."""
        began = time.monotonic()
        out = self._scratch / f"server{len(self._servers)}"
        with out.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment | _STARTED,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._servers.append(process)
        while time.monotonic() < began + seconds:
            printed = out.read_text(encoding="utf-8", errors="replace")
            if says in printed:
                return Ended(0, printed)
            if process.poll() is not None:
                break
            time.sleep(0.1)
        printed = out.read_text(encoding="utf-8", errors="replace")
        return Ended(process.poll() or 1, printed)

    def screen(self, command: str, keys: str, seconds: float) -> Ended:
        """Run a full-screen command in a terminal, and leave it by its keys once it is drawn."""
        began = time.monotonic()
        terminal, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment | _STARTED | {"TERM": "xterm-256color"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(side)
        poll = select.poll()
        poll.register(terminal, select.POLLIN)
        printed, typed, heard, drawn = b"", False, time.monotonic(), time.monotonic()
        while process.poll() is None and time.monotonic() < began + seconds:
            if poll.poll(100):
                try:
                    printed += os.read(terminal, 65536)
                except OSError:  # Linux: its other side is closed
                    break
                heard = time.monotonic()
            # A screen that draws itself anew every second is never quiet, and is drawn after a while all the same.
            if printed and (time.monotonic() > heard + _QUIET or time.monotonic() > drawn + _DRAWN):
                os.write(terminal, keys.encode())
                typed, heard, drawn = True, time.monotonic(), time.monotonic()  # again, where it was not yet read
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        _end_group(process.pid)
        code = process.wait()
        os.close(terminal)
        return Ended(code if typed or code else 1, printed.decode("utf-8", "replace"))

    def close(self) -> list[str]:
        """End what still runs. Servers are interrupted as by Ctrl-C; says which of them do not end by that."""
        left = []
        for server in self._servers:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGINT)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                left.append(f"{server.args} does not end by Ctrl-C")
                _end_group(server.pid)
        for group in self._groups:
            _end_group(group)
        return left


def _end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
