"""Python processes that start cheaply: forks of one process that has imported the package.

A start of `python -m ragrounds run` spends three quarters of its processor time on imports. Tests whose subject is not
the start itself begin their commands with :class:`ForkedPython`, which is a :class:`subprocess.Popen` in all else: a
child of this process, with a process id, signals, streams, a folder and an environment of its own.

python -m tests.forked FD     # the process that forks; it ends when the socket FD is closed
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = (
    "ragrounds.cli.entry",
    "ragrounds.cli.run",
    "ragrounds.api.progress",
    "ragrounds.api.replayer",
    "ragrounds.evals.engine.opening",
    "ragrounds.evals.engine.scheduler",
    "ragrounds.models.openai_compatible",
    "ragrounds.extensions.cluster.worker",
    "ragrounds.evals.benchmarks.families.jsonl",
    "ragrounds.evals.benchmarks.families.sample",
    "ragrounds.graphs.catalogue",
    "langgraph.graph",
    "aiohttp.web",
)
"""Modules that a run imports. None of them starts a thread or reads a variable when it is imported."""
PRELOADED_PACKAGES = ("ragrounds.evals.scorers", "ragrounds.graphs")
INTERPRETER = sys.executable
LARGEST_REQUEST = 150_000
FIXED_AT_START = ("PYTHON", "LC_", "LANG", "LD_")
"""Prefixes of the variables that an interpreter reads only when it starts."""
_CONNECTION: list[socket.socket] = []
"""Connection to the process that forks, in a process that was forked itself."""
_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]
prctl = ctypes.CDLL(None).prctl
BECOME_SUBREAPER = 36
"""`PR_SET_CHILD_SUBREAPER` of prctl(2): orphans among this process' descendants become its children."""
SET_NAME = 15
"""`PR_SET_NAME` of prctl(2): the name in /proc/PID/comm."""


class ForkedPython(subprocess.Popen[Any]):
    """A Python process, forked if its command is `python -m …` or `python -c …` and a fork behaves as a start would."""

    forks_workers = False

    def _execute_child(self, *arguments: Any) -> None:
        options = _SIGNATURE.bind(self, *arguments).arguments
        pairs = [(options[f"{name}read"], options[f"{name}write"]) for name in ("p2c", "c2p", "err")]
        streams = [
            descriptor if descriptor != -1 else number
            for number, descriptor in enumerate((pairs[0][0], pairs[1][1], pairs[2][1]))
        ]
        environment = dict(os.environ if options["env"] is None else options["env"])
        if not _can_fork(options, streams, environment):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        request = {
            "words": list(map(os.fspath, options["args"][1:])),
            "folder": os.fspath(options["cwd"] or Path.cwd()),
            "environment": environment,
            "forks_workers": self.forks_workers,
            "new_session": options["start_new_session"],
            "new_group": options.get("process_group") == 0,
        }
        self.pid = _fork(request, streams)
        self._child_created = True
        self._close_pipe_fds(*(descriptor for pair in pairs for descriptor in pair))  # type: ignore[attr-defined]


class ForkedLeader(ForkedPython):
    """A forked process whose own Python children are forked too."""

    forks_workers = True


def can_fork_at_once() -> bool:
    """Return True if the process that forks runs already: to start it takes as long as to import the package."""
    return bool(_forking_process.cache_info().currsize)


def run_python(command: Sequence[str | Path], timeout: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a Python command to its end, as `subprocess.run` with text and captured output does."""
    pipe = subprocess.PIPE
    start = ForkedLeader if "--workers" in command else ForkedPython
    with start(command, stdout=pipe, stderr=pipe, text=True, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _can_fork(options: dict[str, Any], streams: Sequence[int], environment: dict[str, str]) -> bool:
    """Return True if a fork is the same as a new process for this command."""
    words = options["args"]
    fixed = {name for name in {*environment, *os.environ} if name.startswith(FIXED_AT_START)}
    return (
        sys.platform == "linux"
        and not isinstance(words, str | bytes)
        and words[0] == INTERPRETER
        and words[1] in ("-m", "-c")
        and not options["pass_fds"]
        and options["preexec_fn"] is None
        and options["process_group"] in (None, -1, 0)
        and not any(os.isatty(descriptor) for descriptor in streams)
        and all(environment.get(name) == os.environ.get(name) for name in fixed)
    )


def _fork(request: dict[str, Any], streams: Sequence[int]) -> int:
    """Return the process id of a new child of this process that runs the request."""
    connection = _forking_process()
    prctl(BECOME_SUBREAPER, 1)
    try:
        socket.send_fds(connection, [json.dumps(request).encode()], list(streams))
        pid, is_child = connection.recv(16), connection.recv(16)
    finally:
        prctl(BECOME_SUBREAPER, 0)
    if not is_child:
        raise RuntimeError("the process that forks has ended")
    return int(pid)


@cache
def _forking_process() -> socket.socket:
    """Return the connection to the process that forks, which is started if needed and ends with this one."""
    if _CONNECTION:
        return _CONNECTION[0]
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
        subprocess.Popen(
            [sys.executable, "-m", "tests.forked", str(other.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[other.fileno()],
        )
    return mine


def preload() -> None:
    """Import what a run imports."""
    for package in PRELOADED_PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    for name in PRELOADED:
        importlib.import_module(name)


def serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request until the connection is closed. Return the request in the child that runs it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C of the terminal is for the process that asks
    while True:
        message, streams, _, _ = socket.recv_fds(connection, LARGEST_REQUEST, 3)
        if not message:
            os._exit(0)
        begin, begun = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid != 0:
                connection.send(str(pid).encode())
                os._exit(0)  # its child is now a child of the process that asked
            os.close(begun)
            os.read(begin, 1)
            os.close(begin)
            connection.close()
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
                os.close(descriptor)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            request: dict[str, Any] = json.loads(message)
            return request
        os.close(begin)
        os.waitpid(between, 0)
        connection.send(b"child")
        for descriptor in (begun, *streams):
            os.close(descriptor)


def fork_own_workers() -> dict[str, Any] | None:
    """Start a process that forks for this one, which has done nothing yet. Return a request in a child that runs it.

    The kernel gives orphans to an ancestor only, so that no other process can fork children for this one.
    """
    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        mine.close()
        with Path(os.devnull).open("r+b") as nothing:
            for number in range(3):
                os.dup2(nothing.fileno(), number)
        return serve(other)
    other.close()
    _CONNECTION.append(mine)
    subprocess.Popen = ForkedPython  # type: ignore[misc]
    return None


def run(request: dict[str, Any]) -> None:
    """Run a request as the interpreter runs `-m MODULE …` or `-c CODE …`."""
    if request["forks_workers"] and (of_worker := fork_own_workers()):
        request = of_worker
    if request["new_session"]:
        os.setsid()
    elif request["new_group"]:
        os.setpgid(0, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    option, subject, *words = request["words"]
    # Folders of packages that a test installs. The interpreter has read this variable when it started.
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [folder for folder in folders if folder and folder not in sys.path]
    prctl(SET_NAME, subject[-15:].encode())
    sys.orig_argv[1:] = request["words"]
    if option == "-m":
        sys.path[0] = request["folder"]
        sys.argv[:] = [subject, *words]
        runpy.run_module(subject, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = ""
        sys.argv[:] = ["-c", *words]
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        exec(compile(subject, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    preload()
    gc.freeze()
    run(serve(socket.socket(fileno=int(sys.argv[1]))))
