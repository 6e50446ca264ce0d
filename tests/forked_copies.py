"""Run Python commands one after another, each in a fork of one process that has imported the large packages.

A process that is started for each command takes longer to import them than to do what the command says. ragrounds is
not among them: each fork imports the copy that its own `sys.path` leads to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

LARGE = (
    "aiohttp", "dotenv", "langchain.chat_models", "langchain_core.tracers", "langchain_openai", "langgraph.graph",
    "msgspec.json", "numpy", "openai", "pandas", "pydantic_settings", "rich.console", "rich.table", "scipy.stats",
    "sqlalchemy", "sqlite3", "tenacity", "tiktoken", "typer",
)  # fmt: skip
"""Modules that most commands import."""
PROGRAM = """
import atexit, contextlib, gc, importlib, json, os, runpy, signal, sys, threading, traceback

del sys.path[0]
for module in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        importlib.import_module(module)
gc.freeze()
for line in sys.stdin:
    request = json.loads(line)
    process = os.fork()
    if process == 0:
        break
    _, status = os.waitpid(process, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
else:
    os._exit(0)
signal.alarm(300)  # a command that hangs is ended
for number, name in enumerate((os.devnull, *request["outputs"])):
    os.dup2(os.open(name, os.O_RDWR), number)
os.chdir(request["folder"])
os.environ.clear()
os.environ.update(request["environment"])
option, subject, *words = request["command"]
folders = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
sys.path[:0] = [{"-m": os.getcwd(), "-c": ""}[option], *folders]
sys.argv = [option, *words]
code = 0
try:
    if option == "-m":
        runpy.run_module(subject, run_name="__main__", alter_sys=True)
    else:
        exec(compile(subject, "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as end:
    code = int(end.code or 0)
except BaseException:
    traceback.print_exc()
    code = 1
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(code)  # to take all modules apart takes longer than most commands
"""


class Forks:
    """Runs commands of one interpreter.

    Args:
        process: The process that forks.
        folder: A folder for what commands print.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self._outputs = folder / "output", folder / "errors"

    def run(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run `-m MODULE …` or `-c CODE …` to its end in a folder with these variables."""
        for file in self._outputs:
            file.write_text("")
        request = {
            "command": command,
            "folder": str(folder),
            "environment": dict(environment),
            "outputs": [str(file) for file in self._outputs],
        }
        _stream(self._process.stdin).write(json.dumps(request) + "\n")
        _stream(self._process.stdin).flush()
        code = int(_stream(self._process.stdout).readline())
        printed, errors = (file.read_text(encoding="utf-8") for file in self._outputs)
        return subprocess.CompletedProcess(command, code, printed, errors)


def _stream(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@contextmanager
def forks(python: str | Path = sys.executable, modules: Sequence[str] = LARGE) -> Iterator[Forks]:
    """Start the process of an interpreter that imports these modules and forks, and end it with the block."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [str(python), "-c", PROGRAM, *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield Forks(process, Path(folder))
