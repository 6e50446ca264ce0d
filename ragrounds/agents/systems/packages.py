"""Versions of installed packages that a source imports, and of their requirements."""

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
"""Folders of a path, with the time when an entry was last added or removed."""


class _Package(NamedTuple):
    version: str
    requires: tuple[str, ...]


def installed_versions(modules: Iterable[str], package_names: Iterable[str], path: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the packages that contain some modules or are named, and of their requirements.

    Args:
        modules: Dotted names. Those of the standard library and of this package are skipped.
        package_names: Names of packages, with or without versions.
        path: folders of installed packages.
    """
    marks = _marks(path)
    top_modules = {module.partition(".")[0] for module in modules} - {*sys.stdlib_module_names, _OURS}
    pending = [
        *(name for top in sorted(top_modules) for name in _packages_with(top, marks)),
        *map(_name, package_names),
    ]
    packages: dict[str, str] = {}
    while pending:
        name = pending.pop()
        if name and name != _OURS and name not in packages and (package := _package(name, marks)) is not None:
            packages[name] = package.version
            pending += map(_name, package.requires)
    return packages


def version_of(name: str, path: tuple[str, ...]) -> str:
    """Return the version of a package that is installed in some folders, or an empty text."""
    package = _package(name, _marks(path))
    return "" if package is None else package.version


def _package(name: str, marks: _Marks) -> _Package | None:
    packages = (_package_in(name, folder, modified) for folder, modified in marks)
    return next((package for package in packages if package is not None), None)


# By folder, because the path contains the user's own folder, too, which changes more often than those of packages.
@lru_cache(maxsize=16_384)
def _package_in(name: str, folder: str, _modified: int) -> _Package | None:
    distribution = next(iter(distributions(name=name, path=[folder])), None)
    return None if distribution is None else _Package(_version(distribution), tuple(distribution.requires or ()))


def _packages_with(top: str, marks: _Marks) -> Iterator[str]:
    """Yield the packages that contain a module.

    A package with the module's own name is assumed to contain it, because searching all installed packages takes a
    second.
    """
    from packaging.utils import canonicalize_name

    packages = [top]
    if _package(top, marks) is None:
        distributions_by_folder = (_modules_in(folder, modified).get(top, ()) for folder, modified in marks)
        packages = [str(d.metadata["Name"]) for in_folder in distributions_by_folder for d in in_folder]
    yield from map(canonicalize_name, packages)


def _marks(path: tuple[str, ...]) -> _Marks:
    marks = []
    for folder in map(os.path.abspath, path):  # an empty entry is the working folder
        with contextlib.suppress(OSError):
            marks.append((folder, Path(folder).stat().st_mtime_ns))
    return tuple(marks)


@lru_cache(maxsize=64)
def _modules_in(folder: str, _modified: int) -> dict[str, list[Distribution]]:
    """Return the modules at the top of the packages in a folder → the packages."""
    packages_by_module: dict[str, list[Distribution]] = {}
    for distribution in distributions(path=[folder]):
        tops = set((distribution.read_text("top_level.txt") or "").split())
        # The lines themselves: `Distribution.files` makes a path of each of a hundred thousand.
        files = (distribution.read_text("RECORD") or "").splitlines() if not tops else ()
        tops.update(file.partition("/")[0].partition(".py,")[0] for file in files if ".py," in file)
        for top in tops:
            packages_by_module.setdefault(top, []).append(distribution)
    return packages_by_module


@lru_cache(maxsize=4096)
def _name(text: str) -> str:
    """Return the name of the required package. Empty if the requirement does not apply here, such as that of an
    extra.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return ""
    return (
        canonicalize_name(requirement.name)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        else ""
    )


def _version(distribution: Distribution) -> str:
    """Return a package's version.

    If it was installed from a folder or a repository, a digest of its files is added, because they change without the
    version.
    """
    version = str(distribution.version)
    if not distribution.read_text("direct_url.json"):
        return version
    record = distribution.read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if line.partition(",")[0].endswith(".py"))
    return f"{version}+{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:8]}"
