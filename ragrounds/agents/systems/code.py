"""What a system's own source does and depends on: code, prompt and data files that it names, installed packages,
environment variables.

Everything is found by reading the source; nothing is imported. What is own is what begins at the system's file or
module and is imported from its folders, from its package, or from anywhere else outside of what is installed.
docs/concepts/identity.md has the rules for users.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import ModuleSpec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from ragrounds.agents.systems.packages import installed_versions
from ragrounds.agents.systems.source_facts import SourceFacts, facts_in, facts_of
from ragrounds.digests import absolute_names, file_mark, module_file, read_source, text_digest, tree_digest
from ragrounds.redaction import redacted

_OURS = "ragrounds"
_ROOMS = ("ragrounds.graphs",)
"""Parts of this package that count for a system that imports them, as they do for graphs of our own."""
_INSTALLED = frozenset({"site-packages", "dist-packages"})
TEXTS = (".txt", ".md", ".yaml", ".yml", ".toml", ".jinja", ".jinja2", ".j2", ".prompt")
"""Files that a source may name by their ending."""
_NAMED = (*TEXTS, ".json")
"""Files that a source may name. JSON files count by whole names alone: many systems write some of computed names."""
_OF_PROMPTS = ("prompt", "template")
"""What the name of a folder holds whose text files all count where a source names it."""
_PROJECT = ("pyproject.toml", "langgraph.json", "setup.py", ".git")
"""What the top folder of a project has."""
_MOST = 2000
"""Text files that count for one system: a folder with more of them holds data."""
_SECRET = re.compile(
    r"(?:^|_)[A-Z0-9]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH|COOKIE|DSN)(?:_(?:ID|FILE|PATH))?(?:_|$)"
)
_OF_THE_MACHINE = frozenset(
    "HOME PATH PWD OLDPWD USER LOGNAME SHELL TERM LANG TMPDIR TEMP TMP HOSTNAME PYTHONPATH VIRTUAL_ENV DISPLAY SHLVL "
    "COLUMNS LINES EDITOR PAGER TZ LANGUAGE XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME CUDA_VISIBLE_DEVICES".split()
)
"""Variables that say where a process runs."""
_LONGEST_VALUE = 200
_VARIABLE = re.compile(r"[A-Za-z_]\w{2,}")


class OwnSource(Struct, frozen=True, kw_only=True):
    """Where a system's own source begins."""

    files: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    """Dotted names."""
    folders: tuple[Path, ...] = ()
    """Folders of the user's on the import path, beside that of `files`."""
    packages: tuple[str, ...] = ()
    """Installed packages that are named as what it needs."""
    variables: Mapping[str, str] = {}
    """Environment variables that its configuration sets (``env`` of a ``langgraph.json``)."""
    sources: tuple[str, ...] = ()
    """Sources that stand in no file, as a notebook's functions."""
    values: Mapping[str, str] = {}
    """What these find beside them: name → text."""
    imports: tuple[str, ...] = ()
    """Modules that these have imported."""

    def joined(self, other: OwnSource) -> OwnSource:
        """Both together."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in self.__struct_fields__}
        made: dict[str, Any] = {
            name: {**one, **more} if isinstance(one, Mapping) else (*one, *more) for name, (one, more) in both.items()
        }
        return OwnSource(**made)


class SystemCode(Struct, frozen=True, kw_only=True):
    """What a system's own source does and depends on."""

    digest: str
    """Of its syntax: comments and layout do not count."""
    files: dict[str, str]
    """A file as the source names it → a digest of its content."""
    packages: dict[str, str]
    """Installed packages that the source imports → version."""
    requirements: dict[str, str]
    """What those require, directly or not → version."""
    environment: dict[str, str]
    """Environment variables that the source reads → value; of a variable that is not set there is nothing, and none of
    a name like a key's."""


class Reading(NamedTuple):
    """What a system reads now."""

    digest: str
    """Of its code, files and variables."""
    own: frozenset[tuple[str, Path]]
    """Its own modules: name and file."""
    sets: Mapping[str, str | None]
    """The variables that its configuration and the `.env` files which it reads would set."""

    def folders(self, source: OwnSource) -> dict[str, set[Path]]:
        """The topmost names of its own modules, as other modules import them → the folders that hold these."""
        begins = {(path.stem, path.resolve()) for path in source.files}
        found: dict[str, set[Path]] = {}
        for name, path in self.own - begins:
            parts, above = name.split("."), path.parents
            if parts[0] != _OURS:
                found.setdefault(parts[0], set()).add(above[len(parts) - (path.name != "__init__.py")])
        return found


def system_code(source: OwnSource) -> SystemCode:
    """Read what a system's own source does and depends on.

    Raises:
        SyntaxError: a file of it is not Python.
        ModuleNotFoundError: a module of it is not there.
    """
    own, outside = _closure(source)
    digest, files, environment, _ = _read(source, own)
    packages, requirements = installed_versions(outside, source.packages)
    return SystemCode(digest=digest, files=files, packages=packages, requirements=requirements, environment=environment)


def reading_of(source: OwnSource) -> Reading:
    """What a system reads, and where its own code stands.

    Raises:
        SyntaxError, ModuleNotFoundError: as :func:`system_code`.
    """
    own, _ = _closure(source)
    digest, files, environment, sets = _read(source, own)
    return Reading(text_digest(digest, repr(files), repr(environment)), frozenset(own), sets)


def _read(
    source: OwnSource, own: Mapping[tuple[str, Path], str]
) -> tuple[str, dict[str, str], dict[str, str], Mapping[str, str | None]]:
    """The digest of own code, the files and variables that it names, and the variables that it would set."""
    trees = [ast.parse(text) for text in source.sources]
    facts = [*(facts_of(path) for _, path in own), *map(facts_in, trees)]
    paths = [path for name, path in own if name.partition(".")[0] != _OURS]
    parts = [f"{name}\0{digest}" for (name, _), digest in own.items()]
    parts += [tree_digest(tree) for tree in trees]
    parts += [f"{name}={value}" for name, value in source.values.items()]
    folders = [*source.folders, *([Path.cwd()] if trees else [])]
    sets = _set_variables(paths, facts, source.variables)
    return (
        text_digest(*sorted(parts)),
        _named_files(paths, facts, folders),
        _environment(facts, sets),
        sets,
    )


def is_secret_name(name: str) -> bool:
    """Whether an environment variable is called as keys are: its value is never kept, and does not count."""
    return _SECRET.search(name.upper()) is not None


def _closure(source: OwnSource) -> tuple[dict[tuple[str, Path], str], set[str]]:
    """The digests of the system's own files, by module and file, and the other modules that they import."""
    folders = tuple(dict.fromkeys([*(path.resolve().parent for path in source.files), *source.folders]))
    roots = {*_ROOMS, *(_root(name) for name in source.modules)}
    left = [(path.stem, path.resolve()) for path in source.files]
    own: dict[tuple[str, Path], str] = {}
    outside: set[str] = set()
    _spec.cache_clear()  # a module may be there since
    for name in source.modules:
        path = _own_file(name, folders, roots)
        if path is not None:
            left.append((name, path))
        elif _spec(name, tuple(sys.path)) is not None:  # without a source: its package's version has to do
            outside.add(name)
        else:
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)
    for name in source.imports:
        if (path := _own_file(name, folders, roots)) is not None:
            left.append((name, path))
        else:
            outside.add(name)
    while left:
        name, path = left.pop()
        if (name, path) in own:
            continue
        own[name, path], imports = read_source(path)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for wanted in imports:
            found = False
            names = list(absolute_names(wanted, package))
            for full in names:
                if full and (inside := _own_file(full, folders, roots)) is not None:
                    left += [(full, inside), *_packages_above(full, folders, roots)]
                    found = True
            if not found and names[0]:
                outside.add(names[0])
    return own, outside


def _packages_above(full: str, folders: tuple[Path, ...], roots: set[str]) -> Iterator[tuple[str, Path]]:
    """The packages that a module lies in, whose ``__init__.py`` is run too."""
    while full := full.rpartition(".")[0]:
        if (path := _own_file(full, folders, roots)) is not None:
            yield full, path


def _own_file(full: str, folders: tuple[Path, ...], roots: set[str]) -> Path | None:
    """The file of a module that is the system's own; ``None``: it is not, or has no source."""
    for folder in folders:
        if path := module_file(folder, full):
            return path
    top = full.partition(".")[0]
    named = any(full == root or full.startswith(f"{root}.") for root in roots)
    if not named and (top == _OURS or top in sys.stdlib_module_names):
        return None
    spec = _spec(top, tuple(sys.path))
    if spec is None or not (named or _outside_of_installed(spec)):
        return None
    if "." not in full:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for place in spec.submodule_search_locations or ():
        if path := module_file(Path(place), full.partition(".")[2]):
            return path
    return None


def _root(name: str) -> str:
    """The package that is a module's own: its topmost, or the room of this one."""
    return ".".join(name.split(".")[: 2 if name.startswith(f"{_OURS}.") else 1])


@lru_cache(maxsize=1024)
def _spec(top: str, path: tuple[str, ...]) -> ModuleSpec | None:
    loaded = sys.modules.get(top)
    if loaded is not None and getattr(loaded, "__spec__", None) is not None:
        return loaded.__spec__
    try:
        return importlib.util.find_spec(top)
    except (ImportError, AttributeError, ValueError):
        return None


def is_own_file(module: str, path: Path) -> bool:
    """Whether a module's file is the user's own: no part of an installed package, of Python or of this package."""
    top = module.partition(".")[0]
    return top not in (*sys.stdlib_module_names, _OURS) and not _INSTALLED & {*path.parts}


def _outside_of_installed(spec: ModuleSpec) -> bool:
    """Whether a module is somebody's own: a source that lies where no packages are installed."""
    places = [spec.origin] if spec.origin and spec.has_location else list(spec.submodule_search_locations or ())
    return bool(places) and not any(_INSTALLED & {*Path(str(place)).parts} for place in places)


def _named_files(paths: Iterable[Path], facts: Iterable[SourceFacts], folders: Iterable[Path]) -> dict[str, str]:
    """The text files that own sources name, with digests of what they hold."""
    texts = {text for each in facts for text in each.texts}
    names = {text for text in texts if text.endswith(_NAMED) and text not in _NAMED and not {"*", ":"} & {*text}}
    endings = {text.rpartition("*")[2] for text in texts} & {*TEXTS}
    code = {folder.resolve() for folder in (*(path.parent for path in paths), *folders)}
    places = _places(code) | {Path.cwd()}
    named: set[Path] = set()
    for _ in range(2):  # PLACE / "prompts" / "answer" / "system.md"
        for place in places | named:
            named |= {place / each for each in _entries(place) & texts if (place / each).is_dir()}
    found: dict[str, set[Path]] = {}
    for place in sorted(places | named):
        there = _entries(place)
        for name in names:
            path = place / Path(name).expanduser()
            if (path.is_absolute() or name.split("/")[0] in (*there, "..", ".")) and _is_file(path):
                found.setdefault(name, set()).add(path.resolve())
        if place in named and any(part in place.name.lower() for part in _OF_PROMPTS):
            for path in islice(place.rglob("*"), _MOST):
                if path.suffix in TEXTS:
                    found.setdefault(path.relative_to(place).as_posix(), set()).add(path.resolve())
        elif place in code | named:
            for name in there:
                if Path(name).suffix in endings:
                    found.setdefault(name, set()).add((place / name).resolve())
    kept = sorted(found)[:_MOST]
    return {redacted(name): text_digest(*sorted({_content(path) for path in found[name]})) for name in kept}


def _places(folders: Iterable[Path]) -> set[Path]:
    """The folders of own sources, and those above them up to the top of their project."""
    places: set[Path] = set()
    for folder in {folder.resolve() for folder in folders}:
        above = [folder, *folder.parents[:4]]
        top = next((n for n, place in enumerate(above) if any((place / mark).exists() for mark in _PROJECT)), 0)
        places.update(above[: top + 1])
    return places


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _entries(place: Path) -> frozenset[str]:
    try:
        return _listed(place, place.stat().st_mtime_ns)
    except OSError:
        return frozenset()


@lru_cache(maxsize=512)
def _listed(place: Path, mark: int) -> frozenset[str]:
    with os.scandir(place) as entries:
        return frozenset(entry.name for entry in entries)


def _content(path: Path) -> str:
    try:
        return _hashed(path, file_mark(path))
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _hashed(path: Path, mark: tuple[int, int]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _set_variables(
    paths: Iterable[Path], facts: Iterable[SourceFacts], variables: Mapping[str, str]
) -> Mapping[str, str | None]:
    """The variables of its configuration, and of the `.env` files near own sources that read such."""
    given: dict[str, str | None] = dict(variables)
    if any(each.dotenv for each in facts):
        from dotenv import dotenv_values

        for place in sorted({Path.cwd(), *(path.parent for path in paths)}):
            for folder in (place, *place.parents[:2]):
                if _is_file(folder / ".env"):
                    given = {**dotenv_values(folder / ".env", interpolate=False), **given}
    return given


def _environment(facts: Iterable[SourceFacts], given: Mapping[str, str | None]) -> dict[str, str]:
    """The variables that own sources name, with their values now."""
    names = {name for each in facts for name in (*each.texts, *each.fields) if _VARIABLE.fullmatch(name)} | {*given}
    values = {name: os.environ.get(name, given.get(name)) for name in sorted(names)}
    return {
        name: _shown(value)
        for name, value in values.items()
        if value is not None and not is_secret_name(name) and name not in _OF_THE_MACHINE
    }


def _shown(value: str) -> str:
    value = redacted(value)
    return value if len(value) <= _LONGEST_VALUE else f"{value[:40]}… ({text_digest(value)})"
