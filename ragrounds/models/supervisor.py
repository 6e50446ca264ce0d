"""Supervisor that runs one command while its standard input is open: ``python supervisor.py COMMAND…``.

The process that starts it holds the other end. When that process ends, for whatever reason (also ``kill -9``), the
system closes that end, and the command is stopped with all processes that it started. The command's output goes to
standard error, and its exit code is returned.

It imports nothing but the standard library, because it is run as a file: it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

GRACE = 10.0
"""Seconds between asking the command to end and killing it."""


def main(command: list[str]) -> int:
    """Run the command, and return its exit code as a shell reports it."""
    try:
        child = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            stderr=sys.stderr,
            start_new_session=True,  # a separate process group, which is ended as a whole
            preexec_fn=_tied_to(os.getpid()),
        )
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return 127
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    code = child.wait()
    _signal(child.pid, signal.SIGKILL)  # processes that it left behind
    return code if code >= 0 else 128 - code


def _watch(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    _signal(child.pid, signal.SIGTERM)
    time.sleep(GRACE)
    _signal(child.pid, signal.SIGKILL)


def _signal(group: int, how: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


def _tied_to(parent: int) -> Callable[[], None]:
    """Return a function that the command runs first, so that on Linux it ends when this process is killed."""
    if not sys.platform.startswith("linux"):
        return lambda: None
    prctl = ctypes.CDLL(None).prctl

    def _tie() -> None:
        prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return _tie


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
