"""`ragrounds` without its start: a process that has imported everything forks one for each command (`--quick`).

A command takes two seconds of processor time to import what it needs. While pages are written they are run again and
again; with this they take a fifth. The whole check that is reported starts each command as a reader does.

    python preloaded.py SOCKET      serves
    python preloaded.py SOCKET -- ARGUMENTS…     asks for a command, with this process' folder, environment and files
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys

_SIZE = 1 << 22


def ask(address: str, arguments: list[str]) -> int:
    """Have a command run; gives its exit code."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(address)
        told = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
        socket.send_fds(asked, [json.dumps(told).encode()], [0, 1, 2])
        asked.shutdown(socket.SHUT_WR)
        # The connection is kept: where it ends, by a kill, the command is ended too.
        return int(asked.recv(16) or b"1")


def serve(address: str) -> None:
    """Answer until the process is ended."""
    import importlib
    import pkgutil

    import ragrounds

    for module in pkgutil.walk_packages(ragrounds.__path__, "ragrounds."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("langgraph.graph", "langchain_openai", "numpy", "scipy.stats", "sqlalchemy", "bm25s", "rich.console"):
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        while True:
            asked, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                os._exit(_command(asked))
            asked.close()


def _command(asked: socket.socket) -> int:
    """In a process of its own: run one command in another one, and end it where nobody waits for it any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    read, files, _, _ = socket.recv_fds(asked, _SIZE, 3)
    while chunk := asked.recv(_SIZE):
        read += chunk
    told = json.loads(read)
    worker = os.fork()
    if worker == 0:
        os.setsid()
        _become(told, files)
    for file in files:
        os.close(file)
    hung = select.poll()
    hung.register(asked, select.POLLHUP | select.POLLERR)
    while True:
        done, status = os.waitpid(worker, os.WNOHANG)
        if done:
            asked.send(str(os.waitstatus_to_exitcode(status) % 256).encode())
            return 0
        if hung.poll(20):
            os.killpg(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
            return 0


def _become(told: dict[str, object], files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(told["environment"])  # type: ignore[call-overload]
    os.chdir(str(told["folder"]))
    sys.argv = ["ragrounds", *told["arguments"]]  # type: ignore[misc]
    sys.path[0] = os.path.dirname(sys.executable)  # noqa: PTH120
    for stream, file in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        setattr(sys, stream, open(file, "r" if not file else "w", closefd=False))  # noqa: SIM115
    code = 0
    try:
        from ragrounds.cli import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # closed
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(ask(sys.argv[1], sys.argv[3:]))
    serve(sys.argv[1])
