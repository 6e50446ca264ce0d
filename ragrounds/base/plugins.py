"""Discovery of objects without a central list: from a folder's modules, from installed packages, and by a user's import
path.

Code runs only if the user installed it (an entry point) or typed its path (``package.module:NAME``,
``./file.py:NAME``). No function of this module receives a name from a store, a benchmark, a card or any other data.

A package adds an object by an entry point with the object's name. An addition is skipped if it cannot be imported, has
the wrong kind, or has a name that is already taken. One line on standard error reports it, and everything else works.
The error is raised only if that very name is requested.
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
    """An object with a name that users type."""

    @property
    def name(self) -> str:
        """Return the name."""


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
    """Return the object of a name from the module of that name. No other module is imported."""
    module = None if name.startswith("_") else hook.module(name)
    for attribute, value in vars(importlib.import_module(module)).items() if module else ():
        if isinstance(value, kind) and value.name == name:  # type: ignore[attr-defined]
            note_home(value, module or "", attribute)
            return value
    return None


class NoSuchModule(UserError):
    """Error: a user's import path names a module that is neither installed nor in the current folder."""


class InstalledAddition(NamedTuple):
    """An entry point by which an installed package adds an object, and its fault if the object cannot be used."""

    group: str
    """Group of entry points, such as ``ragrounds.scorers``."""
    name: str
    """Name that users type."""
    value: str
    """Import path, ``package.module:NAME``."""
    package: str
    """Name of the distribution."""
    version: str
    fault: str = ""
    """Reason why it cannot be used. Empty if it can."""

    @property
    def origin(self) -> str:
        """Return the package name with its version."""
        return f"{self.package} {self.version}".strip()


class _Loaded(NamedTuple, Generic[T]):
    addition: InstalledAddition
    value: T | None


@dataclass(frozen=True)
class ExtensionPoint(Generic[T]):
    """Registry of one hook's objects: shipped, added by installed packages, or named by a user's import path."""

    hook: hooks.Hook
    kinds: type[T]
    """Required class of an object."""
    check: Callable[[T], str] = lambda value: ""
    """Function that returns what an object lacks, or an empty text."""
    ships: Callable[[], Mapping[str, T]] | None = None
    """Function that returns the shipped objects by name, if they are not objects in the modules of the hook's
    folders.
    """

    def shipped(self) -> Mapping[str, T]:
        """Return the objects that ship with ragrounds, by name. No package and no user can take one of these names."""
        return self.ships() if self.ships else _discovered(self.hook, self.kinds)  # type: ignore[arg-type]

    def ours(self, name: str) -> T | None:
        """Return the shipped object of a name, or ``None``."""
        from_module = None if self.ships else _of_own_module(self.hook, self.kinds, name)  # type: ignore[arg-type]
        return from_module or self.shipped().get(name)

    def installed(self) -> dict[str, T]:
        """Return the objects that installed packages add, by name. Unusable ones are left out and reported once on
        standard error.
        """
        usable = {}
        for addition, value in _loaded(self):
            if value is None:
                warn_once(f"{self._culprit(addition)} was skipped: {addition.fault} See `ragrounds doctor`.")
            else:
                usable[addition.name] = value
        return usable

    def additions(self) -> list[InstalledAddition]:
        """Return every entry point of the group, with its fault."""
        return [loaded.addition for loaded in _loaded(self)]

    def all(self) -> dict[str, T]:
        """Return all objects by name: shipped first, then those of installed packages."""
        return {**self.shipped(), **self.installed()}

    def find(self, name: str) -> T | None:
        """Return the shipped or installed object of a name, or ``None``. Other packages are not imported.

        Raises:
            UserError: an installed package adds the object, and it cannot be used.
        """
        if (ours := self.ours(name)) is not None:
            return ours
        addition = self.addition(name)
        return addition[1] if addition else None

    def addition(self, name: str) -> tuple[InstalledAddition, T] | None:
        """Return the entry point of a name and its object, or ``None`` if no installed package has one.

        Raises:
            UserError: the object cannot be used.
        """
        for addition, value in _loaded(self, name):
            if value is None:
                raise UserError(f"{self._culprit(addition)} cannot be used: {addition.fault}")
            return addition, value
        return None

    def resolve(self, text: str, known_names: Iterable[str] = ()) -> T:
        """Return the object that a user typed: by its name, or by an import path, which runs that code.

        Args:
            text: a name, ``package.module:NAME`` or ``./file.py:NAME``, typed by the user: never data.
            known_names: more names, for the error.

        Raises:
            UserError: the name is unknown. The message suggests the nearest name.
        """
        if is_import_path(text):
            return self.imported(text)
        match = self.find(text)
        if match is None:
            raise unknown(self.hook.noun, text, [*self.all(), *known_names], self.hook.listing)
        return match

    def imported(self, path: str) -> T:
        """Return the object at an import path that the user typed. The current folder is searched too.

        Raises:
            UserError: the object has the wrong kind, or its name is already taken.
        """
        value = imported(path, self.kinds, self.hook.expected)
        with guarded(f"checking {path!r}"):
            missing = self.check(value)
        if missing:
            raise UserError(f"{path!r}: {missing}")
        name = getattr(value, "name", None)
        if isinstance(name, str):
            other = self.ours(name)
            taken_by = "ships with ragrounds"
            if other is None and (additions := [loaded for loaded in _loaded(self, name) if loaded.value is not None]):
                other, taken_by = additions[0].value, f"the package {additions[0].addition.origin} adds"
            if other is not None and other is not value and other != value:
                raise UserError(
                    f"{path} has the name {name!r}, but {_a(self.hook.noun)} of this name {taken_by}. Give it another "
                    "name."
                )
        return value

    def origin(self, name: str) -> str:
        """Return the package, with its version, that adds this name. Empty if the name is shipped or unknown."""
        if self.ours(name) is not None:
            return ""
        return next((loaded.addition.origin for loaded in _loaded(self, name)), "")

    def used(self, name: str) -> AbstractContextManager[None]:
        """Guard the use of the object of this name: an exception of an added object becomes an error of one line.

        Shipped objects are not guarded, because their faults are faults of ragrounds.
        """
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
    """Return the attribute of an added object that has the wrong kind, for :attr:`ExtensionPoint.check`, or an empty
    text.
    """
    for name, kind in (*((name, "a text") for name in texts), *((name, "a function") for name in functions)):
        attribute = getattr(value, name)
        if not (isinstance(attribute, str) if kind == "a text" else callable(attribute)):
            return f"its {name!r} is {type(attribute).__name__}, expected {kind}."
    return ""


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def extension_points() -> dict[str, ExtensionPoint[Any]]:
    """Return the extension points by group of entry points. Their modules are imported."""
    locations = [hook.point.partition(":") for hook in hooks.HOOKS if hook.point]
    points: list[ExtensionPoint[Any]] = [
        getattr(importlib.import_module(module), name) for module, _, name in locations if hooks.module_spec(module)
    ]
    return {point.hook.group: point for point in points}


def declared(prefix: str) -> list[InstalledAddition]:
    """Return every entry point of the groups that begin with `prefix`, by group and name. Nothing is imported."""
    entries = [entry for entry in _entries(tuple(sys.path)) if entry.group.startswith(prefix)]
    return sorted(map(_addition, entries))


@lru_cache(maxsize=4)
def _entries(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return all entry points of ragrounds' groups. A package counts once, as found first on the path."""
    entries_by_package: dict[str, list[EntryPoint]] = {}
    for package in distributions():
        try:
            entries = [entry for entry in package.entry_points if entry.group.startswith("ragrounds.")]
            if entries:
                entries_by_package.setdefault(re.sub(r"[-_.]+", "-", package.metadata["Name"] or "").lower(), entries)
        except Exception as problem:
            warn_once(
                f"What is installed at {package.locate_file('')} cannot be read: {type(problem).__name__}: {problem}"
            )
    return tuple(entry for entries in entries_by_package.values() for entry in entries)


def _addition(entry: EntryPoint, fault: str = "") -> InstalledAddition:
    name = version = ""
    if entry.dist is not None:
        name, version = str(entry.dist.name or ""), str(entry.dist.version or "")
    return InstalledAddition(entry.group, entry.name, entry.value, name or "(without a name)", version, fault)


def _loaded(point: ExtensionPoint[T], name: str | None = None) -> Iterator[_Loaded[T]]:
    """Load the entry points of a group, or those of one name in it, and yield them with their faults.

    If several packages add the same name, none of them is loaded, because the intended one is unknown.
    """
    entries = [entry for entry in _entries(tuple(sys.path)) if entry.group == point.hook.group]
    shipped: Collection[str] = point.shipped() if entries else ()
    for entry in sorted(entries, key=lambda entry: (entry.name, _addition(entry))):
        if name is not None and entry.name != name:
            continue
        other_origins = {
            _addition(other).origin for other in entries if other.name == entry.name and other is not entry
        }
        fault = ""
        if not _NAME.fullmatch(entry.name):
            fault = "a name begins with a letter and holds letters, digits, '-' and '_' only."
        elif entry.name in shipped:
            fault = f"the name is that of {_a(point.hook.noun)} that ships with ragrounds."
        elif other_origins:
            fault = f"the name is added by {' and '.join(sorted(other_origins))} too; uninstall one of them."
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
                object_name = entry.name if isinstance(value, type) else getattr(value, "name", entry.name)
                missing = point.check(value)
            if object_name != entry.name:
                raise UserError(
                    f"the entry point's name is {entry.name!r}, the object's {object_name!r}; call both alike."
                )
            if missing:
                raise UserError(missing)
            note_home(value, entry.module, entry.attr)
            _LOADED[key] = _Loaded(_addition(entry), value)
        except UserError as problem:
            _LOADED[key] = _Loaded(_addition(entry, str(problem)), None)
    return _LOADED[key]  # type: ignore[return-value]


_SAID: set[str] = set()


def warn_once(text: str) -> None:
    """Log a warning once per text, by default to standard error."""
    if text not in _SAID:
        _SAID.add(text)
        _LOG.warning("%s", "".join(letter if letter.isprintable() else "\ufffd" for letter in text))


def is_import_path(text: str) -> bool:
    """Return True if a text has the form ``package.module:NAME`` or ``PATH.py:NAME``."""
    return _IMPORT_PATH.fullmatch(text) is not None


def imported(path: str, kinds: type[T] | tuple[type[T], ...], expected: str) -> T:
    """Return the object at ``package.module:NAME`` or ``./file.py:NAME``, or the result of calling it without
    arguments.

    Args:
        path: The import path. Importing runs the user's code: paths come from the user's command, never from data.
        kinds: Required class of the object.
        expected: Description of these classes, for the error.

    Raises:
        UserError: the module or name does not exist, importing fails, or the object has the wrong class.
    """
    module_path, _, name = path.rpartition(":")
    if not module_path or not name:
        raise UserError(f"{path!r} is not an import path: expected package.module:NAME or ./file.py:NAME.")
    module = imported_module(module_path)
    target: object = module
    for part in name.split("."):
        if not hasattr(target, part):
            same_name_file = Path(f"{module_path}.py")
            is_other_file = (
                same_name_file.is_file() and Path(module.__file__ or "").resolve() != same_name_file.resolve()
            )
            file = f" For the file in this folder, give ./{same_name_file}:{name}." if is_other_file else ""
            raise UserError(f"{module_path!r} has no {name!r}.{nearest(part, dir(target))}{file}")
        target = getattr(target, part)
    with _running(path):
        value = _instance(target, kinds, expected, path)
    note_home(value, module.__name__, name)
    return value


def _instance(target: object, kinds: type[T] | tuple[type[T], ...], expected: str, path: str) -> T:
    if not isinstance(target, kinds) and callable(target) and _needs_no_arguments(target):
        target = target()
    if not isinstance(target, kinds):
        description = f"the class {target.__name__}" if isinstance(target, type) else f"{type(target).__name__}"
        raise UserError(
            f"{path!r} gives {description}: expected {expected}, or a function that makes one without arguments."
        )
    return target


def _needs_no_arguments(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # a function written in C has no signature
        return True
    return True


_CHECKS: dict[str, dict[str, Callable[[], None]]] = {}


def before_import(path: str, asker: str, check: Callable[[], None]) -> None:
    """Register a check that runs before the module at a path is imported. The check raises UserError to forbid the
    import.

    Each asker has one check per path.
    """
    _CHECKS.setdefault(path, {})[asker] = check


def is_checked(path: str) -> bool:
    """Return True if a check is registered for the module at a path."""
    return bool(_CHECKS.get(path))


def check_before(path: str) -> None:
    """Run the checks that are registered for the module at a path, before it is imported here or in another process.

    Raises:
        UserError: a check forbids the import.
    """
    for check in _CHECKS.get(path, {}).values():
        check()
    _CHECKS.pop(path, None)


def imported_module(path: str) -> ModuleType:
    """Import the module that a user named: a file, ``PATH.py``, or a dotted name.

    A dotted name may be installed or be in the current folder, which is searched last.

    Raises:
        UserError: the module does not exist, or its import fails.
    """
    check_before(path)
    folder = str(Path.cwd())
    if folder not in sys.path and "" not in sys.path:
        sys.path.append(folder)  # like python -m, but after everything that is installed
        importlib.invalidate_caches()
    if path.endswith(".py"):
        return _file_module(Path(path).expanduser())
    with _running(path):
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as problem:
            if problem.name is None or not f"{path}.".startswith(f"{problem.name}."):
                raise
            raise NoSuchModule(f"There is no module {path!r}, neither installed nor in the current folder.") from None


def _file_module(path: Path) -> ModuleType:
    """Return the module of a file.

    While the file and its imports from the same folder are unchanged, the same module is returned; after an edit, a new
    one.
    """
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r}.")
    try:
        source_files = files_behind(path)
    except (SyntaxError, ValueError):  # the import below raises an error with the reason
        source_files = (path.resolve(),)
    contents = [str(path.resolve()).encode(), *(file.read_bytes() for file in source_files)]
    stamp = hashlib.sha256(b"\0".join(contents)).hexdigest()[:12]
    full = f"{FILE_MODULE}{path.stem}_{stamp}"
    if full in sys.modules:
        return sys.modules[full]
    folder = path.resolve().parent
    for source_file in source_files:  # forget loaded versions, so that the current files are imported
        parts = source_file.relative_to(folder).with_suffix("").parts
        sys.modules.pop(".".join(parts[:-1] if parts[-1] == "__init__" else parts), None)
    spec = importlib.util.spec_from_file_location(full, path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"Cannot load {str(path)!r} as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full] = module
    try:
        with _running(str(path)), _first_on_path(str(folder)):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full]
        raise
    return module


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    """Put a folder first on the path while a file of it is imported, as `python FILE` does.

    Afterwards the folder is last, behind everything that is installed, for later imports of the file.
    """
    before = list(sys.path)
    sys.path[:] = [folder, *(entry for entry in before if entry != folder)]
    importlib.invalidate_caches()
    try:
        yield
    finally:
        added = [entry for entry in sys.path if entry not in (folder, *before)]
        sys.path[:] = [*added, *before, *([] if folder in before else [folder])]


@contextmanager
def guarded(description: str) -> Iterator[None]:
    """Convert any exception of an added object within the block into an error of one line.

    Raises:
        UserError: the object raised an exception.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{description} failed: {failure(problem)}") from problem


@contextmanager
def _running(description: str) -> Iterator[None]:
    """Convert any exception of imported code within the block into an error of one line.

    Printed text goes to standard error, so that results on standard output stay intact.

    Raises:
        UserError: the code raised an exception, or tried to end the process.
    """
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            yield
    except (KeyboardInterrupt, UserError):
        raise
    except SystemExit:
        raise UserError(f"{description} tried to end the process while it was imported.") from None
    except BaseException as problem:
        raise UserError(f"importing {description} failed: {failure(problem)}") from problem
    finally:
        if text := " ".join(printed.getvalue().split()):
            warn_once(f"{description} printed while it was imported: {text[:200]!r}")
