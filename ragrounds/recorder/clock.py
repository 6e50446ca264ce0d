"""Recorded randomness of a system: clock and random values that its own files use are recorded, and returned in a
replay.

A user's own file is compiled with a mark around every read of an attribute or imported name that is named like a
reading of the clock, a random choice or a new UUID (``….now``, ``….choice``). At run time, the mark checks that the
read object *is* the standard library's. Only then is the call recorded; anything else is unchanged. Therefore types
stay the real ones everywhere (``isinstance``, pydantic, msgspec), names do not matter, and a default factory and an
import inside a function are covered. Libraries keep their clocks and timers, whatever the system imports. Nothing is
written next to the file: its ``.pyc`` stays Python's own.

A value is identified by its location (file, function, called name, task, and number of the call there). All values are
stored as texts.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import datetime as dates
import importlib.machinery
import os
import random
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from .reads import READS, is_own

MOST = 10_000
"""Maximum number of recorded values of one attempt. A loop that waits reads the clock endlessly."""
LONGEST = 500
"""Maximum number of characters of a value with its location."""
_MARK = "__ragrounds_drawn__"
_MENTIONS = re.compile(rb"\b(?:datetime|time|uuid|random)\b")


class Values:
    """Clock and random values of one attempt, or of the loading of a system.

    `recorded` holds the recorded values by location. The callback receives each new value, in the thread that requests
    it. `first` is called once, before the first value is requested. It may set `recorded`.
    """

    def __init__(
        self, recorded: Mapping[str, str] | None = None, on_value: Callable[[str, str], None] = lambda site, value: None
    ) -> None:
        self.recorded = dict(recorded or {})
        self.on_value = on_value
        self.first: Callable[[], object] | None = None
        self._times: Counter[str] = Counter()
        self._tasks: dict[str, WeakKeyDictionary[asyncio.Task[Any], int]] = {}
        self._generators: dict[str, random.Random] = {}
        self._ahead = dates.timedelta(0)
        self._lock = threading.RLock()

    def value(self, site: str, value: str) -> None:
        """Record a value, perhaps from a host."""
        if len(self.recorded) < MOST and len(site) + len(value) <= LONGEST:
            self.recorded[site] = value
            self.on_value(site, value)

    def next_value(self, site: str, make: Callable[[], str], read: Callable[[str], Any]) -> Any:
        """Return the next value at a site, recorded or new. `read` converts its text to the value."""
        with self._lock:
            if (first := self.first) is not None:
                self.first = None
                first()
            site = f"{site} {self._task(site)}"
            location = f"{site}{self._times[site]}"
            self._times[site] += 1
            if location in self.recorded:
                try:
                    return read(self.recorded[location])
                except (ValueError, TypeError, OverflowError):  # a store may contain an invalid text
                    pass
            value = make()
            self.value(location, value)
            return read(value)

    def instant(self, site: str) -> dates.datetime:
        """Return the time of the clock, in the time zone of the recording machine.

        After a resume, it continues from the last value that was returned, so that time differences within an attempt
        stay true.
        """
        real = dates.datetime.now(dates.timezone.utc).astimezone()
        with self._lock:
            moment: dates.datetime = self.next_value(site, lambda: (real + self._ahead).isoformat(), _parse_instant)
            self._ahead = moment - real
        return moment

    def generator(self, site: str) -> random.Random:
        """Return the generator of a site's random numbers. Only its seed is recorded."""
        with self._lock:
            key = f"{site} {self._task(f'{site} seed')}"
            if key not in self._generators:
                seed = self.next_value(f"{site} seed", lambda: str(random.getrandbits(64)), int)
                self._generators[key] = random.Random(seed)
            return self._generators[key]

    def _task(self, site: str) -> str:
        """Return a label of the current task at a site.

        Tasks are distinguished by the order of their first requests. For concurrent tasks, this is the order in which
        they were started; later requests follow the order of the replies.
        """
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is None:  # in a thread, which may serve many tasks
            return ""
        tasks = self._tasks.setdefault(site, WeakKeyDictionary())
        if task not in tasks:
            self._times[site] += 1
            tasks[task] = self._times[site]
        return f"{tasks[task]}."


VALUES: ContextVar[Values | None] = ContextVar("ragrounds_values", default=None)
"""Recorded randomness of this context. ``None`` if the real clock and random values are used."""
DRAWING: set[str] = set()
"""Users' own files in this process that were loaded with marks."""


def _parse_instant(text: str) -> dates.datetime:
    moment = dates.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment


# Each of these functions gets the values, the site, the function that the system called, and its arguments.


def _now(values: Values, site: str, real: Any, tz: dates.tzinfo | None = None) -> dates.datetime:
    moment = values.instant(site)
    return moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)


def _time_ns(values: Values, site: str, real: Any) -> int:
    elapsed = values.instant(site) - dates.datetime.fromtimestamp(0, dates.timezone.utc)
    return elapsed // dates.timedelta(microseconds=1) * 1000


def _time_parts(values: Values, site: str, real: Any, *arguments: Any) -> Any:
    """Replace the functions of `time` that take a moment, and read the clock if it is missing."""
    name = real.__name__
    moment = arguments[1:] if name == "strftime" else arguments
    if moment and moment[0] is not None:
        return real(*arguments)
    now = values.instant(site)
    local = time.localtime(now.timestamp())
    if dates.timedelta(seconds=local.tm_gmtoff) != now.utcoffset():  # recorded in another time zone
        local = now.timetuple()
    if name == "localtime":
        return local
    if name == "gmtime":
        return time.gmtime(now.timestamp())
    return real(*arguments[:1], local) if name == "strftime" else time.asctime(local)


def _uuid(values: Values, site: str, real: Any, *arguments: Any, **keywords: Any) -> uuid.UUID:
    if arguments or keywords:
        return real(*arguments, **keywords)  # type: ignore[no-any-return]
    new_id: uuid.UUID = values.next_value(site, lambda: str(real()), uuid.UUID)
    return new_id


def _random_value(values: Values, site: str, real: Any, *arguments: Any, **keywords: Any) -> Any:
    if _SEEDED:
        return real(*arguments, **keywords)
    return getattr(values.generator(site.rpartition(" ")[0]), real.__name__)(*arguments, **keywords)


_SEEDED: list[bool] = []
"""Contains True if the system has seeded its random numbers itself."""


def _seed(values: Values | None, site: str, real: Any, *arguments: Any, **keywords: Any) -> Any:
    _SEEDED[:] = [True] if any(argument is not None for argument in (*arguments, *keywords.values())) else []
    return real(*arguments, **keywords)


_GLOBAL_RANDOM = random.random.__self__  # type: ignore[attr-defined]
_RANDOM_NAMES = [name for name in dir(random) if getattr(getattr(random, name), "__self__", None) is _GLOBAL_RANDOM]
_REPLACEMENTS: dict[tuple[int, str], Callable[..., Any]] = {
    (id(dates.datetime), "now"): _now,
    (id(dates.datetime), "today"): _now,
    (id(dates.datetime), "utcnow"): lambda values, site, real: _now(values, site, real, dates.timezone.utc).replace(
        tzinfo=None
    ),
    (id(dates.date), "today"): lambda values, site, real: values.instant(site).date(),
    (id(time), "time"): lambda values, site, real: values.instant(site).timestamp(),
    (id(time), "time_ns"): _time_ns,
    **{(id(time), name): _time_parts for name in ("localtime", "gmtime", "ctime", "asctime", "strftime")},
    **{(id(_GLOBAL_RANDOM), name): _random_value for name in _RANDOM_NAMES if name != "getstate"},
    **{(id(_GLOBAL_RANDOM), name): _seed for name in ("seed", "setstate")},
    (id(uuid.uuid1), "uuid1"): _uuid,
    (id(uuid.uuid4), "uuid4"): _uuid,
}
"""Replacements that record: owner's id and function name → replacement."""
_NAMES = frozenset(name for _, name in _REPLACEMENTS)


def _recorded_object(target: Any, site: str) -> Any:
    """Return the object that a user's own file has read at a site, or a recording version of a clock or random
    function.
    """
    kind = type(target)
    if kind is BuiltinFunctionType or kind is MethodType:
        owner = target.__self__
    elif kind is FunctionType:
        owner = target
    else:  # attributes of other objects are not read, because reading them may have side effects
        return target
    replacement = _REPLACEMENTS.get((id(owner), getattr(target, "__name__", "")))
    if replacement is None:
        return target
    site = f"{site} {target.__name__}"

    def record(*arguments: Any, **keywords: Any) -> Any:
        values = VALUES.get()
        if values is None and replacement is not _seed:
            return target(*arguments, **keywords)
        return replacement(values, site, target, *arguments, **keywords)

    return record


class _MarkInserter(ast.NodeTransformer):
    """Inserts a mark around every possible clock or random function. Annotations and patterns are left unchanged."""

    def __init__(self, file: str, names: frozenset[str]) -> None:
        self.count = 0
        """Number of inserted marks."""
        self._names = names
        self._within = [file]

    def _mark(self, node: ast.expr) -> ast.expr:
        self.count += 1
        site = ast.Constant(f"{self._within[0]}:{'.'.join(self._within[1:]) or '<module>'}")
        marked = ast.Call(ast.Name(_MARK, ast.Load()), [node, site], [])
        return ast.fix_missing_locations(ast.copy_location(marked, node))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return self._mark(node) if node.attr in _NAMES and isinstance(node.ctx, ast.Load) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._mark(node) if node.id in self._names and isinstance(node.ctx, ast.Load) else node

    def visit_FunctionDef(self, node: Any) -> Any:
        self._within.append(node.name)
        returns, node.returns = getattr(node, "returns", None), None
        self.generic_visit(node)
        node.returns = returns
        self._within.pop()
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef  # noqa: N815

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_TypeAlias(self, node: Any) -> Any:
        return node

    visit_MatchValue = visit_MatchClass = visit_MatchMapping = visit_TypeAlias  # noqa: N815


def _imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names under which a file imports clock and random functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for imported in node.names:
                if imported.name in _NAMES:
                    yield imported.asname or imported.name
                elif imported.name == "*":
                    yield from _NAMES


def _compile_marked(path: str, source: bytes) -> CodeType | None:
    """Compile a user's own file with its marks. ``None`` if it needs none, or if Python must report its syntax
    error.
    """
    if not _MENTIONS.search(source):
        return None
    file_path = Path(path)
    file = f"{file_path.parent.name}/{file_path.name}" if file_path.stem == "__init__" else file_path.name
    try:
        tree = ast.parse(source, path)
        marks = _MarkInserter(file, frozenset(_imported_names(tree)))
        marked = marks.visit(tree)
        return compile(marked, path, "exec", dont_inherit=True) if marks.count else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def install(*, always: bool = False) -> None:
    """Compile users' own files with marks, if they are imported in the context of a system, or `always`."""
    if hasattr(builtins, _MARK):
        return
    loader: Any = importlib.machinery.SourceFileLoader
    before = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        # A custom loader that inherits from this one changes the source itself.
        if not always and VALUES.get() is None and READS.get() is None:
            return before(self, fullname)
        marked = (
            _compile_marked(self.path, self.get_data(self.path)) if type(self) is loader and is_own(self.path) else None
        )
        if marked is None:
            return before(self, fullname)
        DRAWING.add(self.path)
        return marked

    if hasattr(os, "register_at_fork"):  # a child reports no values, and another thread may have held a lock
        os.register_at_fork(after_in_child=lambda: VALUES.set(None))
    setattr(builtins, _MARK, _recorded_object)
    loader.get_code = get_code
