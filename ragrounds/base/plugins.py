"""Objects that are added without a list: those of a folder's modules, of installed packages, and what a user names.

Code runs only where the user installed it (an entry point) or named it (``package.module:NAME``, ``./file.py:NAME``).
No function of this file is given a name that stands in a store, a benchmark, a card or any other data.

A package adds an object by an entry point whose name is the object's. What cannot be imported, is of another kind, or
takes a name that is somebody else's is left out: one line on standard error says so, and everything else works. Only
who asks for that very name gets the error.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, distributions
from io import StringIO
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ragrounds.base import hooks
from ragrounds.base.digests import FILE_MODULE, files_behind, home_of, note_home
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.recorder.errors import failure

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_IDENTIFIERS = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_IMPORT_PATH = re.compile(rf"(?:[^:\[\]]+\.py|{_IDENTIFIERS}):{_IDENTIFIERS}")


class Named(Protocol):
    """What has a name that users type."""

    @property
    def name(self) -> str:
        """The name."""


N = TypeVar("N", bound=Named)
T = TypeVar("T")


def discover(hook: hooks.Hook, kind: type[N]) -> dict[str, N]:
    """Return the objects of a kind at the top level of the modules of a hook's folders, by name, in alphabetical order.

    Every module is imported, so modules import slow libraries where they use them.

    Raises:
        UserError: two objects have the same name.
    """
    return dict(_discovered(hook, kind))


@cache
def _discovered(hook: hooks.Hook, kind: type[T]) -> Mapping[str, T]:
    objects: dict[str, T] = {}
    for module in hook.modules():
        for attribute, value in vars(importlib.import_module(module)).items():
            if not isinstance(value, kind):
                continue
            name: str = value.name  # type: ignore[attr-defined]
            if objects.setdefault(name, value) is not value:
                other = home_of(objects[name])
                raise UserError(f"The {hook.noun} {name!r} is in {other} and in {module}: give one another name.")
            note_home(value, module, attribute)
    return MappingProxyType(dict(sorted(objects.items())))


@cache
def _of_own_module(hook: hooks.Hook, kind: type[T], name: str) -> T | None:
    """Return the object of a name from the module of that name; no other module is imported for it."""
    module = None if name.startswith("_") else hook.module(name)
    for attribute, value in vars(importlib.import_module(module)).items() if module else ():
        if isinstance(value, kind) and value.name == name:  # type: ignore[attr-defined]
            note_home(value, module or "", attribute)
            return value
    return None


class NoSuchModule(UserError):
    """The import path of a user names a module that is neither installed nor in the current folder."""


class InstalledAddition(NamedTuple):
    """An entry point by which an installed package adds something, and whether that can be used."""

    group: str
    """Such as ``ragrounds.scorers``."""
    name: str
    """What users type."""
    value: str
    """``package.module:NAME``."""
    package: str
    """The distribution's name."""
    version: str
    fault: str = ""
    """Why it cannot be used; empty: it can."""

    @property
    def origin(self) -> str:
        """The package with its version."""
        return f"{self.package} {self.version}".strip()


class _Loaded(NamedTuple, Generic[T]):
    addition: InstalledAddition
    value: T | None


@dataclass(frozen=True)
class ExtensionPoint(Generic[T]):
    """Where the objects of a hook are found: what ships, what installed packages add, what a user names."""

    hook: hooks.Hook
    kinds: type[T]
    """What an object must be."""
    check: Callable[[T], str] = lambda value: ""
    """Says what else an object lacks; empty: nothing."""
    ships: Callable[[], Mapping[str, T]] | None = None
    """What comes with ragrounds, by name, where it is not objects in the modules of the hook's folders."""

    def shipped(self) -> Mapping[str, T]:
        """What comes with ragrounds, by name. No package and no user can take one of these names."""
        return self.ships() if self.ships else _discovered(self.hook, self.kinds)  # type: ignore[arg-type]

    def ours(self, name: str) -> T | None:
        """What comes with ragrounds under a name; ``None``: nothing does."""
        alone = None if self.ships else _of_own_module(self.hook, self.kinds, name)  # type: ignore[arg-type]
        return alone or self.shipped().get(name)

    def installed(self) -> dict[str, T]:
        """What installed packages add, by name, without what cannot be used: that is said once on standard error."""
        found = {}
        for addition, value in _loaded(self):
            if value is None:
                say_once(f"{self._culprit(addition)} was skipped: {addition.fault} See `ragrounds doctor`.")
            else:
                found[addition.name] = value
        return found

    def additions(self) -> list[InstalledAddition]:
        """Every entry point of the group, with what is wrong with it."""
        return [each.addition for each in _loaded(self)]

    def all(self) -> dict[str, T]:
        """Everything by name: what ships first, then what installed packages add."""
        return {**self.shipped(), **self.installed()}

    def find(self, name: str) -> T | None:
        """What has this name, shipped or installed; ``None``: nothing has. Other packages are not imported.

        Raises:
            UserError: an installed package adds it, and it cannot be used.
        """
        if (ours := self.ours(name)) is not None:
            return ours
        addition = self.addition(name)
        return addition[1] if addition else None

    def addition(self, name: str) -> tuple[InstalledAddition, T] | None:
        """The entry point of this name with what it gives; ``None``: no installed package has one.

        Raises:
            UserError: it cannot be used.
        """
        for addition, value in _loaded(self, name):
            if value is None:
                raise UserError(f"{self._culprit(addition)} cannot be used: {addition.fault}")
            return addition, value
        return None

    def named(self, text: str, known: Iterable[str] = ()) -> T:
        """What a user names: by its name, or by an import path, which runs that code.

        Args:
            text: a name, ``package.module:NAME`` or ``./file.py:NAME``, typed by the user: never data.
            known: more names, for the error.

        Raises:
            UserError: there is none; names the nearest.
        """
        if is_import_path(text):
            return self.imported(text)
        found = self.find(text)
        if found is None:
            raise unknown(self.hook.noun, text, [*self.all(), *known], self.hook.listing)
        return found

    def imported(self, path: str) -> T:
        """What an import path that the user typed gives. The current folder is looked in too.

        Raises:
            UserError: nothing of this kind is there, or it has the name of another one.
        """
        value = imported(path, self.kinds, self.hook.expected)
        with guarded(f"checking {path!r}"):
            lacks = self.check(value)
        if lacks:
            raise UserError(f"{path!r}: {lacks}")
        name = getattr(value, "name", None)
        if isinstance(name, str):
            other = self.ours(name)
            whose = "ships with ragrounds"
            if other is None and (found := [each for each in _loaded(self, name) if each.value is not None]):
                other, whose = found[0].value, f"the package {found[0].addition.origin} adds"
            if other is not None and other is not value and other != value:
                raise UserError(
                    f"{path} has the name {name!r}, but {_a(self.hook.noun)} of this name {whose}. Give it another "
                    "name."
                )
        return value

    def origin(self, name: str) -> str:
        """The package, with its version, that adds this name; empty: it ships, or nothing has that name."""
        if self.ours(name) is not None:
            return ""
        return next((found.addition.origin for found in _loaded(self, name)), "")

    def used(self, name: str) -> AbstractContextManager[None]:
        """While the object of this name is used: what one from outside raises becomes an error of one line. Nothing
        that ships is guarded: its faults are ours."""
        if self.ours(name) is not None:
            return nullcontext()
        origin = self.origin(name)
        return guarded(f"The {self.hook.noun} {name!r}" + (f" of the package {origin}" if origin else ""))

    def _culprit(self, addition: InstalledAddition) -> str:
        return (
            f"The {self.hook.noun} {addition.name!r} of the package {addition.origin} "
            f"(entry point {addition.value!r} of {addition.group})"
        )


def fields_amiss(value: object, texts: Iterable[str] = (), functions: Iterable[str] = ()) -> str:
    """What of an object from outside has the wrong kind, for :attr:`ExtensionPoint.check`; empty: nothing."""
    for name, kind in (*((name, "a text") for name in texts), *((name, "a function") for name in functions)):
        held = getattr(value, name)
        if not (isinstance(held, str) if kind == "a text" else callable(held)):
            return f"its {name!r} is {type(held).__name__}, expected {kind}."
    return ""


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def extension_points() -> dict[str, ExtensionPoint[Any]]:
    """Return where additions are looked for, by group of entry points. The packages that use them are imported."""
    places = [hook.point.partition(":") for hook in hooks.HOOKS if hook.point]
    points: list[ExtensionPoint[Any]] = [
        getattr(importlib.import_module(module), name) for module, _, name in places if hooks.module_spec(module)
    ]
    return {point.hook.group: point for point in points}


def declared(prefix: str) -> list[InstalledAddition]:
    """Every entry point of the groups that begin with `prefix`, by group and name. Nothing is imported."""
    found = [each for each in _entries(tuple(sys.path)) if each.group.startswith(prefix)]
    return sorted(map(_addition, found))


@lru_cache(maxsize=4)
def _entries(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """All entry points of ragrounds' groups, each package once, as the first on the path has them."""
    found: dict[str, list[EntryPoint]] = {}
    for each in distributions():
        try:
            entries = [entry for entry in each.entry_points if entry.group.startswith("ragrounds.")]
            if entries:
                found.setdefault(re.sub(r"[-_.]+", "-", each.metadata["Name"] or "").lower(), entries)
        except Exception as problem:
            say_once(f"What is installed at {each.locate_file('')} cannot be read: {type(problem).__name__}: {problem}")
    return tuple(entry for entries in found.values() for entry in entries)


def _addition(entry: EntryPoint, fault: str = "") -> InstalledAddition:
    name = version = ""
    if entry.dist is not None:
        name, version = str(entry.dist.name or ""), str(entry.dist.version or "")
    return InstalledAddition(entry.group, entry.name, entry.value, name or "(without a name)", version, fault)


def _loaded(point: ExtensionPoint[T], name: str | None = None) -> Iterator[_Loaded[T]]:
    """The entry points of a group, or those of one name in it, loaded where nothing speaks against it. Of a name that
    several packages add none is loaded: which one was meant cannot be told."""
    entries = [entry for entry in _entries(tuple(sys.path)) if entry.group == point.hook.group]
    shipped: Collection[str] = point.shipped() if entries else ()
    for entry in sorted(entries, key=lambda each: (each.name, _addition(each))):
        if name is not None and entry.name != name:
            continue
        others = {_addition(each).origin for each in entries if each.name == entry.name and each is not entry}
        fault = ""
        if not _NAME.fullmatch(entry.name):
            fault = "a name begins with a letter and holds letters, digits, '-' and '_' only."
        elif entry.name in shipped:
            fault = f"the name is that of {_a(point.hook.noun)} that ships with ragrounds."
        elif others:
            fault = f"the name is added by {' and '.join(sorted(others))} too; uninstall one of them."
        if fault:
            yield _Loaded(_addition(entry, fault), None)
        else:
            yield _load(entry, point)


_LOADED: dict[tuple[str, str, str, str], _Loaded[object]] = {}


def _load(entry: EntryPoint, point: ExtensionPoint[T]) -> _Loaded[T]:
    key = (entry.group, entry.name, entry.value, _addition(entry).origin)
    if key not in _LOADED:
        try:
            with _running(f"the package {_addition(entry).origin}"):
                value = _instance(entry.load(), point.kinds, point.hook.expected, entry.value)
                named = entry.name if isinstance(value, type) else getattr(value, "name", entry.name)
                lacks = point.check(value)
            if named != entry.name:
                raise UserError(f"the entry point's name is {entry.name!r}, the object's {named!r}; call both alike.")
            if lacks:
                raise UserError(lacks)
            note_home(value, entry.module, entry.attr)
            _LOADED[key] = _Loaded(_addition(entry), value)
        except UserError as problem:
            _LOADED[key] = _Loaded(_addition(entry, str(problem)), None)
    return _LOADED[key]  # type: ignore[return-value]


_SAID: set[str] = set()


def say_once(text: str) -> None:
    """Say a line once on standard error, or wherever the program sends the log records of this module."""
    if text not in _SAID:
        _SAID.add(text)
        _LOG.warning("%s", "".join(letter if letter.isprintable() else "\ufffd" for letter in text))


def is_import_path(text: str) -> bool:
    """Whether a text has the form ``package.module:NAME`` or ``PATH.py:NAME``."""
    return _IMPORT_PATH.fullmatch(text) is not None


def imported(path: str, kinds: type[T] | tuple[type[T], ...], expected: str) -> T:
    """The object that ``package.module:NAME`` or ``./file.py:NAME`` names, or what it makes when it is called without
    arguments.

    Args:
        path: The import path. Importing runs the user's code: paths come from the user's command, never from data.
        kinds: What the object must be.
        expected: The same in words, for the error.

    Raises:
        UserError: there is no such module or name, it fails, or it is something else.
    """
    place, _, name = path.rpartition(":")
    if not place or not name:
        raise UserError(f"{path!r} is not an import path: expected package.module:NAME or ./file.py:NAME.")
    module = imported_module(place)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            beside = Path(f"{place}.py")
            other = beside.is_file() and Path(module.__file__ or "").resolve() != beside.resolve()
            file = f" For the file in this folder, give ./{beside}:{name}." if other else ""
            raise UserError(f"{place!r} has no {name!r}.{nearest(part, dir(found))}{file}")
        found = getattr(found, part)
    with _running(path):
        value = _instance(found, kinds, expected, path)
    note_home(value, module.__name__, name)
    return value


def _instance(found: object, kinds: type[T] | tuple[type[T], ...], expected: str, path: str) -> T:
    if not isinstance(found, kinds) and callable(found) and _takes_nothing(found):
        found = found()
    if not isinstance(found, kinds):
        what = f"the class {found.__name__}" if isinstance(found, type) else f"{type(found).__name__}"
        raise UserError(f"{path!r} gives {what}: expected {expected}, or a function that makes one without arguments.")
    return found


def _takes_nothing(made: Callable[..., object]) -> bool:
    try:
        inspect.signature(made).bind()
    except TypeError:
        return False
    except ValueError:  # one written in C does not say
        return True
    return True


_CHECKS: dict[str, dict[str, Callable[[], None]]] = {}


def before_import(place: str, asker: str, check: Callable[[], None]) -> None:
    """Have something checked before the module of a place is imported by its path: it raises UserError to forbid that.
    One asker has one check a place."""
    _CHECKS.setdefault(place, {})[asker] = check


def is_checked(place: str) -> bool:
    """Whether somebody has something checked before that place is imported."""
    return bool(_CHECKS.get(place))


def check_before(place: str) -> None:
    """Check what is to be checked before the module of a place is imported, here or in another process.

    Raises:
        UserError: it must not be.
    """
    for check in _CHECKS.get(place, {}).values():
        check()
    _CHECKS.pop(place, None)


def imported_module(place: str) -> ModuleType:
    """The module that a user named: a file, ``PATH.py``, or a dotted name that is installed or stands in the current
    folder, which is looked in last.

    Raises:
        UserError: there is none, or it fails while it is imported.
    """
    check_before(place)
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)  # as Python's own -m does, but behind everything that is installed
        importlib.invalidate_caches()
    if place.endswith(".py"):
        return _file_module(Path(place).expanduser())
    with _running(place):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as problem:
            if problem.name is None or not f"{place}.".startswith(f"{problem.name}."):
                raise
            raise NoSuchModule(f"There is no module {place!r}, neither installed nor in the current folder.") from None


def _file_module(path: Path) -> ModuleType:
    """The module of a file: the same one as long as the file and what it imports from beside itself are the same,
    edited another."""
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r}.")
    try:
        behind = files_behind(path)
    except (SyntaxError, ValueError):  # importing says what is wrong
        behind = (path.resolve(),)
    contents = [str(path.resolve()).encode(), *(file.read_bytes() for file in behind)]
    stamp = hashlib.sha256(b"\0".join(contents)).hexdigest()[:12]
    full = f"{FILE_MODULE}{path.stem}_{stamp}"
    if full in sys.modules:
        return sys.modules[full]
    folder = path.resolve().parent
    for helper in behind:  # to be read as they are now
        parts = helper.relative_to(folder).with_suffix("").parts
        sys.modules.pop(".".join(parts[:-1] if parts[-1] == "__init__" else parts), None)
    spec = importlib.util.spec_from_file_location(full, path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"Cannot load {str(path)!r} as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        with _running(str(path)), _looked_in_first(str(folder)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]
        raise
    return module


@contextmanager
def _looked_in_first(folder: str) -> Iterator[None]:
    """A folder stands first on the path while a file of it is imported, as `python FILE` does; then behind everything
    that is installed, for what it imports later."""
    before = list(sys.path)
    sys.path[:] = [folder, *(place for place in before if place != folder)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        added = [place for place in sys.path if place not in (folder, *before)]
        sys.path[:] = [*added, *before, *([] if folder in before else [folder])]


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """While an object from outside is used: whatever it raises becomes an error of one line.

    Raises:
        UserError: it raised something.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{what} failed: {failure(problem)}") from problem


@contextmanager
def _running(what: str) -> Iterator[None]:
    """While code from outside runs: whatever it raises becomes an error of one line, and what it prints goes to
    standard error, so that results on standard output stay whole.

    Raises:
        UserError: it raised something, or tried to end the process.
    """
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            yield
    except (KeyboardInterrupt, UserError):
        raise
    except SystemExit:
        raise UserError(f"{what} tried to end the process while it was imported.") from None
    except BaseException as problem:
        raise UserError(f"importing {what} failed: {failure(problem)}") from problem
    finally:
        if text := " ".join(printed.getvalue().split()):
            say_once(f"{what} printed while it was imported: {text[:200]!r}")
