"""Generations of an index: each is one state of it, whole, and a new one appears at once.

``home/indexes/NAME/`` holds ``generations/0001``, ``generations/0002`` … and ``current.json``, which names the one that
is searched. A change builds the next generation beside the others, with the engines that the current one has, and
replaces ``current.json`` last: a build that is killed leaves the last good one, and is resumed when the same is asked
again. What is open stays open over its own generation.

A change takes over what stayed as it was (:mod:`ragrounds.tools.document_ledger`), and gives what a build of the final
documents alone would give: documents that are replaced keep their place, new ones come last.

| file of a generation | what it holds |
|---|---|
| ``generation.json`` | its number, when it appeared, what became of the documents; not there: it was never finished |
| ``request.json`` | what the build was asked for, until it is finished |
| ``incoming/`` | documents that are being added, until they are merged |
| ``searchers/`` | the specs of the retrievers that were opened over it: they are built for the next one, too |
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from ragrounds.errors import UserError
from ragrounds.redaction import redacted
from ragrounds.tools.build_report import BuildReport
from ragrounds.tools.collection import (
    POINTER,
    Collection,
    CurrentGeneration,
    Manifest,
    current_number,
    damage,
    generation_folder,
    generation_numbers,
    is_current,
    is_used,
    read_manifest,
    sync_folder,
    write_whole,
)
from ragrounds.tools.collection_builder import (
    Changes,
    disk_error,
    exclusive_build,
    read_report,
)
from ragrounds.tools.document_ledger import DocumentLedger

_RECORD, _REQUEST, _DONE, _INCOMING, _SEARCHERS = (
    "generation.json",
    "request.json",
    "made.json",
    "incoming",
    "searchers",
)
_UNITS = ("units.u64", "units.b16", "units.u32")


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One state of an index: what ``generation.json`` says."""

    number: int
    """From 1; 0: a corpus that is searched without naming it."""
    version: str
    documents: int
    passages: int
    built: float
    """Seconds since the epoch."""
    change: str = ""
    """What made it: ``build``, ``add`` or ``delete``."""
    changes: Changes = Changes()


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a change."""

    folder: Path
    manifest: Manifest
    changes: Changes
    number: int
    new: bool
    """Whether another generation is searched than before."""
    failed: tuple[str, ...] = ()
    """Engines that could not be built, each with the reason."""
    report: BuildReport | None = None
    """What became of the files that the change read; ``None``: it read none."""


Follow = Callable[[str, list[str]], list[str]]
"""Opens retrievers over ``NAME@VERSION``: those that were asked for, and those of the specs, which the generation
before had. Gives back what could not be opened, with the reason."""


class Change(NamedTuple):
    """A change of an index, as it is asked for."""

    kind: str
    """``build``, ``add`` or ``delete``."""
    request: str
    """All that determines what it makes, beside the generation that it begins from: the same is resumed."""
    make: Callable[[Path, DocumentLedger | None], tuple[Manifest, Changes]]
    """Builds the passages of the generation in a folder."""
    idle: Callable[[DocumentLedger], bool] = lambda ledger: False
    """Whether it would change nothing, as far as can be said without reading anything."""


def apply(root: Path, change: Change, follow: Follow) -> Made:
    """Make a generation of the index in `root`, with its engines, and let it appear.

    Raises:
        UserError: what `change` raises; another process changes the same index; it is damaged.
        StopRun: the disk is full. The current generation stays.
    """
    root.mkdir(parents=True, exist_ok=True)
    with exclusive_build(root):
        if wrong := damage(root):
            raise UserError(wrong)
        try:
            return _applied(root, change, follow)
        except OSError as problem:
            raise disk_error(root, problem) from None


def _applied(root: Path, change: Change, follow: Follow) -> Made:
    before = current_number(root)
    base = Collection(generation_folder(root, before)) if before is not None else None
    ledger = DocumentLedger(base) if base is not None else None
    specs = opened_specs(base.folder) if base is not None else []
    if base is not None and before is not None and ledger is not None and change.idle(ledger):
        failed = follow(base.corpus, specs)
        changes = Changes(unchanged=len(ledger))
        return Made(
            folder=base.folder,
            manifest=base.manifest,
            changes=changes,
            number=before,
            new=False,
            failed=tuple(failed),
            report=read_report(base.folder),
        )
    corpus = base.corpus if base is not None else ""
    request = hashlib.blake2b(f"{change.kind}\0{change.request}\0{corpus}".encode(), digest_size=16).hexdigest()
    folder = _workplace(root, request, before)
    manifest, changes = _passages(folder, change, ledger)
    report = read_report(folder / _INCOMING) or (read_report(folder) if change.kind == "build" else None)
    twin = _twin(root, folder, manifest)
    if twin is not None:  # such a generation is there already: its engines are, too
        _adopt(twin, folder, manifest)
        _discard(folder)
    else:
        _describe(folder, manifest, change.kind, changes)
    target = folder if twin is None else twin
    number = 0 if target == root else int(target.name)
    failed = follow(f"{manifest.name}@{manifest.version}", specs)
    if number != before:
        write_whole(root / POINTER, msgspec.json.encode(CurrentGeneration(number)))
    _tidy(target)
    return Made(
        folder=target,
        manifest=manifest,
        changes=changes,
        number=number,
        new=number != before,
        failed=tuple(failed),
        report=report,
    )


def _workplace(root: Path, request: str, current: int | None) -> Path:
    """The folder of the generation that is built: that of an interrupted build of the same, or a new one. What other
    interrupted builds left is removed."""
    place = root / "generations"
    place.mkdir(exist_ok=True)
    sweep(root, current)
    for entry in _unfinished(root, current):
        noted = entry / _REQUEST
        if noted.is_file() and noted.read_bytes() == request.encode():
            return entry
        _discard(entry)
    folder = generation_folder(root, max([current or 0, *generation_numbers(root)]) + 1)
    folder.mkdir()
    write_whole(folder / _REQUEST, request.encode())
    return folder


def _passages(folder: Path, change: Change, ledger: DocumentLedger | None) -> tuple[Manifest, Changes]:
    """The passages of the generation; they may be there, where a build was killed over its engines."""
    done = folder / _DONE
    if done.is_file() and is_current(folder):
        with suppress(msgspec.MsgspecError):  # what cannot be read is made again
            return read_manifest(folder), msgspec.json.decode(done.read_bytes(), type=Changes)
    manifest, changes = change.make(folder, ledger)
    write_whole(done, msgspec.json.encode(changes))
    return manifest, changes


def _describe(folder: Path, manifest: Manifest, kind: str, changes: Changes) -> None:
    made = Generation(
        number=int(folder.name),
        version=manifest.version,
        documents=manifest.documents,
        passages=manifest.passages,
        built=time.time(),
        change=kind,
        changes=changes,
    )
    write_whole(folder / _RECORD, msgspec.json.format(msgspec.json.encode(made), indent=2))


def _twin(root: Path, folder: Path, manifest: Manifest) -> Path | None:
    """Another generation with the same passages, of the same documents."""
    for number in generation_numbers(root):
        other = generation_folder(root, number)
        if other == folder or not is_current(other) or read_manifest(other).version != manifest.version:
            continue
        pairs = [(other / name, folder / name) for name in _UNITS]
        if not all(mine.is_file() for mine, _ in pairs) or all(filecmp.cmp(*pair, shallow=False) for pair in pairs):
            return other
    return None


def _adopt(twin: Path, folder: Path, manifest: Manifest) -> None:
    """Note at a generation what is known now of the same documents: how their files are. Each file is whole at every
    moment, and any mixture of old and new is true."""
    held = Collection(twin)  # nobody removes it meanwhile
    for name in _UNITS:
        if not (twin / name).is_file():
            shutil.copyfile(folder / name, twin / f"{name}.part")
            os.replace(twin / f"{name}.part", twin / name)  # noqa: PTH105 - as in write_whole
    for name in ("report.json", "files.json"):
        if (folder / name).is_file():
            write_whole(twin / name, (folder / name).read_bytes())
    kept = msgspec.structs.replace(manifest, built=held.manifest.built)
    write_whole(twin / "manifest.json", msgspec.json.format(msgspec.json.encode(kept), indent=2))


def _tidy(folder: Path) -> None:
    shutil.rmtree(folder / _INCOMING, ignore_errors=True)
    for name in (_DONE, _REQUEST):
        (folder / name).unlink(missing_ok=True)


def _unfinished(root: Path, current: int | None) -> list[Path]:
    """Generations that never became the current one: their build was interrupted."""
    found = []
    for entry in sorted((root / "generations").glob("[0-9]*")):
        finished = (entry / _RECORD).is_file() and not (entry / _REQUEST).exists()
        if entry.name.isdigit() and int(entry.name) != current and not finished:
            found.append(entry)
    return found


def _discard(folder: Path) -> None:
    """Remove a generation: it is gone at once, and then its files."""
    aside = folder.with_name(f".removing-{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    sync_folder(aside.parent)
    shutil.rmtree(aside, ignore_errors=True)


def sweep(root: Path, current: int | None) -> None:
    """Finish removals and changes that were killed at their end."""
    for aside in (root / "generations").glob(".removing-*"):
        shutil.rmtree(aside, ignore_errors=True)
    if current:
        _tidy(generation_folder(root, current))


def generations(root: Path) -> list[Generation]:
    """The generations of an index that are or were searched, oldest first."""
    current = current_number(root)
    unfinished = {int(entry.name) for entry in _unfinished(root, current)}
    found = []
    for number in generation_numbers(root):
        folder = generation_folder(root, number)
        if number in unfinished or not is_current(folder):
            continue
        record, manifest = folder / _RECORD, read_manifest(folder)
        made = Generation(
            number=number,
            version=manifest.version,
            documents=manifest.documents,
            passages=manifest.passages,
            built=manifest.built,
        )
        with suppress(FileNotFoundError, msgspec.MsgspecError, RecursionError):
            made = msgspec.json.decode(record.read_bytes(), type=Generation)
        found.append(made)
    return found


def remove_generation(root: Path, number: int) -> None:
    """Remove one generation, which nobody searches.

    Raises:
        UserError: there is none of that number; it is the current one; a process has it open.
    """
    with exclusive_build(root):
        current = current_number(root)
        known = [one.number for one in generations(root)]
        if number not in known:
            listed_ones = ", ".join(map(str, known)) or "none"
            raise UserError(f"The index {root.name!r} has no generation {number}: it has {listed_ones}.")
        if number == current:
            raise UserError(
                f"Generation {number} of {root.name!r} is the one that is searched: make another one first, or remove "
                f"the whole index with `ragrounds index rm {root.name}`."
            )
        folder = generation_folder(root, number)
        if is_used(folder):
            raise UserError(f"Generation {number} of {root.name!r} is open in some process: wait for it to end.")
        _discard(folder)


def opened_specs(folder: Path) -> list[str]:
    """The retrievers that were opened over a generation and keep something on the disk for it."""
    found = []
    for path in sorted((folder / _SEARCHERS).glob("*.txt")):
        with suppress(UnicodeDecodeError):
            found.append(path.read_text(encoding="utf-8"))
    return found


def note_searcher(folder: Path, spec: str) -> None:
    """Note that a retriever was opened over a generation, so that the next one gets it, too: not where its text has
    something like a key. A folder that cannot be written is left as it is."""
    if redacted(spec) != spec:
        return
    name = hashlib.blake2b(spec.encode(), digest_size=6).hexdigest()
    path = folder / _SEARCHERS / f"{name}.txt"
    with suppress(OSError):
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, spec.encode())
