"""Commands at work: waiting until a server has been asked, Ctrl-C, and the same command beside itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import Cli
from tests.servers.process import Running


def until_asked(process: subprocess.Popen[str] | subprocess.Popen[bytes], server: Running, count: int) -> None:
    """Wait until the server has been asked so often; the process must not end before."""
    while server.stats()["asked"] < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def interrupted(
    process: subprocess.Popen[str], times: int, pause: float = 0.1, how: signal.Signals = signal.SIGINT
) -> str:
    """Press Ctrl-C so often, or send another signal; what the command says on stderr until it has ended as one that was
    interrupted."""
    for _ in range(times):
        process.send_signal(how)
        time.sleep(pause)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 128 + how, told
    assert "Traceback" not in told
    return told


def refused_beside_itself(cli: Cli, server: Running, options: Sequence[str], folder: Path) -> None:
    """The same command, four calls at once, while it is at work already: refused in one line, and nothing is asked."""
    first = subprocess.Popen([sys.executable, "-m", "ragrounds", *options], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        until_asked(first, server, 4)
        second = cli(*options)
        asked = server.stats()["asked"]
    finally:
        first.kill()
        first.wait()
    assert second.returncode == 2, second.stderr
    assert f"is being made by process {first.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert asked == 4
