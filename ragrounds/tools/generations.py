"""Generations of an index: each is one state of it, whole, and a new one appears at once.

``home/indexes/NAME/`` holds ``generations/0001``, ``generations/0002`` … and ``current.json``, which names the one that
is searched. A change builds the next generation beside the others, with the engines that the current one has, and
replaces ``current.json`` last: a build that is killed leaves the last good one, and is resumed when the same is asked
again. What is open stays open over its own generation.

A change takes over what stayed as it was (:mod:`ragrounds.tools.document_ledger`), and gives what a build of the final
documents alone would give: documents that are replaced keep their place, new ones come last.

| file of a generation | what it holds |
|---|---|
| ``generation.json`` | what made it, what became of the documents, and until it is finished what was asked for |
| ``incoming/`` | documents that are being added, until they are merged |
| ``searchers/`` | the specs of the retrievers that were opened over it: they are built for the next one, too |
"""

from __future__ import annotations

import filecmp
import hashlib
import shutil
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

_RECORD, _INCOMING, _SEARCHERS = "generation.json", "incoming", "searchers"
_UNITS = ("units.u64", "units.b16", "units.u32")


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One state of an index."""

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


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What ``generation.json`` says."""

    change: str
    request: str = ""
    """What an unfinished build was asked for; empty: it is finished."""
    changes: Changes | None = None
    """``None``: the passages are not whole."""


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
    folder = _workplace(root, _Record(change=change.kind, request=request), before)
    manifest, changes = _passages(folder, change, ledger)
    report = read_report(folder / _INCOMING) or (read_report(folder) if change.kind == "build" else None)
    twin = _twin(root, folder, manifest)
    if twin is not None:  # such a generation is there already: its engines are, too
        _adopt(twin, folder, manifest)
        _discard(folder)
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


def _workplace(root: Path, asked: _Record, current: int | None) -> Path:
    """The folder of the generation that is built: that of an interrupted build of the same, or a new one. What other
    interrupted builds left is removed."""
    place = root / "generations"
    place.mkdir(exist_ok=True)
    sweep(root, current)
    for entry in _unfinished(root, current):
        if (noted := _noted(entry)) is not None and noted.request == asked.request:
            return entry
        _discard(entry)
    folder = generation_folder(root, max([current or 0, *generation_numbers(root)]) + 1)
    folder.mkdir()
    _note(folder, asked)
    return folder


def _noted(folder: Path) -> _Record | None:
    """What a generation says of itself; ``None``: nothing that can be read."""
    with suppress(OSError, msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=_Record)
    return None


def _note(folder: Path, record: _Record) -> None:
    write_whole(folder / _RECORD, msgspec.json.format(msgspec.json.encode(record), indent=2))


def _passages(folder: Path, change: Change, ledger: DocumentLedger | None) -> tuple[Manifest, Changes]:
    """The passages of the generation; they may be there, where a build was killed over its engines."""
    record = _noted(folder)
    if record is not None and record.changes is not None and is_current(folder):
        return read_manifest(folder), record.changes
    manifest, changes = change.make(folder, ledger)
    _note(folder, msgspec.structs.replace(record or _Record(change=change.kind), changes=changes))
    return manifest, changes


def _twin(root: Path, folder: Path, manifest: Manifest) -> Path | None:
    """Another generation with the same passages, of the same documents."""
    for number in generation_numbers(root):
        other = generation_folder(root, number)
        if other == folder or not is_current(other) or read_manifest(other).version != manifest.version:
            continue
        if all(filecmp.cmp(other / name, folder / name, shallow=False) for name in _UNITS):
            return other
    return None


def _adopt(twin: Path, folder: Path, manifest: Manifest) -> None:
    """Note at a generation what is known now of the same documents. Each file is whole at every moment, and any mixture
    of old and new is true."""
    held = Collection(twin)  # nobody removes it meanwhile
    write_whole(twin / "report.json", (folder / "report.json").read_bytes())
    kept = msgspec.structs.replace(manifest, built=held.manifest.built)
    write_whole(twin / "manifest.json", msgspec.json.format(msgspec.json.encode(kept), indent=2))


def _tidy(folder: Path) -> None:
    shutil.rmtree(folder / _INCOMING, ignore_errors=True)
    if (record := _noted(folder)) is not None and record.request:
        _note(folder, msgspec.structs.replace(record, request=""))


def _unfinished(root: Path, current: int | None) -> list[Path]:
    """Generations that never became the current one: their build was interrupted."""
    found = []
    for entry in sorted((root / "generations").glob("[0-9]*")):
        record = _noted(entry)
        if entry.name.isdigit() and int(entry.name) != current and (record is None or record.request):
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
        manifest, record = read_manifest(folder), _noted(folder) or _Record(change="")
        found.append(
            Generation(
                number=number, version=manifest.version, documents=manifest.documents, passages=manifest.passages,
                built=manifest.built, change=record.change, changes=record.changes or Changes(),
            )
        )  # fmt: skip
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
