"""Objects that are added without a list: those of a folder's modules, of installed packages, and of an import path."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

from ragrounds.digests import note_home
from ragrounds.errors import UserError, nearest


class Named(Protocol):
    """What has a name that users type."""

    @property
    def name(self) -> str:
        """The name."""


N = TypeVar("N", bound=Named)
T = TypeVar("T")


def discover(package: str, kind: type[N]) -> dict[str, N]:
    """The objects of a kind that the modules of a package hold at their top level, by name, in alphabetical order.

    Args:
        package: Dotted name; every module directly in it is imported, so modules import slow libraries where they use
            them.
        kind: The class of the objects.

    Raises:
        TypeError: two objects have the same name.
    """
    return dict(_discovered(package, kind))


@cache
def _discovered(package: str, kind: type[N]) -> tuple[tuple[str, N], ...]:
    found: dict[str, N] = {}
    for entry in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{entry.name}")
        for name, value in vars(module).items():
            if not isinstance(value, kind):
                continue
            if found.setdefault(value.name, value) is not value:
                raise TypeError(f"{module.__name__} has another {kind.__name__} of the name {value.name!r}.")
            note_home(value, module.__name__, name)
    return tuple(sorted(found.items()))


def installed(group: str, kind: type[N]) -> dict[str, N]:
    """The objects of a kind that installed packages add by entry points of a group, by name.

    Raises:
        UserError: an entry point cannot be imported, or names something else.
    """
    found = {}
    for entry in entry_points(group=group):
        value = imported(entry.value, kind, f"a {kind.__name__} (entry point {entry.name!r} of {group})")
        found[value.name] = value
    return found


def shipped_and_installed(package: str, group: str, kind: type[N]) -> dict[str, N]:
    """The objects of a kind by name: those of a package's modules, and those that installed packages add. A name that
    ships cannot be taken by another package.

    Raises:
        TypeError, UserError: as :func:`discover` and :func:`installed`.
    """
    return {**installed(group, kind), **discover(package, kind)}


def imported(path: str, kinds: type[T] | tuple[type[T], ...], expected: str) -> T:
    """The object that ``package.module:name`` names, or what it makes when it is called without arguments.

    Args:
        path: The import path. Importing runs the user's code: paths come from the user's command, never from data.
        kinds: What the object must be.
        expected: The same in words, for the error.

    Raises:
        UserError: there is no such module or name, or it is something else.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not name:
        raise UserError(f"{path!r} is no import path: expected package.module:name.")
    try:
        found: object = importlib.import_module(module_name)
    except ImportError as problem:
        raise UserError(f"Cannot import {module_name!r} of {path!r}: {problem}.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise UserError(f"{module_name!r} has no {name!r}.{nearest(part, dir(found))}")
        found = getattr(found, part)
    if not isinstance(found, kinds) and callable(found):
        found = found()
    if not isinstance(found, kinds):
        raise UserError(f"{path!r} gives {type(found).__name__}: expected {expected}, or a function that makes one.")
    note_home(found, module_name)
    return found
