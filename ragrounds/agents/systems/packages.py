"""Versions of installed packages that a source imports, and of what these require."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

_OURS = "ragrounds"
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def installed_versions(modules: Iterable[str], named: Iterable[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of the packages that hold some modules or are named, and of the others that these require.

    Args:
        modules: Dotted names. Those of the standard library and of this package are passed over.
        named: Packages by their own names, with or without versions.
    """
    found: dict[str, Distribution] = {}
    for module in sorted(modules):
        top = module.partition(".")[0]
        if top not in sys.stdlib_module_names and top != _OURS:
            for name in _holding(module):
                _add(name, found)
    for text in named:
        if match := _REQUIRED.match(text.strip()):
            _add(match[0], found)
    packages = dict(found)
    left = list(found.values())
    while left:
        for name in _required(left.pop()):
            if _key(name) not in found and (held := _add(name, found)) is not None:
                left.append(held)
    below = {name: held for name, held in found.items() if name not in packages}
    return _versions(packages), _versions(below)


def _versions(found: dict[str, Distribution]) -> dict[str, str]:
    return {name: _version(held) for name, held in sorted(found.items())}


def _add(name: str, found: dict[str, Distribution]) -> Distribution | None:
    if _key(name) == _OURS:
        return None
    held = _distribution(_key(name))
    if held is not None:
        found.setdefault(_key(name), held)
    return held


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _holding(module: str) -> tuple[str, ...]:
    """The packages that hold a module. A package of the module's own name is taken at its word, since looking through
    all that is installed takes a second."""
    top, _, rest = module.partition(".")
    own = _distribution(_key(top))
    longer = _distribution(_key(module)) if rest else None
    if own is not None or longer is not None:
        return tuple(_key(held.name) for held in (own, longer) if held is not None)
    names = dict.fromkeys(_installed_modules(_marks()).get(top, ()))
    if len(names) < 2:
        return tuple(names)
    wanted = f"{module.replace('.', '/')}"
    several = [name for name in names if any(_lies_in(str(file), wanted) for file in distribution(name).files or ())]
    return tuple(several or names)


def _lies_in(file: str, module: str) -> bool:
    return file.startswith(f"{module}/") or file == f"{module}.py"


def _marks() -> tuple[tuple[str, int], ...]:
    """The folders of the import path, with when something was last added to them or taken away."""
    return tuple((place, Path(place).stat().st_mtime_ns) for place in sys.path if place and Path(place).is_dir())


@lru_cache(maxsize=4)
def _installed_modules(marks: tuple[tuple[str, int], ...]) -> dict[str, list[str]]:
    return dict(packages_distributions())


def _required(held: Distribution) -> Iterator[str]:
    """The names of what a package requires here, without its extras."""
    for text in held.requires or ():
        wanted, _, marker = text.partition(";")
        if marker and not _holds(marker):
            continue
        if match := _REQUIRED.match(wanted.strip()):
            yield match[0]


@lru_cache(maxsize=4096)
def _holds(marker: str) -> bool:
    """Whether a requirement's condition holds here; one that asks for an extra does not."""
    if re.search(r"\bextra\b", marker):
        return False
    try:
        from packaging.markers import InvalidMarker, Marker
    except ImportError:
        return True
    try:
        return Marker(marker).evaluate()
    except InvalidMarker:
        return True


def _version(held: Distribution) -> str:
    """A package's version; of one that was installed from a folder or a repository with a digest of its files, since
    these change without it."""
    version = str(held.version)
    if not held.read_text("direct_url.json"):
        return version
    record = held.read_text("RECORD") or ""
    lines = sorted(line for line in record.splitlines() if line.partition(",")[0].endswith(".py"))
    return f"{version}+{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:8]}"
