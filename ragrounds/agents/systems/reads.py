"""Current state of a system's dependencies: files, folders, its own code, variables, versions of packages.

The recorder notices them (:mod:`ragrounds.recorder.reads`), in ragrounds' process or in a host. This module computes
their digests, and compares them with those of a run. For a large file, the digest covers some of its blocks, its size
and its time. docs/concepts/identity.md has the rules for users.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ragrounds.agents.systems.packages import installed_versions, version_of
from ragrounds.base.digests import absolute_names, module_file, read_source, text_digest
from ragrounds.base.records import Read
from ragrounds.recorder.reads import NAMED, READS, Reads, is_data
from ragrounds.recorder.redaction import is_secret_name, redacted
from ragrounds.recorder.wire import setting

_MAX_WHOLE_BYTES = 64 << 20
"""Size up to which the digest of a file covers all bytes."""
_BLOCK = 1 << 20
_MAX_SHOWN = 200
"""Maximum number of stored characters of a variable's value."""
_CHANGED = "another"
"""Placeholder for the digest of a file that changed before its digest was computed."""
_LISTED = "listed"
"""Value of a written file that was in a listed folder before."""
_MAX_ENTRIES = 20_000
"""Maximum number of entries of one kind per system."""
OpenedFiles = Mapping[str, tuple[int, int]]
"""Path → size and modification time (nanoseconds) at the last opening. -1 if the file did not exist."""


class OwnSource(Struct, frozen=True, kw_only=True):
    """Entry points of a system's own source."""

    files: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    """Dotted names of modules."""
    folders: tuple[Path, ...] = ()
    """User's folders on the import path, in addition to the folder of `files`."""
    packages: tuple[str, ...] = ()
    """Installed packages that its configuration lists as dependencies."""
    variables: Mapping[str, str] = {}
    """Environment variables that its configuration sets (``env`` of a ``langgraph.json``)."""
    sources: tuple[str, ...] = ()
    """Sources outside files, such as a notebook's functions: digests of their syntax and of the values that they
    use.
    """
    imports: tuple[str, ...] = ()
    """Modules that these sources have imported."""
    data: tuple[Path, ...] = ()
    """Files and folders that the agent's file lists in ``reads``."""

    def joined(self, other: OwnSource) -> OwnSource:
        """Return the union of both."""
        both = {name: (getattr(self, name), getattr(other, name)) for name in self.__struct_fields__}
        merged: dict[str, Any] = {
            name: {**values, **more_values} if isinstance(values, Mapping) else (*values, *more_values)
            for name, (values, more_values) in both.items()
        }
        return OwnSource(**merged)

    @property
    def folder(self) -> Path:
        """Return the folder to which the names of its files are relative."""
        return next((path.resolve().parent for path in self.files), Path.cwd())


class ReportedDependencies(Struct, eq=False):
    """Dependencies that a process reports: the result of :meth:`ragrounds.recorder.reads.Reads.take`."""

    files: dict[str, tuple[int, int]] = {}
    folders: dict[str, int] = {}
    written: dict[str, int] = {}
    variables: dict[str, str | None] = {}
    modules: dict[str, str] = {}
    imported: dict[str, int] = {}
    path: dict[str, int] = {}


class RecordedDependencies(ReportedDependencies, eq=False):
    """All recorded dependencies of the systems of one process and folder."""

    in_process: Reads | None = None
    """Recorder in this process, if the systems run in it."""
    location: object = None
    """Folder or package of its systems, with the interpreter and environment of their hosts."""
    starts: set[Path] = set()
    """Files and modules that are entry points of its systems."""
    listed: set[str] = set()
    """Files that were in listed folders before the system wrote them, if it did: their names count."""
    values: dict[tuple[Path, tuple[int, float]], str] = {}
    """Path, and size and time at reading → the digest at that time."""
    count: int = 0
    """Counter that grows with every report."""
    lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def listen(self) -> int:
        """Take in new dependencies. Return a number that changes only if there are new ones."""
        if self.in_process is not None and (reported := self.in_process.take()):
            self.read(msgspec.convert(reported, ReportedDependencies))
        return self.count

    def read(self, reported: ReportedDependencies) -> None:
        """Take in the dependencies that a process reports."""
        with self.lock:
            for folder in reported.folders.keys() - self.folders.keys():
                written = {*self.written, *reported.written}
                self.listed |= {str(path) for path in _entries(Path(folder))} - written
            for kind in ReportedDependencies.__struct_fields__:
                entries = getattr(self, kind)
                entries.update(getattr(reported, kind))
                for extra in list(entries)[_MAX_ENTRIES:]:
                    del entries[extra]
            self.count += 1

    def as_read(self, kind: Literal["code", "file"], name: str, path: Path, opened: OpenedFiles) -> Read:
        """Return a file as it was when it was read. If it changed before its digest was computed, it counts as changed
        forever.
        """
        size, time = opened.get(str(path), (None, 0))
        mark = _mark(path) if size is None else (size, time / 1e9) if size >= 0 else (0, 0.0)
        if (path, mark) not in self.values:
            digest = _file_digest(path) if kind == "file" else _source(path)[0]
            # The mark is compared afterwards: the file may also change while the digest is computed.
            self.values[path, mark] = digest if _mark(path) == mark else _CHANGED
        return Read(kind, name, self.values[path, mark], *mark)

    def imported_by_name(self) -> list[str]:
        """Return its own modules that are neither imported by a statement of another one nor an entry point."""
        unnamed = [n for n in self.imported if not {Path(self.modules[n]), Path(n)} & self.starts]
        # A module is usually imported by one that was loaded shortly before it.
        for name, file in reversed(self.modules.items()):
            if not unnamed:
                break
            names = _imports(name, Path(file))
            unnamed = [module for module in unnamed if module not in names]
        return unnamed

    def listening(self) -> AbstractContextManager[None]:
        """Record the dependencies that are read in this context, if the systems run in this process."""
        return setting(READS, self.in_process) if self.in_process is not None else nullcontext()


class JoinedDependencies(RecordedDependencies, eq=False):
    """The recorded dependencies of several hosts, whose systems are used together."""

    parts: tuple[RecordedDependencies, ...] = ()

    def listen(self) -> int:
        """Take in the new dependencies of all hosts. Return a number that changes only if there are new ones."""
        count = sum(part.listen() for part in self.parts)
        if count != self.count:
            for part in self.parts:
                self.read(part)
            self.listed = {path for part in self.parts for path in part.listed}
            self.count = count
        return count


_IN_THIS_PROCESS: dict[str, RecordedDependencies] = {}
"""Folder or package → recorded dependencies of its systems in this process."""


def dependencies_in_process(location: str) -> RecordedDependencies:
    """Return the record of the dependencies of a folder's or package's systems that are opened in this process."""
    if location not in _IN_THIS_PROCESS:
        NAMED.update(("ragrounds.graphs", *(() if os.sep in location or location == "ragrounds" else (location,))))
        _IN_THIS_PROCESS[location] = RecordedDependencies(in_process=Reads(), location=location)
    return _IN_THIS_PROCESS[location]


def forget(heard: RecordedDependencies) -> None:
    """Forget dependencies that were recorded in this process."""
    for folder_or_package in [
        folder_or_package for folder_or_package, record in _IN_THIS_PROCESS.items() if record is heard
    ]:
        del _IN_THIS_PROCESS[folder_or_package]


class Difference(NamedTuple):
    """A dependency that has changed since it was read."""

    kind: str
    name: str
    recorded: str
    now: str


class SystemDependencies:
    """Dependencies of one system, and their current state."""

    def __init__(self, source: OwnSource, heard: RecordedDependencies) -> None:
        self.source, self._heard = source, heard
        self.listening = heard.listening
        heard.starts.update(path.resolve() for path in source.files)
        heard.starts.update(Path(name) for name in source.modules)
        self._folder = source.folder
        self._paths: dict[str, Path] = {}
        """Files of its own modules, by their stored names."""
        self._own_files: Mapping[Path, str] = {}
        self._count = -1
        self._opened: OpenedFiles = {}
        self._reads: tuple[Read, ...] = ()

    def listen(self) -> tuple[int, OpenedFiles]:
        """Take in new dependencies. Return a number that changes only if there are new ones, and the files so far."""
        count = self._heard.listen()
        return count, self._opened if count == self._count else dict(self._heard.files)

    def reads(self, listened: tuple[int, OpenedFiles] | None = None) -> Sequence[Read]:
        """Return all dependencies read so far. Digests are computed from the files, which may take a while.

        Args:
            listened: result of an earlier :meth:`listen`. Files opened again meanwhile count as they were.
        """
        count, opened = listened or self.listen()
        if count == self._count:
            return self._reads
        reads = tuple(self._with_digests(opened))
        self._count, self._opened, self._reads = count, opened, reads
        return reads

    @property
    def changed(self) -> bool:
        """Return True if a file or a variable has changed since it was read."""
        # For folders and packages, `reads` returns the current state, so a comparison would find no change.
        return bool(self.differences(read for read in self.reads() if read.kind in ("code", "file", "variable")))

    def own_modules(self) -> Mapping[Path, str]:
        """Return the files of its own modules → their names."""
        self.reads()
        return self._own_files

    @property
    def code(self) -> str:
        """Return the digest of its code, as far as it is loaded."""
        return text_digest(*sorted(f"{read.name}\0{read.value}" for read in self.reads() if read.kind == "code"))

    @property
    def digest(self) -> str:
        """Return the digest of all dependencies read so far."""
        return text_digest(*sorted(f"{read.kind}\0{read.name}\0{read.value}" for read in self.reads()))

    def differences(self, recorded: Iterable[Read]) -> list[Difference]:
        """Return the dependencies of a run that have changed since it was recorded. Files that the system writes are
        left out.
        """
        self.reads()
        earlier = list(recorded)
        written_files = {read.name: read.value for read in (*self._reads, *earlier) if read.kind == "written"}
        new_files = {name for name, value in written_files.items() if value != _LISTED}
        differences = {}
        for read in earlier:
            if read.kind in ("written", "model", "server") or (read.kind == "file" and read.name in written_files):
                continue
            now = self._now(read, new_files)
            if now is not None and now != read.value:
                differences[read.kind, read.name] = Difference(read.kind, read.name, read.value, now)
        return [differences[key] for key in sorted(differences)]

    def _with_digests(self, opened: OpenedFiles) -> Iterator[Read]:
        """Yield all dependencies with their digests."""
        heard = self._heard
        own_files, outside = self._closure()
        self._own_files = own_files
        modules = {*heard.modules.values(), *map(str, own_files)}
        for path, name in own_files.items():
            module_name = self._module_name(name, path)
            self._paths[module_name] = path
            yield heard.as_read("code", module_name, path, opened)
        if self.source.sources:
            yield Read("code", "session", text_digest(*sorted(self.source.sources)))
        for name in heard.written:
            yield Read("written", self._name(name), _LISTED if name in heard.listed else "")
        data_files = [
            str(file.resolve())
            for data in self.source.data
            for file in (sorted(data.rglob("*"))[:_MAX_ENTRIES] if data.is_dir() else [data])
            if file.is_file() or file == data
        ]
        for name in dict.fromkeys([*data_files, *opened]):
            path = Path(name)
            if name not in heard.written and name not in modules and (is_data(name) or name in data_files):
                yield heard.as_read("file", self._name(name), path, opened)
        for folder in [*heard.folders, *(str(path.resolve()) for path in self.source.data if path.is_dir())]:
            yield Read("folder", self._name(folder), _listing(Path(folder), heard.written.keys() - heard.listed))
        for name, value in {**dict.fromkeys(self.source.variables, None), **heard.variables}.items():
            if not is_secret_name(name):
                yield Read("variable", name, _shown(value) if name in heard.variables else self._variable(name))
        search_path = tuple(heard.path or sys.path)
        for name, version in sorted(installed_versions(outside, self.source.packages, search_path).items()):
            yield Read("package", name, version)

    def _closure(self) -> tuple[dict[Path, str], set[str]]:
        """Return the files of its own modules, with their names, and the other modules that they import."""
        loaded = self._heard.modules
        find_module = cache(self._module_path)  # many modules have the same imports
        starts = {path.resolve(): path.stem for path in self.source.files}
        starts |= {Path(loaded[name]): name for name in (*self.source.modules, *self.source.imports) if name in loaded}
        starts |= {Path(loaded[name]): name for name in self._heard.imported_by_name()}
        own_files: dict[Path, str] = {}
        outside = {name for name in (*self.source.imports, *self.source.modules) if name not in loaded}
        pending = list(starts.items())
        while pending:
            path, name = pending.pop()
            if path in own_files:
                continue
            own_files[path] = name
            for full in (*_parent_packages(name), *_imports(name, path)):
                if (file := find_module(full) or loaded.get(full)) is not None:
                    pending.append((Path(file), full))
                elif not any(package in loaded or find_module(package) for package in _parent_packages(full)):
                    outside.add(full)
        return own_files, outside

    def _module_path(self, name: str) -> Path | None:
        """Return the file of a module in the system's folders, loaded or not.

        Loaded modules do not suffice: two systems of one process may have modules of the same name.
        """
        if name.partition(".")[0] == "ragrounds" or not self.source.files:
            return None
        folders = (self._folder, *self.source.folders)
        return next((path for folder in folders if (path := module_file(folder, name))), None)

    def _module_name(self, name: str, path: Path) -> str:
        """Return the stored name of a module's file: relative to the system's folder, or to the folder of its
        package.
        """
        if is_data(str(path)):
            return self._name(str(path))
        parts = len(name.split(".")) + (path.name == "__init__.py")
        return path.relative_to(path.parents[min(parts, len(path.parents)) - 1]).as_posix()

    def _name(self, path: str) -> str:
        near = any(Path(path).is_relative_to(folder) for folder in (self._folder, Path.cwd()))
        return redacted(os.path.relpath(path, self._folder).replace(os.sep, "/") if near else path)

    def _variable(self, name: str) -> str:
        """Return the current value of a variable as it is stored, or an empty text if it is not set."""
        return _shown(os.environ.get(name, self.source.variables.get(name)))

    def _now(self, read: Read, new_files: set[str]) -> str | None:
        """Return the current value of a dependency, in the form of :attr:`Read.value`. ``None`` if it is unknown."""
        path = self._folder / read.name
        if read.kind == "code" and read.name == "session":
            return next((own_read.value for own_read in self._reads if own_read.name == "session"), "")
        if read.kind in ("file", "code"):
            path = self._paths.get(read.name, path) if read.kind == "code" else path
            if read.value not in ("", _CHANGED) and _mark(path) == (read.size, read.at):
                return read.value
            return _file_digest(path) if read.kind == "file" else _source(path)[0]
        if read.kind == "folder":
            return _listing(path, new_files)
        if read.kind == "variable":
            return self._variable(read.name)
        if read.kind == "package":
            return version_of(read.name, tuple(self._heard.path or sys.path))
        return None


def _mark(path: Path) -> tuple[int, float]:
    """Return a file's size and the time of its last change. Zeros if the file does not exist."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0.0
    return (status.st_size, status.st_mtime_ns / 1e9) if stat.S_ISREG(status.st_mode) else (0, 0.0)


def _source(path: Path) -> tuple[str, Sequence[Any]]:
    """Return the digest of a module's syntax, and its imports.

    If this version of Python cannot parse the module, the digest covers its bytes.
    """
    try:
        return read_source(path)
    except (SyntaxError, ValueError, RecursionError):
        return _file_digest(path), ()
    except OSError:
        return "", ()


def _imports(name: str, path: Path) -> tuple[str, ...]:
    """Return the imports of a module: modules, and names in them that may be modules."""
    return _imports_at(name, path, _mark(path))


@lru_cache(maxsize=4096)
def _imports_at(name: str, path: Path, _time: tuple[int, float]) -> tuple[str, ...]:
    """Return the imports of a module. The cache key contains its file's size and time, because every opened system asks
    for all modules.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    full_names = (full_name for statement in _source(path)[1] for full_name in absolute_names(statement, package))
    return tuple(dict.fromkeys(filter(None, full_names)))


def _parent_packages(name: str) -> Iterator[str]:
    """Yield the parent packages of a module."""
    while name := name.rpartition(".")[0]:
        yield name


def _file_digest(path: Path) -> str:
    """Return the digest of a file's content. Empty if the file does not exist."""
    size, modified = _mark(path)
    try:
        return _compute_digest(path, size, modified) if modified else ""
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _compute_digest(path: Path, size: int, changed_at: float) -> str:
    with path.open("rb") as file:
        if path.name.startswith(".env"):  # a changed key does not change the system
            lines = file.read(_BLOCK).splitlines()
            lines_without_secrets = [
                line for line in lines if not is_secret_name(line.partition(b"=")[0].decode("utf-8", "replace").strip())
            ]
            return hashlib.sha256(b"\n".join(lines_without_secrets)).hexdigest()[:16]
        if size <= _MAX_WHOLE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
        sample_digest = hashlib.sha256(f"{size} {changed_at}".encode())
        for offset in (0, size // 2, size - _BLOCK):
            file.seek(offset)
            sample_digest.update(file.read(_BLOCK))
        return sample_digest.hexdigest()[:16]


def _listing(folder: Path, new_files: Iterable[str]) -> str:
    """Return the digest of the names in a folder. Empty if the folder does not exist.

    Hidden names and names of files that the system added are left out.
    """
    new_names = {Path(name).name for name in new_files}
    names = [path.name for path in _entries(folder)]
    shown = (name for name in names if not name.startswith((".", "__pycache__")) and name not in new_names)
    return text_digest(*sorted(shown)) if folder.is_dir() else ""


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _shown(value: str | None) -> str:
    if value is None:
        return ""
    value = redacted(value)
    return f"={value}" if len(value) <= _MAX_SHOWN else f"={value[:40]}… ({text_digest(value)})"
