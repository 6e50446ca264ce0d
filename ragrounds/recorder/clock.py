"""Clock and chance of a system: what its own files draw is recorded, and given back when it is asked again.

An own file is compiled with a mark at each place that reads an attribute or an imported name which is called like a
reading of the clock, a random choice or a new UUID (``….now``, ``….choice``). When the mark is passed, it looks whether
what was read *is* the standard library's: then what is called records; anything else is what it was. So types stay the
real ones everywhere (``isinstance``, pydantic, msgspec), names do not matter, a default factory and an import inside a
function are covered, and libraries keep their clocks and timers, whatever the system imports. Nothing is written
beside the file: its ``.pyc`` stays Python's own.

A value is known by its place (file, function, what was called, by which task and how often there), and all of them are
texts.
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
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from .reads import READS, is_own

MOST = 10_000
"""Values of one attempt that are recorded: a loop that waits reads the clock without end."""
LONGEST = 500
"""Characters of a value with its place."""
_MARK = "__ragrounds_drawn__"
_MENTIONS = re.compile(rb"\b(?:datetime|time|uuid|random)\b")


class Values:
    """What one attempt, or the opening of a system, draws.

    `known` is what was drawn before, by its place; `told` is told of what is new, in whatever thread draws it. `first`
    is called once, before the first value is drawn: it may set `known`.
    """

    def __init__(
        self, known: Mapping[str, str] | None = None, told: Callable[[str, str], None] = lambda place, value: None
    ) -> None:
        self.known = dict(known or {})
        self.told = told
        self.first: Callable[[], object] | None = None
        self._times: Counter[str] = Counter()
        self._tasks: dict[str, WeakKeyDictionary[asyncio.Task[Any], int]] = {}
        self._generators: dict[str, random.Random] = {}
        self._ahead = dates.timedelta(0)
        self._lock = threading.RLock()

    def value(self, place: str, value: str) -> None:
        """Take note of a value that was drawn, perhaps in a host."""
        if len(self.known) < MOST and len(place) + len(value) <= LONGEST:
            self.known[place] = value
            self.told(place, value)

    def drawn(self, site: str, make: Callable[[], str], read: Callable[[str], Any]) -> Any:
        """The next value at a site, recorded or made; `read` makes of its text what it is."""
        with self._lock:
            if (first := self.first) is not None:
                self.first = None
                first()
            site = f"{site} {self._task(site)}"
            place = f"{site}{self._times[site]}"
            self._times[site] += 1
            if place in self.known:
                try:
                    return read(self.known[place])
                except (ValueError, TypeError, OverflowError):  # a store may hold anything
                    pass
            value = make()
            self.value(place, value)
            return read(value)

    def instant(self, site: str) -> dates.datetime:
        """What the clock shows, with the zone of the machine that recorded it. After a resume it goes on from the last
        value that was given back, so that what an attempt measures by it remains true."""
        real = dates.datetime.now(dates.timezone.utc).astimezone()
        with self._lock:
            at: dates.datetime = self.drawn(site, lambda: (real + self._ahead).isoformat(), _instant)
            self._ahead = at - real
        return at

    def generator(self, site: str) -> random.Random:
        """Where a site's random numbers come from: its seed is what is recorded."""
        with self._lock:
            whose = f"{site} {self._task(f'{site} seed')}"
            if whose not in self._generators:
                seed = self.drawn(f"{site} seed", lambda: str(random.getrandbits(64)), int)
                self._generators[whose] = random.Random(seed)
            return self._generators[whose]

    def _task(self, site: str) -> str:
        """Which of the tasks this is that draw at a site. They are told apart by their first draws: those of tasks that
        run side by side come in the order in which the tasks were begun, and later ones as replies come."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        if task is None:  # in a thread, which may serve many
            return ""
        tasks = self._tasks.setdefault(site, WeakKeyDictionary())
        if task not in tasks:
            self._times[site] += 1
            tasks[task] = self._times[site]
        return f"{tasks[task]}."


VALUES: ContextVar[Values | None] = ContextVar("ragrounds_values", default=None)
"""Whose clock and chance these are; ``None``: nobody's, they are the real ones."""
DRAWING: set[str] = set()
"""Own files of this process that may draw: those that were loaded with their marks."""


@contextmanager
def drawing(values: Values | None) -> Iterator[None]:
    """Have what the block draws recorded in `values`."""
    before = VALUES.set(values)
    try:
        yield
    finally:
        VALUES.reset(before)


def _instant(text: str) -> dates.datetime:
    at = dates.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(text)
    return at


# Each of these is given the values, the site, what the system called, and with what.


def _now(values: Values, site: str, real: Any, tz: dates.tzinfo | None = None) -> dates.datetime:
    at = values.instant(site)
    return at.replace(tzinfo=None) if tz is None else at.astimezone(tz)


def _utcnow(values: Values, site: str, real: Any) -> dates.datetime:
    return values.instant(site).astimezone(dates.timezone.utc).replace(tzinfo=None)


def _date(values: Values, site: str, real: Any) -> dates.date:
    return values.instant(site).date()


def _time(values: Values, site: str, real: Any) -> float:
    return values.instant(site).timestamp()


def _time_ns(values: Values, site: str, real: Any) -> int:
    since = values.instant(site) - dates.datetime.fromtimestamp(0, dates.timezone.utc)
    return since // dates.timedelta(microseconds=1) * 1000


def _parts(values: Values, site: str, real: Any, *given: Any) -> Any:
    """The clock as `time` has it in parts: the functions that take a moment, and read the clock where none is given."""
    name = real.__name__
    moment = given[1:] if name == "strftime" else given
    if moment and moment[0] is not None:
        return real(*given)
    at = values.instant(site)
    local = time.localtime(at.timestamp())
    if dates.timedelta(seconds=local.tm_gmtoff) != at.utcoffset():  # recorded in another zone
        local = at.timetuple()
    if name == "localtime":
        return local
    if name == "gmtime":
        return time.gmtime(at.timestamp())
    return real(*given[:1], local) if name == "strftime" else time.asctime(local)


def _uuid(values: Values, site: str, real: Any, *given: Any, **named: Any) -> uuid.UUID:
    if given or named:
        return real(*given, **named)  # type: ignore[no-any-return]
    made: uuid.UUID = values.drawn(site, lambda: str(real()), uuid.UUID)
    return made


def _chance(values: Values, site: str, real: Any, *given: Any, **named: Any) -> Any:
    if _SEEDED:
        return real(*given, **named)
    return getattr(values.generator(site.rpartition(" ")[0]), real.__name__)(*given, **named)


_SEEDED: list[bool] = []
"""Filled once the system has said by itself what its random numbers begin with."""


def _seed(values: Values | None, site: str, real: Any, *given: Any, **named: Any) -> Any:
    _SEEDED[:] = [True] if any(one is not None for one in (*given, *named.values())) else []
    return real(*given, **named)


_INSTANCE = random.random.__self__  # type: ignore[attr-defined]
_CHANCE = [name for name in dir(random) if getattr(getattr(random, name), "__self__", None) is _INSTANCE]
_DRAWS: dict[tuple[int, str], Callable[..., Any]] = {
    (id(dates.datetime), "now"): _now,
    (id(dates.datetime), "today"): _now,
    (id(dates.datetime), "utcnow"): _utcnow,
    (id(dates.date), "today"): _date,
    (id(time), "time"): _time,
    (id(time), "time_ns"): _time_ns,
    **{(id(time), name): _parts for name in ("localtime", "gmtime", "ctime", "asctime", "strftime")},
    **{(id(_INSTANCE), name): _chance for name in _CHANCE if name != "getstate"},
    **{(id(_INSTANCE), name): _seed for name in ("seed", "setstate")},
    (id(uuid.uuid1), "uuid1"): _uuid,
    (id(uuid.uuid4), "uuid4"): _uuid,
}
"""What is recorded: whose it is and its name → how."""
_NAMES = frozenset(name for _, name in _DRAWS)


def _drawn(found: Any, site: str) -> Any:
    """What an own file has read at a site; where it is a function of the clock or of chance, one that records."""
    kind = type(found)
    if kind is BuiltinFunctionType or kind is MethodType:
        owner = found.__self__
    elif kind is FunctionType:
        owner = found
    else:  # nothing is asked of an object that may do anything when it is
        return found
    draw = _DRAWS.get((id(owner), getattr(found, "__name__", "")))
    if draw is None:
        return found
    site = f"{site} {found.__name__}"

    def drawn(*given: Any, **named: Any) -> Any:
        values = VALUES.get()
        if values is None and draw is not _seed:
            return found(*given, **named)
        return draw(values, site, found, *given, **named)

    return drawn


class _Marked(ast.NodeTransformer):
    """Puts a mark around what may be a function of the clock or of chance. Annotations and patterns are left alone."""

    def __init__(self, file: str, names: frozenset[str]) -> None:
        self.count = 0
        """Marks so far."""
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

    def _visit_named(self, node: Any) -> Any:
        self._within.append(node.name)
        returns, node.returns = getattr(node, "returns", None), None
        self.generic_visit(node)
        node.returns = returns
        self._within.pop()
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_named  # noqa: N815

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = self.visit(node.value) if node.value is not None else None
        return node

    def visit_TypeAlias(self, node: Any) -> Any:
        return node

    visit_MatchValue = visit_MatchClass = visit_MatchMapping = visit_TypeAlias  # noqa: N815


def _imported(tree: ast.AST) -> Iterator[str]:
    """The names that a file gives to functions of the clock and of chance which it imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for one in node.names:
                if one.name in _NAMES:
                    yield one.asname or one.name
                elif one.name == "*":
                    yield from _NAMES


def _compiled(path: str, source: bytes) -> CodeType | None:
    """An own file with its marks; ``None``: it needs none, or Python itself is to say what is wrong with it."""
    if not _MENTIONS.search(source):
        return None
    place = Path(path)
    file = f"{place.parent.name}/{place.name}" if place.stem == "__init__" else place.name
    try:
        tree = ast.parse(source, path)
        marks = _Marked(file, frozenset(_imported(tree)))
        marked = marks.visit(tree)
        return compile(marked, path, "exec", dont_inherit=True) if marks.count else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def install(*, always: bool = False) -> None:
    """Have own files draw from :data:`VALUES`: those that are imported where a system runs, or `always`."""
    if hasattr(builtins, _MARK):
        return
    loader: Any = importlib.machinery.SourceFileLoader
    before = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        # A loader of somebody's own that is made of this one changes the source itself.
        if not always and VALUES.get() is None and READS.get() is None:
            return before(self, fullname)
        marked = _compiled(self.path, self.get_data(self.path)) if type(self) is loader and is_own(self.path) else None
        if marked is None:
            return before(self, fullname)
        DRAWING.add(self.path)
        return marked

    if hasattr(os, "register_at_fork"):  # in a child nobody is told, and another thread may have held a lock
        os.register_at_fork(after_in_child=lambda: VALUES.set(None))
    setattr(builtins, _MARK, _drawn)
    loader.get_code = get_code
