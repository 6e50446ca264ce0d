"""Processes by more than their number: a process id is used again, an id with its start time is not."""

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
"""Variables that keep LangSmith from uploading every trace, for this process and others that it starts."""


class Process(Struct, frozen=True):
    """A process of this machine. `started`: what the system says of its start; only compared, never read."""

    pid: int
    started: str

    @property
    def alive(self) -> bool:
        """Whether it runs still, and is the same process."""
        return _started(self.pid) == self.started


def process(pid: int) -> Process | None:
    """The process with this id; ``None``: there is none."""
    started = _started(pid)
    return None if started is None else Process(pid, started)


@functools.cache
def this_machine() -> str:
    """This machine, told from every other by its boot and its name space of process ids too: containers may share a
    host name, and a host name survives a reboot."""
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
    """What a process does."""

    seconds: float
    """Processor time that it has used, in all its threads."""
    running: bool
    """A thread of it runs, would run if there were a processor free, or waits for a disk."""
    stopped: bool
    """A signal has stopped it (Ctrl-Z, SIGSTOP); another may let it go on."""


def activity_of(pid: int) -> Activity | None:
    """What a process does; ``None``: it is gone, or the system does not say (it has no ``/proc``)."""
    try:
        fields = _stat(Path(f"/proc/{pid}"))
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return None
    running = False
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            running |= _stat(thread)[0] in "RD"
    ticks = int(fields[11]) + int(fields[12])
    return Activity(ticks / os.sysconf("SC_CLK_TCK"), running, fields[0] in "Tt")


def processors() -> int:
    """Processors that this process may use: those that it is bound to, and no more than its container is given."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # another system; no limit is `max`
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, int(quota) // int(period)))
    return count


def room_for_more() -> int:
    """How many processes as large as this one the machine has free memory for; 2 where the system does not say."""
    try:
        free = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) * 1024
        return free // (int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, IndexError):
        return 2


def _stat(place: Path) -> list[str]:
    """The fields of a process's or a thread's state from its third on: the second, its name, may hold spaces and
    parentheses."""
    return (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _started(pid: int) -> str | None:
    try:
        fields = _stat(Path(f"/proc/{pid}"))
    except OSError:
        return None if Path("/proc/self/stat").exists() else _started_by_ps(pid)
    # A zombie runs no more: only its parent has not asked for it yet.
    return None if fields[0] in "ZX" else fields[19]


def _started_by_ps(pid: int) -> str | None:
    asked = ["ps", "-o", "lstart=", "-p", str(pid)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or None
