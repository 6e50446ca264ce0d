"""The changes of an index: built from a source, documents added to it, documents deleted.

Each is a :class:`~ragrounds.tools.generations.Change`, which makes the passages of the next generation and leaves
everything else to :func:`ragrounds.tools.generations.apply`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ragrounds.errors import UserError
from ragrounds.tools.build_report import BuildReport
from ragrounds.tools.chunkers import chunker as make_chunker
from ragrounds.tools.collection import (
    Collection,
    Manifest,
    PassageWriter,
    current_generation,
    is_current,
    read_manifest,
)
from ragrounds.tools.collection_builder import (
    Changes,
    Count,
    Cut,
    building_code,
    collect,
    finish,
    listed,
    read_report,
    settled_stamp,
)
from ragrounds.tools.corpora import SAMPLE, BadLine, CorpusSource
from ragrounds.tools.document_ledger import DocumentLedger, LedgerWriter
from ragrounds.tools.generations import Change

_TOLD = 2_000


def origin_of(corpus: str) -> str:
    """``family:PATH`` with the whole path: what a source is called in whatever folder one stands."""
    family, _, path = corpus.partition(":")
    return corpus if corpus == SAMPLE else f"{family}:{Path(path).expanduser().resolve()}"


def another(root: Path, origin: str, source: CorpusSource, chunker: str) -> str:
    """What a build would make otherwise than the index in `root` was made, in words; empty: nothing."""
    if not is_current(folder := current_generation(root)):
        return ""
    held = read_manifest(folder)
    first = held.origins[0]
    reasons = []
    if held.chunker != chunker:
        reasons.append(f"it was cut with {held.chunker}, now with {chunker}")
    if gone := [one for one in held.origins[1:] if one != origin]:
        reasons.append(f"documents were added to it from {', '.join(gone)}, which would go")
    if origin != first:
        reasons.append(f"it was built from {first}, now from {origin}")
    return "; ".join(reasons)


def own_chunker(root: Path) -> str:
    """How the index in `root` is cut, as canonical text; ``none`` where there is no whole one.

    Raises:
        UserError: what names its generation cannot be read.
    """
    return read_manifest(folder).chunker if is_current(folder := current_generation(root)) else "none"


def built_from(
    source: CorpusSource,
    origin: str,
    name: str,
    chunker: str,
    *,
    bad: list[BadLine] | None = None,
    progress: Count | None = None,
) -> Change:
    """An index of the documents of a source, and of no others.

    Args:
        source: where they are read.
        origin: its name, as :func:`origin_of` gives it.
        name: of the index.
        chunker: canonical text of how they are cut.
        bad: as for :func:`ragrounds.tools.corpora.passages`.
        progress: is told now and then how many passages are stored.
    """
    cut, code = Cut(chunker, make_chunker(chunker)), building_code(chunker, source.reading)

    def _make(folder: Path, base: DocumentLedger | None) -> tuple[Manifest, Changes]:
        return collect(folder, source, name, cut, base=base, origins=(origin,), bad=bad, progress=progress)

    def _idle(base: DocumentLedger) -> bool:
        held = base.collection.manifest
        if (held.chunker, held.code, held.origins) != (chunker, code, (origin,)):
            return False
        return bool(held.stamp) and held.stamp == settled_stamp(source)

    request = "\0".join((origin, source.stamp(), chunker, code))
    return Change("build", request, _make, _idle)


def added_from(
    source: CorpusSource,
    origin: str,
    *,
    chunker: str,
    bad: list[BadLine] | None = None,
    progress: Count | None = None,
) -> Change:
    """The documents of an index and of one more source, whose documents replace those of the same id."""
    cut = Cut(chunker, make_chunker(chunker))

    def _make(folder: Path, base: DocumentLedger | None) -> tuple[Manifest, Changes]:
        base = _there(base)
        place = folder / "incoming"
        place.mkdir(exist_ok=True)
        if not is_current(place):
            name = base.collection.manifest.name
            collect(place, source, name, cut, base=base, origins=(origin,), bad=bad, progress=progress)
        return _merged(folder, base, DocumentLedger(Collection(place)), origin, listed(source), progress)

    request = "\0".join((origin, source.stamp(), chunker, building_code(chunker, source.reading)))
    return Change("add", request, _make)


def deleted(ids: Sequence[str], *, progress: Count | None = None) -> Change:
    """An index without some documents."""

    def _make(folder: Path, base: DocumentLedger | None) -> tuple[Manifest, Changes]:
        base = _there(base)
        gone = {number for identity in ids for number in base.named(identity)}
        if len(gone) == len(base):
            name = base.collection.manifest.name
            raise UserError(f"The index {name!r} would be empty: remove it with `ragrounds index rm {name}`.")
        writer = _Writer(folder, progress)
        for number in range(len(base)):
            if number not in gone:
                writer.copy(base, number)
        report = read_report(base.collection.folder) or BuildReport()
        manifest = writer.finish(base.collection.manifest, report)
        return manifest, Changes(unchanged=len(base) - len(gone), removed=len(gone))

    return Change("delete", "\0".join(sorted(ids)), _make)


def _there(base: DocumentLedger | None) -> DocumentLedger:
    if base is None:
        raise UserError("There is no whole index to change: build it first with `ragrounds index build`.")
    return base


class _Writer:
    """Writes a generation of documents that are taken over."""

    def __init__(self, folder: Path, progress: Count | None) -> None:
        (folder / "manifest.json").unlink(missing_ok=True)
        self._folder, self._progress = folder, progress
        self._passages, self._ledger = PassageWriter(folder), LedgerWriter(folder, 0)

    def copy(self, ledger: DocumentLedger, number: int) -> None:
        """Take a document of another collection over."""
        ledger.copy(number, self._passages, self._ledger)
        if self._progress and self._ledger.documents % _TOLD == 0:
            self._progress(self._passages.count)

    def finish(self, manifest: Manifest, report: BuildReport) -> Manifest:
        """Make the collection whole; it says what `manifest` says, of the passages that it has."""
        for part in (self._passages, self._ledger):
            part.flush()
            part.close()
        made = finish(self._folder, msgspec.structs.replace(manifest, stamp=""), self._passages, self._ledger, report)
        if self._progress:
            self._progress(self._passages.count)
        return made


def _merged(
    folder: Path, base: DocumentLedger, incoming: DocumentLedger, origin: str, source: str, progress: Count | None
) -> tuple[Manifest, Changes]:
    """The documents of both: those of the same id where the former ones were, the others after them."""
    writer = _Writer(folder, progress)
    replaced: set[int] = set()
    for number in range(len(base)):
        other = incoming.find(int(base.ids[number]))
        if other is None or incoming.records(other) == base.records(number):
            writer.copy(base, number)
        else:
            writer.copy(incoming, other)
            replaced.add(number)
    new = [number for number in range(len(incoming)) if base.find(int(incoming.ids[number])) is None]
    for number in new:
        writer.copy(incoming, number)
    held, more = base.collection.manifest, incoming.collection.manifest
    manifest = writer.finish(
        msgspec.structs.replace(
            held,
            source=held.source if origin in held.origins else f"{held.source}; {source}",
            skipped=held.skipped + more.skipped,
            code=held.code if held.code == more.code else "",
            origins=held.origins if origin in held.origins else (*held.origins, origin),
        ),
        _both(base.collection.folder, incoming.collection.folder),
    )
    return manifest, Changes(added=len(new), replaced=len(replaced), unchanged=len(base) - len(replaced))


def _both(*folders: Path) -> BuildReport:
    """The reports of two collections as one."""
    report = BuildReport()
    for one in filter(None, map(read_report, folders)):
        for mine, theirs in ((report.files, one.files), (report.rows, one.rows)):
            mine.update({outcome: mine.get(outcome, 0) + count for outcome, count in theirs.items()})
        report.entries += one.entries
        report.unlisted += one.unlisted
    return report
