"""Versions of installed packages that a source imports, and of what these require."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple, TypeAlias

_OURS = "ragrounds"
_Marks: TypeAlias = tuple[tuple[str, int], ...]
"""The folders of a path, with when something was last added to them or taken away."""


class _Package(NamedTuple):
    version: str
    requires: tuple[str, ...]


def installed_versions(modules: Iterable[str], named: Iterable[str], path: tuple[str, ...]) -> dict[str, str]:
    """The versions of the packages that hold some modules or are named, and of the others that these require.

    Args:
        modules: Dotted names. Those of the standard library and of this package are passed over.
        named: Packages by their own names, with or without versions.
        path: where they are installed.
    """
    marks = _marks(path)
    tops = {module.partition(".")[0] for module in modules} - {*sys.stdlib_module_names, _OURS}
    left = [*(name for top in sorted(tops) for name in _holding(top, marks)), *map(_name, named)]
    packages: dict[str, str] = {}
    while left:
        name = left.pop()
        if name and name != _OURS and name not in packages and (held := _package(name, marks)) is not None:
            packages[name] = held.version
            left += map(_name, held.requires)
    return packages


def version_of(name: str, path: tuple[str, ...]) -> str:
    """The version of a package that is installed in some folders; empty: it is in none."""
    held = _package(name, _marks(path))
    return "" if held is None else held.version


@lru_cache(maxsize=4096)
def _package(name: str, marks: _Marks) -> _Package | None:
    held = next(iter(distributions(name=name, path=[place for place, _ in marks])), None)
    return None if held is None else _Package(_version(held), tuple(held.requires or ()))


def _holding(top: str, marks: _Marks) -> Iterator[str]:
    """The packages that hold a module. A package of the module's own name is taken at its word, since looking through
    all that is installed takes a second."""
    from packaging.utils import canonicalize_name

    own = [top] if _package(top, marks) is not None else _installed_modules(marks).get(top, ())
    yield from map(canonicalize_name, own)


def _marks(path: tuple[str, ...]) -> _Marks:
    marks = []
    for place in map(os.path.abspath, path):  # an empty one is the working folder
        with contextlib.suppress(OSError):
            marks.append((place, Path(place).stat().st_mtime_ns))
    return tuple(marks)


@lru_cache(maxsize=4)
def _installed_modules(marks: _Marks) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for held in distributions(path=[place for place, _ in marks]):
        tops = (held.read_text("top_level.txt") or "").split()
        for top in tops or {file.parts[0].removesuffix(".py") for file in held.files or () if file.suffix == ".py"}:
            found.setdefault(top, []).append(str(held.metadata["Name"]))
    return found


@lru_cache(maxsize=4096)
def _name(text: str) -> str:
    """The name of what a requirement asks for here; empty: nothing, such as what only an extra needs."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return ""
    return canonicalize_name(wanted.name) if wanted.marker is None or wanted.marker.evaluate({"extra": ""}) else ""


def _version(held: Distribution) -> str:
    """A package's version; of one that was installed from a folder or a repository with a digest of its files, since
    these change without it."""
    version = str(held.version)
    if not held.read_text("direct_url.json"):
        return version
    record = held.read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if line.partition(",")[0].endswith(".py"))
    return f"{version}+{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:8]}"
