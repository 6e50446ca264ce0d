"""What a system reads, as it is now: files, folders, its own code, variables, the versions of packages.

The recorder hears it (:mod:`ragrounds.recorder.reads`), in our process or in a host. Here it gets digests, and is
compared with what a run read. Of a large file a digest of some of its blocks, its size and its time has to do.
docs/concepts/identity.md has the rules for users.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.packages import installed_versions, version_of
from ragrounds.base.digests import absolute_names, module_file, read_source, text_digest
from ragrounds.base.records import Read
from ragrounds.base.redaction import redacted
from ragrounds.recorder.reads import NAMED, READS, Reads, is_data, is_secret_name

_WHOLE = 64 << 20
"""Bytes up to which a file is read whole for its digest."""
_BLOCK = 1 << 20
_LONGEST = 200
"""Characters of a variable's value that are kept."""
_ANOTHER = "another"
"""Stands for the digest of a file that had changed before one was made."""
_MOST = 20_000
"""Things of one kind that are kept of a system."""


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
    """Sources that stand in no file, as a notebook's functions: digests of their syntax and of what they name."""
    imports: tuple[str, ...] = ()
    """Modules that these have imported."""
    data: tuple[Path, ...] = ()
    """Files and folders that the agent's file names as read."""

    def joined(self, other: OwnSource) -> OwnSource:
        """Both together."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in self.__struct_fields__}
        made: dict[str, Any] = {
            name: {**one, **more} if isinstance(one, Mapping) else (*one, *more) for name, (one, more) in both.items()
        }
        return OwnSource(**made)

    @property
    def folder(self) -> Path:
        """From where the files that it reads are seen."""
        return next((path.resolve().parent for path in self.files), Path.cwd())


class ToldReads(Struct, eq=False):
    """What :meth:`ragrounds.recorder.reads.Reads.take` gives."""

    files: dict[str, tuple[int, int]] = {}
    folders: dict[str, int] = {}
    written: dict[str, int] = {}
    variables: dict[str, str | None] = {}
    modules: dict[str, str] = {}
    imported: dict[str, int] = {}
    path: dict[str, int] = {}


class Heard(ToldReads, eq=False):
    """All that was heard of the systems of one process and folder."""

    here: Reads | None = None
    """What hears it in this process."""
    starts: set[Path] = set()
    """Files and modules at which its systems begin."""
    values: dict[tuple[Path, tuple[int, float]], str] = {}
    """Path, size and time when it was read → the digest that it had."""
    count: int = 0
    """Grows with what is heard."""
    lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def listen(self) -> int:
        """Take in what is new. Gives a number that stays the same where nothing is."""
        if self.here is not None and (told := self.here.take()):
            self.read(msgspec.convert(told, ToldReads))
        return self.count

    def read(self, told: ToldReads) -> None:
        """Take in what a process tells."""
        with self.lock:
            for kind in ToldReads.__struct_fields__:
                held = getattr(self, kind)
                held.update(getattr(told, kind))
                for extra in list(held)[_MOST:]:
                    del held[extra]
            self.count += 1

    def as_read(self, kind: Literal["code", "file"], name: str, path: Path) -> Read:
        """A file as it was when it was read. Where it has changed before it got a digest, that is another for good."""
        size, time = self.files.get(str(path), (None, 0))
        mark = _mark(path) if size is None else (size, time / 1e9) if size >= 0 else (0, 0.0)
        if (path, mark) not in self.values:
            made = _file_digest if kind == "file" else _code_digest
            self.values[path, mark] = made(path) if _mark(path) == mark else _ANOTHER
        return Read(kind, name, self.values[path, mark], *mark)

    def imported_by_name(self) -> list[str]:
        """Its own modules that no statement of another one imports, and that no system begins at."""
        unnamed = [n for n in self.imported if not {Path(self.modules[n]), Path(n)} & self.starts]
        if not unnamed:
            return []
        named = {full for name, file in self.modules.items() for full in _imports(name, Path(file))}
        return [name for name in unnamed if name not in named]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Have what happens in this context heard, in our own process."""
        token = READS.set(self.here) if self.here is not None else None
        try:
            yield
        finally:
            if token is not None:
                READS.reset(token)


_HERE: dict[str, Heard] = {}
"""Folder or package → what was heard of its systems in this process."""


def heard_here(place: str) -> Heard:
    """What is heard of the systems of a folder or package that this process itself opens."""
    if place not in _HERE:
        NAMED.update(("ragrounds.graphs", *(() if os.sep in place or place == "ragrounds" else (place,))))
        _HERE[place] = Heard(here=Reads())
    return _HERE[place]


def forget(heard: Heard) -> None:
    """Begin anew with what was heard in this process."""
    for place in [place for place, held in _HERE.items() if held is heard]:
        del _HERE[place]


class Difference(NamedTuple):
    """Something that is another now than when it was read."""

    kind: str
    name: str
    then: str
    now: str


class SystemReads:
    """What one system has read, and what stands there now."""

    def __init__(self, source: OwnSource, heard: Heard) -> None:
        self.source, self._heard = source, heard
        self.listen, self.listening = heard.listen, heard.listening
        heard.starts.update(path.resolve() for path in source.files)
        heard.starts.update(Path(name) for name in source.modules)
        self._folder = source.folder
        self._places: dict[str, Path] = {}
        """Own modules by the names that are kept of them."""
        self._count = -1
        self._reads: tuple[Read, ...] = ()

    def reads(self) -> Sequence[Read]:
        """All that it has read so far. Files are read for their digests: this may take a while."""
        if self._heard.listen() != self._count:
            self._count = self._heard.count
            self._reads = tuple(self._made())
        return self._reads

    @property
    def changed(self) -> bool:
        """Whether a file or a variable is another now than when it was read."""
        # Folders and packages are looked at by `reads` itself, so that they are as now.
        return bool(self.differences(one for one in self.reads() if one.kind in ("code", "file", "variable")))

    def own_modules(self) -> Mapping[Path, str]:
        """Its own modules: their files → their names."""
        return self._closure()[0]

    @property
    def code(self) -> str:
        """The digest of its code, as far as it is loaded."""
        return text_digest(*sorted(f"{one.name}\0{one.value}" for one in self.reads() if one.kind == "code"))

    @property
    def digest(self) -> str:
        """The digest of all that it has read so far."""
        return text_digest(*sorted(f"{one.kind}\0{one.name}\0{one.value}" for one in self.reads()))

    def differences(self, then: Iterable[Read]) -> list[Difference]:
        """What of some run's reads is another now; what it writes itself is no part of it."""
        self.reads()
        kept = list(then)
        written = {one.name for one in kept if one.kind == "written"} | {self._name(p) for p in self._heard.written}
        found = {}
        for one in kept:
            if one.kind in ("written", "model", "server") or (one.kind == "file" and one.name in written):
                continue
            now = self._now(one, written)
            if now is not None and now != one.value:
                found[one.kind, one.name] = Difference(one.kind, one.name, one.value, now)
        return [found[key] for key in sorted(found)]

    def _made(self) -> Iterator[Read]:
        heard = self._heard
        own, outside = self._closure()
        modules = {*heard.modules.values(), *map(str, own)}
        for path, name in own.items():
            kept = self._module_name(name, path)
            self._places[kept] = path
            yield heard.as_read("code", kept, path)
        if self.source.sources:
            yield Read("code", "session", text_digest(*sorted(self.source.sources)))
        for name in heard.written:
            yield Read("written", self._name(name))
        named = [str(path.resolve()) for place in self.source.data for path in _files_of(place)]
        for name in dict.fromkeys([*named, *heard.files]):
            path = Path(name)
            if name not in heard.written and name not in modules and (is_data(name) or name in named):
                yield heard.as_read("file", self._name(name), path)
        for place in [*heard.folders, *(str(path.resolve()) for path in self.source.data if path.is_dir())]:
            yield Read("folder", self._name(place), _listing(Path(place), self._written()))
        for name, value in {**dict.fromkeys(self.source.variables, None), **heard.variables}.items():
            if not is_secret_name(name):
                now = value if name in heard.variables else self._variable(name)
                yield Read("variable", name, "" if now is None else f"={_shown(now)}")
        places = tuple(heard.path or sys.path)
        for name, version in sorted(installed_versions(outside, self.source.packages, places).items()):
            yield Read("package", name, version)

    def _closure(self) -> tuple[dict[Path, str], set[str]]:
        """The files of its own modules, with their names, and the other modules that they import."""
        known = self._heard.modules
        place_of = cache(self._place_of)  # many modules import the same
        starts = {path.resolve(): path.stem for path in self.source.files}
        starts |= {Path(known[name]): name for name in (*self.source.modules, *self.source.imports) if name in known}
        starts |= {Path(known[name]): name for name in self._heard.imported_by_name()}
        own: dict[Path, str] = {}
        outside = {name for name in (*self.source.imports, *self.source.modules) if name not in known}
        left = list(starts.items())
        while left:
            path, name = left.pop()
            if path in own:
                continue
            own[path] = name
            for full in (*_above(name), *_imports(name, path)):
                if (found := place_of(full) or known.get(full)) is not None:
                    left.append((Path(found), full))
                elif not any(above in known or place_of(above) for above in _above(full)):
                    outside.add(full)
        return own, outside

    def _place_of(self, name: str) -> Path | None:
        """The file of a module that lies in the system's folders, loaded or not. Two systems of one process may each
        have had one by the same name."""
        if name.partition(".")[0] == "ragrounds" or not self.source.files:
            return None
        folders = (self._folder, *self.source.folders)
        return next((path for folder in folders if (path := module_file(folder, name))), None)

    def _module_name(self, name: str, path: Path) -> str:
        """What is kept of a module's place: as seen from the system's folder, or from where its package is found."""
        if is_data(str(path)):
            return self._name(str(path))
        parts = len(name.split(".")) + (path.name == "__init__.py")
        return path.relative_to(path.parents[min(parts, len(path.parents)) - 1]).as_posix()

    def _name(self, path: str) -> str:
        near = any(Path(path).is_relative_to(place) for place in (self._folder, Path.cwd()))
        return redacted(os.path.relpath(path, self._folder).replace(os.sep, "/") if near else path)

    def _written(self) -> set[str]:
        return {Path(name).name for name in self._heard.written}

    def _variable(self, name: str) -> str | None:
        return os.environ.get(name, self.source.variables.get(name))

    def _kept(self, read: Read, path: Path) -> bool:
        """Whether a file is taken as equal by its size and time."""
        return read.value not in ("", _ANOTHER) and _mark(path) == (read.size, read.at)

    def _now(self, read: Read, written: set[str]) -> str | None:
        """What stands there now, in the form of :attr:`Read.value`; ``None``: that is not known."""
        path = self._folder / read.name
        if read.kind == "file":
            return read.value if self._kept(read, path) else _file_digest(path)
        if read.kind == "folder":
            return _listing(path, {Path(name).name for name in written})
        if read.kind == "code":
            if read.name == "session":
                return next((one.value for one in self._reads if one.name == "session"), "")
            path = self._places.get(read.name, path)
            return read.value if self._kept(read, path) else _code_digest(path)
        if read.kind == "variable":
            now = self._variable(read.name)
            return "" if now is None else f"={_shown(now)}"
        if read.kind == "package":
            return version_of(read.name, tuple(self._heard.path or sys.path))
        return None


def _mark(path: Path) -> tuple[int, float]:
    """A file's size and the time of its last change; zeros: there is no such file."""
    try:
        held = path.stat()
    except OSError:
        return 0, 0.0
    return (held.st_size, held.st_mtime_ns / 1e9) if stat.S_ISREG(held.st_mode) else (0, 0.0)


def _source(path: Path) -> tuple[str, Sequence[Any]]:
    """The digest of a module's syntax and what it imports; of one that this version of Python cannot read, of all its
    bytes."""
    try:
        return read_source(path)
    except (SyntaxError, ValueError, RecursionError):
        return _file_digest(path), ()
    except OSError:
        return "", ()


def _imports(name: str, path: Path) -> tuple[str, ...]:
    """What a module imports: modules, and names in them that may be modules."""
    return _imports_at(name, path, _mark(path))


@lru_cache(maxsize=4096)
def _imports_at(name: str, path: Path, _time: tuple[int, float]) -> tuple[str, ...]:
    """What a module imports, by the size and time of its file: every opened system asks it of all modules."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    wanted = (full for each in _source(path)[1] for full in absolute_names(each, package))
    return tuple(dict.fromkeys(filter(None, wanted)))


def _above(name: str) -> Iterator[str]:
    """The packages that a module lies in."""
    while name := name.rpartition(".")[0]:
        yield name


def _code_digest(path: Path) -> str:
    return _source(path)[0]


def _file_digest(path: Path) -> str:
    """Of what a file holds; empty: there is none."""
    size, at = _mark(path)
    try:
        return _digested(path, size, at) if at else ""
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _digested(path: Path, size: int, at: float) -> str:
    with path.open("rb") as file:
        if path.name.startswith(".env"):  # another key is no other system
            lines = file.read(_BLOCK).splitlines()
            kept = [
                line for line in lines if not is_secret_name(line.partition(b"=")[0].decode("utf-8", "replace").strip())
            ]
            return hashlib.sha256(b"\n".join(kept)).hexdigest()[:16]
        if size <= _WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
        some = hashlib.sha256(f"{size} {at}".encode())
        for place in (0, size // 2, size - _BLOCK):
            file.seek(place)
            some.update(file.read(_BLOCK))
        return some.hexdigest()[:16]


def _listing(folder: Path, written: set[str]) -> str:
    """Of the names in a folder, without hidden ones and those of files that the system writes; empty: there is none."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except OSError:
        return ""
    return text_digest(*sorted(n for n in names if not n.startswith((".", "__pycache__")) and n not in written))


def _files_of(place: Path) -> Iterator[Path]:
    """A file itself, or all files in a folder."""
    if place.is_dir():
        yield from (path for path in sorted(place.rglob("*"))[:_MOST] if path.is_file())
    else:
        yield place


def _shown(value: str) -> str:
    value = redacted(value)
    return value if len(value) <= _LONGEST else f"{value[:40]}… ({text_digest(value)})"
