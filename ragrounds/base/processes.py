"""Processes identified by id and start time. A process id alone can be reused."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import subprocess
import uuid
from pathlib import Path

from msgspec import Struct

NO_UPLOADS = dict.fromkeys(
    ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING"), "false"
)
"""Variables that stop LangSmith from uploading every trace of this process and its child processes, because nothing may
be sent that was not requested.
"""


class Process(Struct, frozen=True):
    """A process of this machine. `started` is the system's record of its start, which is only compared, never
    interpreted.
    """

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Return True if the same process is still running."""
        return _started(self.pid) == self.started


def process(pid: int) -> Process | None:
    """Return the process with this id, or ``None`` if it does not exist."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


@functools.cache
def this_machine() -> str:
    """Return an identifier of this machine that includes its boot and its name space of process ids.

    A host name is not enough: containers may share it, and it survives a reboot.
    """
    return "/".join((platform.node(), _boot(), _name_space()))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{uuid.getnode():x}"


def _name_space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


class Activity(Struct, frozen=True):
    """Activity of a process."""

    seconds: float
    """Processor time that all its threads have used."""
    running: bool
    """True if one of its threads runs, is ready to run, or waits for a disk."""
    stopped: bool
    """True if a signal has stopped it (Ctrl-Z, SIGSTOP). Another signal can continue it."""


def activity_of(pid: int) -> Activity | None:
    """Return the activity of a process, or ``None`` if it has ended or the system has no ``/proc``."""
    try:
        fields = _stat(Path(f"/proc/{pid}"))
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return None
    running = False
    for thread in threads:
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            running |= _stat(thread)[0] in "RD"
    ticks = int(fields[11]) + int(fields[12])
    return Activity(ticks / os.sysconf("SC_CLK_TCK"), running, fields[0] in "Tt")


def processors() -> int:
    """Return the number of processors that this process may use, limited by its affinity and its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # not Linux, or no limit (`max`)
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, int(quota) // int(period)))
    return count


def room_for_more() -> int:
    """Return how many processes of this one's size fit into the machine's free memory. 2 if the system does not report
    it.
    """
    try:
        free = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) * 1024
        return free // (int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return 2


def _stat(folder: Path) -> list[str]:
    """Return the fields of a process's or a thread's state from the third on.

    The second field, the name, may contain spaces and parentheses, so it is skipped.
    """
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _started(pid: int) -> str | None:
    try:
        fields = _stat(Path(f"/proc/{pid}"))
    except OSError:
        return None if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    # A zombie has ended; only its parent has not yet read its exit status.
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str | None:
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return completed.stdout.strip() or None
