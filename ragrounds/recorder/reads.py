"""Recording of a system's dependencies: files, folders, databases, variables and its own modules.

An audit hook reports every opened file, and whether it is opened to read or to write. A patched ``os.environ`` reports
the requested variables. Reads of libraries for themselves are left out, and so are files that the system ever wrote.
Files opened by code in C are not noticed. Only reads in the context of a system count (:data:`READS`). Any other open
costs one comparison of its event's name.
"""
# The audit hook runs at every open of the process, so it must be fast and does not use pathlib.

from __future__ import annotations

import opcode
import os
import re
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from types import FrameType
from typing import Any
from urllib.parse import unquote

from .redaction import is_secret_name

_MACHINE_VARIABLES = frozenset(
    "HOME PATH PWD OLDPWD USER LOGNAME SHELL TERM LANG TMPDIR TEMP TMP HOSTNAME PYTHONPATH VIRTUAL_ENV DISPLAY SHLVL "
    "COLUMNS LINES EDITOR PAGER TZ LANGUAGE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME CUDA_VISIBLE_DEVICES".split()
)
"""Variables that describe the machine and the session."""
_ALWAYS_REQUESTED = frozenset({"LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"})
"""Variables that LangChain requests at each call, independently of the system."""
_MODEL_VARIABLE = re.compile(
    r"(?!LANGSMITH|LANGCHAIN|LANGFUSE|OTEL|PHOENIX|WANDB|SENTRY)(?:\w+_)?"
    r"(?:BASE_URL|API_BASE|ENDPOINT|API_URL|API_VERSION|MODEL|MODEL_NAME|DEPLOYMENT|DEPLOYMENT_NAME|OLLAMA_HOST)"
)
"""Variables that count even if a library reads them: name and address of the model."""
_LIBRARIES = frozenset({"site-packages", "dist-packages", "node_modules"})
_TOOLS = frozenset({"__pycache__", ".git", ".venv", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_CODE_SUFFIXES = (".pyc", ".pyo", ".so", ".pyd", ".dylib", ".dll")
_SYSTEM_FOLDERS = ("/proc/", "/dev/", "/sys/", "/etc/", "/run/", "/usr/", "/lib/", "/lib64/", "/System/", "/Library/")
_STDLIB = os.path.dirname(os.__file__)
_STDLIB_ZIP = "{}{}python{}{}.zip".format(os.path.dirname(_STDLIB), os.sep, *sys.version_info)
"""The standard library as an archive. Python looks for it even if it does not exist."""
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC

READS: ContextVar[Reads | None] = ContextVar("ragrounds_reads", default=None)
"""Recorder of the reads of the system in this context. ``None`` if reads are not recorded."""
LEFT_OUT: set[str] = {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
"""Folders of ragrounds. Reads in them are never a system's."""
NAMED: set[str] = set()
"""Installed packages that are a system's own code."""
_FALLBACK: list[Reads] = []
"""Recorder of reads outside any context, in a process that contains only a system."""
_hooking = threading.local()
_hooked = False


def leave_out(folder: str) -> None:
    """Exclude a folder of ragrounds from recording."""
    folder = os.path.abspath(folder)
    if folder not in LEFT_OUT:
        LEFT_OUT.add(folder)
        is_data.cache_clear()
        is_own.cache_clear()


class Reads:
    """Dependencies that one system has read since it was opened.

    Args:
        alone: the process contains only this system, so that reads outside any context are its own, too.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[int, int]] = {}
        """Path → size and modification time (nanoseconds) at the last opening. -1 if the file did not exist."""
        self._folders: set[str] = set()
        self._variables: dict[str, str | None] = {}
        self._set: set[str] = set()
        """Variables that the system sets itself. They are left out, because their origin is recorded, too."""
        self._written_paths: set[str] = set()
        self._databases: dict[str, tuple[tuple[int, int], int]] = {}
        """SQLite file → its mark and the size of its write-ahead log before it was first opened."""
        self._imported: set[str] = set()
        self._loaded = 0
        self._new = True
        self._reported: dict[str, dict[str, Any]] = {}
        self._of_children: dict[str, dict[str, Any]] = {}
        self.sends: Callable[[dict[str, dict[str, Any]]], None] | None = None
        """Function that reports to the parent process. ``None`` if this process is not a child of a system's."""
        if alone:
            _FALLBACK.append(self)
        _install()

    def take(self) -> dict[str, dict[str, Any]]:
        """Return the dependencies that are new since the last call, as plain JSON.

        The keys are ``files`` (path → size, time), ``folders`` whose names were listed, ``written`` files,
        ``variables``, loaded ``modules`` of users' own code (name → file), those of them that were ``imported`` by this
        system, and ``path``, where modules are searched.
        """
        self._compare_databases()
        if not self._new and self._loaded == len(sys.modules):
            return {}
        with self._lock:
            self._new, self._loaded = False, len(sys.modules)
            modules = _own_modules()
            variables = {**self._variables, **_settings_variables(modules)}
            current: dict[str, dict[str, Any]] = {
                "files": {path: list(mark) for path, mark in self._files.copy().items()},
                "folders": dict.fromkeys(self._folders.copy(), 1),
                "written": dict.fromkeys(self._written_paths.copy(), 1),
                "variables": {name: value for name, value in variables.items() if name not in self._set},
                "modules": modules,
                "imported": {name: 1 for name, file in modules.items() if file in self._imported},
                "path": dict.fromkeys(sys.path, 1),
            }
            for kind, entries in self._of_children.items():
                current[kind].update(entries)
            before, self._reported = self._reported, current
        changes = {
            kind: {key: value for key, value in entries.items() if before.get(kind, {}).get(key, ...) != value}
            for kind, entries in current.items()
        }
        return {kind: entries for kind, entries in changes.items() if entries}

    def forked(self, send: Callable[[dict[str, dict[str, Any]]], None]) -> None:
        """Report all that is read from now on by `send`: this is a child process."""
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self.sends, self._new = send, False

    def take_in(self, reported: dict[str, dict[str, Any]]) -> None:
        """Add the dependencies that a child process reports."""
        with self._lock:
            for kind in ("files", "folders", "written", "variables", "modules", "imported"):
                self._of_children.setdefault(kind, {}).update(reported.get(kind, {}))
            self._new = True

    def report(self) -> None:
        """Report what is new, if this is a child process. It may end at any time."""
        if self.sends is not None and self._new:
            self.sends(self.take())

    def opened(self, path: object, flags: int) -> None:
        """Record that a file is opened."""
        name = _absolute(path)
        if name.endswith((".py", ".pyc")):  # as an import does, under any module name
            self._imports(name)
        if not name or not is_data(name):
            return
        if flags & _WRITE_FLAGS:
            self.wrote(name)
        elif name not in self._written_paths:
            mark = _mark(name)
            self._new |= self._files.get(name) != mark
            self._files[name] = mark

    def wrote(self, path: object) -> None:
        """Record that a file is written."""
        name = _absolute(path)
        if name and name not in self._written_paths:
            self._written_paths.add(name)
            self._new = True

    def connects(self, path: str) -> None:
        """Record the state of an SQLite file before it is opened."""
        name = _absolute(path)
        if name and is_data(name):
            self._databases.setdefault(name, _database_mark(name))

    def _compare_databases(self) -> None:
        """Count SQLite files that have changed since they were opened as written.

        An authorizer of SQLite would see who writes. But it runs Python under the connection's mutex, and threads that
        share a connection would wait for each other for ever.
        """
        for name, mark in self._databases.copy().items():
            if name not in self._written_paths and _database_mark(name) != mark:
                self.wrote(name)

    def listed(self, path: object) -> None:
        """Record that the names in a folder are listed."""
        name = _absolute("." if path is None else path)
        if name and name not in self._folders and is_data(name) and not _importing():
            self._folders.add(name)
            self._new = True

    def _imports(self, file: str) -> None:
        """Record that a source file, or its compiled form, is opened."""
        folder, name = os.path.split(file)
        if name.endswith(".pyc"):
            folder, name = os.path.dirname(folder), f"{name.partition('.')[0]}.py"
        source = os.path.join(folder, name)
        if source not in self._imported and is_own(source):
            self._imported.add(source)
            self._files[source] = _mark(source)
            self._new = True

    def asks(self, name: str, value: str | None) -> None:
        """Record that a variable is requested."""
        if name in self._variables or name in _MACHINE_VARIABLES or is_secret_name(name):
            return
        file = _requesting_file()
        if file and (is_own(file) or _MODEL_VARIABLE.fullmatch(name)):
            self._variables[name] = value
            self._new = True

    def sets(self, name: str) -> None:
        """Record that the system sets a variable itself."""
        self._set.add(name)


@lru_cache(maxsize=8192)
def is_data(path: str) -> bool:
    """Return True if a path belongs neither to a library, nor to a tool, nor to the machine."""
    parts = path.split(os.sep)
    if _LIBRARIES.intersection(parts) or _TOOLS.intersection(parts) or path.endswith(_CODE_SUFFIXES):
        return False
    if parts[:3] == ["", "dev", "shm"]:  # directly in it is memory that processes share; in a folder it is a user's
        return len(parts) > 4
    home = os.path.join(os.path.expanduser("~"), ".")
    inside = (*_SYSTEM_FOLDERS, home, *(f"{folder}{os.sep}" for folder in (*LEFT_OUT, _STDLIB)))
    return not path.startswith((*inside, _STDLIB_ZIP)) and parts[-1] not in (".netrc", "_netrc", "pyvenv.cfg")


@lru_cache(maxsize=65536)  # one for each loaded module: a smaller cache would lose all of them in each pass
def is_own(file: str) -> bool:
    """Return True if a source file is a user's own: not part of an installed package, of Python or of ragrounds."""
    return (
        not file.startswith("<frozen")
        and not _LIBRARIES.intersection(file.split(os.sep))
        and (not file.startswith(tuple(f"{folder}{os.sep}" for folder in (_STDLIB, *LEFT_OUT))))
    )


def _absolute(path: object) -> str:
    """Return the absolute path, or an empty text if the argument is not a path, such as a number."""
    if isinstance(path, int):
        return ""
    try:
        return os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
    except (TypeError, ValueError, OSError):
        return ""


def _mark(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _database_mark(path: str) -> tuple[tuple[int, int], int]:
    """Return the mark of an SQLite file, and the size of its write-ahead log; a reader leaves an empty one."""
    return _mark(path), max(0, _mark(f"{path}-wal")[0])


def _own_modules() -> dict[str, str]:
    """Return the loaded modules of users' own code, and of packages that were named as a system's own: name → file."""
    modules = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    packages = tuple(f"{package}." for package in NAMED)
    return {
        name: file
        for name, file in modules
        if isinstance(file, str) and file.endswith(".py") and name != "__main__"
        if is_own(file) or f"{name}.".startswith(packages)
    }


def _settings_variables(modules: dict[str, str]) -> dict[str, str | None]:
    """Return the variables of settings classes (pydantic), which a library reads for them."""
    variables: dict[str, str | None] = {}
    for name in modules:
        for kind in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
            if not isinstance(kind, type) or kind.__module__ != name:
                continue
            if any(base.__name__ == "BaseSettings" for base in kind.__mro__[1:]):
                prefix = str(dict(getattr(kind, "model_config", None) or {}).get("env_prefix") or "")
                names = [f"{prefix}{field}".upper() for field in dict(getattr(kind, "model_fields", None) or {})]
                variables.update(
                    {variable: os.environ.get(variable) for variable in names if not is_secret_name(variable)}
                )
    return variables


_SKIPPED_FILES = frozenset({os.__file__, "<frozen os>", __file__, "<frozen _collections_abc>"})


def _requesting_file() -> str:
    """Return the file of the code that requests a variable. Empty if that code copies all variables."""
    frame: FrameType | None = sys._getframe(3)
    if frame is not None:
        # A copy is a call or a merge. A single variable is requested by a subscript.
        operation = opcode.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""
        if operation.startswith(("CALL", "DICT_")) and frame.f_code.co_name != "__contains__":
            return ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _SKIPPED_FILES and not file.endswith("_collections_abc.py"):
            return file
        if frame.f_code.co_name in ("__iter__", "copy"):
            return ""
        frame = frame.f_back
    return ""


def _importing() -> bool:
    """Return True if a folder is listed to find modules or packages in it."""
    frame: FrameType | None = sys._getframe(4)
    return frame is not None and "importlib" in frame.f_code.co_filename


def _database_file(path: object) -> str:
    """Return the file of a database, also from an SQLite URI. Empty if the database is in memory."""
    text = "" if isinstance(path, int) else os.fsdecode(path)  # type: ignore[arg-type]
    if text.startswith("file:"):
        text = "" if "mode=memory" in text else unquote(text[5:].partition("?")[0])
    return "" if text == ":memory:" or text.startswith("file::memory:") else text


def current_reads() -> Reads | None:
    """Return the recorder of the reads of the system in this context or process. ``None`` if there is none."""
    reads = READS.get()
    return reads if reads is not None or not _FALLBACK else _FALLBACK[0]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS:
        return
    reads = current_reads()
    if reads is None or getattr(_hooking, "now", False):
        return
    _hooking.now = True
    try:
        _EVENTS[event](reads, arguments)
        if reads.sends is not None:
            reads.report()
    except Exception:  # noqa: S110 - recording must not disturb the recorded system
        pass
    finally:
        _hooking.now = False


def _connects(reads: Reads, arguments: tuple[Any, ...]) -> None:
    if path := _database_file(arguments[0]):
        reads.connects(path)  # before the file is made
        reads.opened(path, 0 if os.path.exists(path) else _WRITE_FLAGS)


_EVENTS: dict[str, Callable[[Reads, tuple[Any, ...]], None]] = {
    "open": lambda reads, arguments: reads.opened(arguments[0], arguments[2] if isinstance(arguments[2], int) else 0),
    "os.listdir": lambda reads, arguments: reads.listed(arguments[0]),
    "os.scandir": lambda reads, arguments: reads.listed(arguments[0]),
    "os.rename": lambda reads, arguments: reads.wrote(arguments[1]),
    "os.truncate": lambda reads, arguments: reads.wrote(arguments[0]),
    "sqlite3.connect": _connects,
}


def _install() -> None:
    """Start recording. An audit hook cannot be removed again."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    sys.addaudithook(_audit)
    environ: Any = type(os.environ)
    get, put = environ.__getitem__, environ.__setitem__

    def get_recorded(self: Any, name: Any) -> Any:
        if name in _ALWAYS_REQUESTED or (reads := current_reads()) is None:
            return get(self, name)
        if isinstance(name, str):
            try:
                value = get(self, name)
            except KeyError:
                reads.asks(name, None)
                raise
            reads.asks(name, value)
            return value
        return get(self, name)

    def set_recorded(self: Any, name: Any, value: Any) -> None:
        reads = current_reads()
        if reads is not None and isinstance(name, str):
            reads.sets(name)
        put(self, name, value)

    environ.__getitem__, environ.__setitem__ = get_recorded, set_recorded
