"""What a system reads while it is opened and while it answers: files, folders, databases, variables, its own modules.

An audit hook hears which files are opened, and whether to read or to write; ``os.environ`` says which variables are
asked for. What libraries read of themselves is left out, and whatever the system ever wrote. Files that code in C opens
are not heard. Only what happens in the context of a system counts (:data:`READS`): every other open costs a look at
its event's name.
"""
# In an audit hook each microsecond is paid at every open of the process: no pathlib.

from __future__ import annotations

import opcode
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from types import FrameType
from typing import Any
from urllib.parse import unquote

_SECRET = re.compile(
    r"(?:^|_)[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE|DSN)(?:_(?:ID|FILE|PATH))?(?:_|$)"
)
_OF_THE_MACHINE = frozenset(
    "HOME PATH PWD OLDPWD USER LOGNAME SHELL TERM LANG TMPDIR TEMP TMP HOSTNAME PYTHONPATH VIRTUAL_ENV DISPLAY SHLVL "
    "COLUMNS LINES EDITOR PAGER TZ LANGUAGE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME CUDA_VISIBLE_DEVICES".split()
)
"""Variables that say where a process runs."""
_ASKED_ALWAYS = frozenset({"LANGCHAIN_TRACING", "LANGCHAIN_HANDLER"})
"""Variables that LangChain asks for at each call, whatever the system does."""
_OF_MODELS = re.compile(
    r"(?!LANGSMITH|LANGCHAIN|LANGFUSE|OTEL|PHOENIX|WANDB|SENTRY)(?:\w+_)?"
    r"(?:BASE_URL|API_BASE|ENDPOINT|API_URL|API_VERSION|MODEL|MODEL_NAME|DEPLOYMENT|DEPLOYMENT_NAME|OLLAMA_HOST)"
)
"""Variables that count where a library reads them, too: which model it asks, and where."""
_LIBRARIES = frozenset({"site-packages", "dist-packages", "node_modules"})
_TOOLS = frozenset({"__pycache__", ".git", ".venv", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_OF_CODE = (".pyc", ".pyo", ".so", ".pyd", ".dylib", ".dll")
_SYSTEM = ("/proc/", "/dev/", "/sys/", "/etc/", "/run/", "/usr/", "/lib/", "/lib64/", "/System/", "/Library/")
_STDLIB = os.path.dirname(os.__file__)
_STDLIB_ZIP = "{}{}python{}{}.zip".format(os.path.dirname(_STDLIB), os.sep, *sys.version_info)
"""The standard library as an archive: Python looks for it, whether it is there or not."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_ROWS_WRITTEN = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})

READS: ContextVar[Reads | None] = ContextVar("ragrounds_reads", default=None)
"""What hears the reads of the system that runs in this context; ``None``: nothing does."""
LEFT_OUT: set[str] = {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
"""Folders of ours: what is read there is never a system's."""
NAMED: set[str] = set()
"""Installed packages that are systems' own."""
_FALLBACK: list[Reads] = []
"""Hears what runs in no context, where a process has nothing but a system."""
_hooking = threading.local()
_hooked = False


def leave_out(folder: str) -> None:
    """Have nothing heard of a folder of ours."""
    folder = os.path.abspath(folder)
    if folder not in LEFT_OUT:
        LEFT_OUT.add(folder)
        is_data.cache_clear()
        is_own.cache_clear()


def is_secret_name(name: str) -> bool:
    """Whether a variable is called as keys are: its value is never kept, and does not count."""
    return _SECRET.search(name.upper()) is not None


class Reads:
    """What one system has read since it was opened.

    Args:
        alone: the process has nothing but this system, so that what is read in no context is its own, too.
    """

    def __init__(self, *, alone: bool = False) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[int, int]] = {}
        """Path → size and time of change (nanoseconds) when it was opened last; -1: it was not there."""
        self._folders: set[str] = set()
        self._variables: dict[str, str | None] = {}
        self._set: set[str] = set()
        """Variables that it sets itself: their cause is read, too."""
        self._written: set[str] = set()
        self._imported: set[str] = set()
        self._loaded = 0
        self._new = True
        self._told: dict[str, dict[str, Any]] = {}
        if alone:
            _FALLBACK.append(self)
        _install()

    def take(self) -> dict[str, dict[str, Any]]:
        """What is new since this was asked last, as plain JSON: ``files`` (path → size, time), ``folders`` whose names
        were listed, ``written`` files, ``variables``, ``modules`` of somebody's own that the process has (name → file),
        those of them that were ``imported`` by this system, and ``path``, where modules are looked for."""
        if not self._new and self._loaded == len(sys.modules):
            return {}
        with self._lock:
            self._new, self._loaded = False, len(sys.modules)
            modules = _own_modules()
            variables = {**self._variables, **_of_settings(modules)}
            now: dict[str, dict[str, Any]] = {
                "files": {path: list(mark) for path, mark in self._files.copy().items()},
                "folders": dict.fromkeys(self._folders.copy(), 1),
                "written": dict.fromkeys(self._written.copy(), 1),
                "variables": {name: value for name, value in variables.items() if name not in self._set},
                "modules": modules,
                "imported": {name: 1 for name, file in modules.items() if file in self._imported},
                "path": dict.fromkeys(sys.path, 1),
            }
            before, self._told = self._told, now
        new = {
            kind: {key: one for key, one in held.items() if before.get(kind, {}).get(key, ...) != one}
            for kind, held in now.items()
        }
        return {kind: held for kind, held in new.items() if held}

    def opened(self, path: object, flags: int) -> None:
        """A file is opened."""
        name = _plain(path)
        if name.endswith((".py", ".pyc")):  # as an import does, by whatever name it is asked for
            self._imports(name)
        if not name or not is_data(name):
            return
        if flags & _WRITES:
            self.wrote(name)
        elif name not in self._written:
            mark = _mark(name)
            self._new |= self._files.get(name) != mark
            self._files[name] = mark

    def wrote(self, path: object) -> None:
        """A file is written."""
        name = _plain(path)
        if name and name not in self._written:
            self._written.add(name)
            self._new = True

    def listed(self, path: object) -> None:
        """The names in a folder are asked for."""
        name = _plain("." if path is None else path)
        if name and name not in self._folders and is_data(name) and not _importing():
            self._folders.add(name)
            self._new = True

    def _imports(self, file: str) -> None:
        """A source, or what it was compiled to, is opened."""
        folder, name = os.path.split(file)
        if name.endswith(".pyc"):
            folder, name = os.path.dirname(folder), f"{name.partition('.')[0]}.py"
        source = os.path.join(folder, name)
        if source not in self._imported and is_own(source):
            self._imported.add(source)
            self._files[source] = _mark(source)

    def asks(self, name: str, value: str | None) -> None:
        """A variable is asked for."""
        if name in self._variables or name in _OF_THE_MACHINE or is_secret_name(name):
            return
        asker = _asker()
        if asker and (is_own(asker) or _OF_MODELS.fullmatch(name)):
            self._variables[name] = value
            self._new = True

    def sets(self, name: str) -> None:
        """It sets a variable itself."""
        self._set.add(name)


@lru_cache(maxsize=8192)
def is_data(path: str) -> bool:
    """Whether a path is no library's, no tool's and none of the machine's own."""
    parts = path.split(os.sep)
    if _LIBRARIES.intersection(parts) or _TOOLS.intersection(parts) or path.endswith(_OF_CODE):
        return False
    home = os.path.join(os.path.expanduser("~"), ".")
    inside = (*_SYSTEM, home, *(f"{place}{os.sep}" for place in (*LEFT_OUT, _STDLIB)))
    return not path.startswith((*inside, _STDLIB_ZIP)) and parts[-1] not in (".netrc", "_netrc", "pyvenv.cfg")


@lru_cache(maxsize=4096)
def is_own(file: str) -> bool:
    """Whether a source is of somebody's own: none of an installed package, of Python or of ours."""
    return (
        not file.startswith("<frozen")
        and not _LIBRARIES.intersection(file.split(os.sep))
        and (not file.startswith(tuple(f"{place}{os.sep}" for place in (_STDLIB, *LEFT_OUT))))
    )


def _plain(path: object) -> str:
    """A path from the root; empty: it is none, such as a number."""
    if isinstance(path, int):
        return ""
    try:
        return os.path.abspath(os.fsdecode(path))  # type: ignore[arg-type]
    except (TypeError, ValueError, OSError):
        return ""


def _mark(path: str) -> tuple[int, int]:
    try:
        held = os.stat(path)
    except OSError:
        return -1, -1
    return held.st_size, held.st_mtime_ns


def _own_modules() -> dict[str, str]:
    found = ((name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return {
        name: file
        for name, file in found
        if isinstance(file, str) and file.endswith(".py") and name != "__main__" and (is_own(file) or _is_named(name))
    }


def _is_named(module: str) -> bool:
    """Whether a module is of a package that was named as a system's own, wherever it is installed."""
    return any(module == one or module.startswith(f"{one}.") for one in NAMED)


def _of_settings(modules: dict[str, str]) -> dict[str, str | None]:
    """The variables of classes of settings (pydantic), which a library reads for them."""
    found: dict[str, str | None] = {}
    for name in modules:
        for kind in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
            if not isinstance(kind, type) or kind.__module__ != name:
                continue
            if any(base.__name__ == "BaseSettings" for base in kind.__mro__[1:]):
                prefix = str(dict(getattr(kind, "model_config", None) or {}).get("env_prefix") or "")
                names = [f"{prefix}{field}".upper() for field in dict(getattr(kind, "model_fields", None) or {})]
                found.update({one: os.environ.get(one) for one in names if not is_secret_name(one)})
    return found


_PASSED = frozenset({os.__file__, "<frozen os>", __file__, "<frozen _collections_abc>"})


def _asker() -> str:
    """The file of the code that asks for a variable; empty: it copies all of them."""
    frame: FrameType | None = sys._getframe(3)
    if frame is not None:
        # A copy is a call or a merge; one variable is asked for by a subscript.
        doing = opcode.opname[frame.f_code.co_code[frame.f_lasti]] if frame.f_lasti >= 0 else ""
        if doing.startswith(("CALL", "DICT_")) and frame.f_code.co_name != "__contains__":
            return ""
    while frame is not None:
        file = frame.f_code.co_filename
        if file not in _PASSED and not file.endswith("_collections_abc.py"):
            return file
        if frame.f_code.co_name in ("__iter__", "copy"):
            return ""
        frame = frame.f_back
    return ""


def _importing() -> bool:
    """Whether a folder is listed to find modules or packages in it."""
    frame: FrameType | None = sys._getframe(4)
    return frame is not None and "importlib" in frame.f_code.co_filename


def _of_database(path: object) -> str:
    """The file of a database, of an address of SQLite's too; empty: it is in memory."""
    text = "" if isinstance(path, int) else os.fsdecode(path)  # type: ignore[arg-type]
    if text.startswith("file:"):
        text = "" if "mode=memory" in text else unquote(text[5:].partition("?")[0])
    return "" if text == ":memory:" or text.startswith("file::memory:") else text


def _heard() -> Reads | None:
    found = READS.get()
    return found if found is not None or not _FALLBACK else _FALLBACK[0]


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _EVENTS:
        return
    found = _heard()
    if found is None or getattr(_hooking, "now", False):
        return
    _hooking.now = True
    try:
        _EVENTS[event](found, arguments)
    except Exception:  # noqa: S110 - what is heard must not hurt who is heard
        pass
    finally:
        _hooking.now = False


def _connects(found: Reads, arguments: tuple[Any, ...]) -> None:
    if path := _of_database(arguments[0]):
        found.opened(path, 0 if os.path.exists(path) else _WRITES)


def _renames(found: Reads, arguments: tuple[Any, ...]) -> None:
    found.wrote(arguments[1])


_EVENTS: dict[str, Callable[[Reads, tuple[Any, ...]], None]] = {
    "open": lambda found, given: found.opened(given[0], given[2] if isinstance(given[2], int) else 0),
    "os.listdir": lambda found, given: found.listed(given[0]),
    "os.scandir": lambda found, given: found.listed(given[0]),
    "os.rename": _renames,
    "os.truncate": lambda found, given: found.wrote(given[0]),
    "sqlite3.connect": _connects,
}


def _install() -> None:
    """Hear from now on: nothing takes an audit hook away again."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    sys.addaudithook(_audit)
    environ: Any = type(os.environ)
    get, put, connect = environ.__getitem__, environ.__setitem__, sqlite3.connect

    def asked(self: Any, name: Any) -> Any:
        if name in _ASKED_ALWAYS or (found := _heard()) is None:
            return get(self, name)
        if isinstance(name, str):
            try:
                value = get(self, name)
            except KeyError:
                found.asks(name, None)
                raise
            found.asks(name, value)
            return value
        return get(self, name)

    def is_set(self: Any, name: Any, value: Any) -> None:
        found = _heard()
        if found is not None and isinstance(name, str):
            found.sets(name)
        put(self, name, value)

    def connected(*given: Any, **named: Any) -> Any:
        made, found = connect(*given, **named), _heard()
        path = _of_database(given[0] if given else named.get("database", ""))
        if found is not None and path and is_data(_plain(path)):

            def allowed(action: int, table: str | None, _: object, database: str | None, __: object) -> int:
                if action in _ROWS_WRITTEN and database == "main" and not str(table).startswith("sqlite_"):
                    found.wrote(path)
                return sqlite3.SQLITE_OK

            made.set_authorizer(allowed)
        return made

    environ.__getitem__, environ.__setitem__ = asked, is_set
    sqlite3.connect = connected
    sqlite3.dbapi2.connect = connected
