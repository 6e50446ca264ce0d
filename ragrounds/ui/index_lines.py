"""Indexes in lines: what a change came to, what an index holds, which generations are kept and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ragrounds.ui.text import one_line, safe

if TYPE_CHECKING:
    from ragrounds.tools.build_report import BuildReport
    from ragrounds.tools.collection import Manifest
    from ragrounds.tools.collection_builder import Changes
    from ragrounds.tools.index_details import IndexDetails, IndexGeneration, PrunedGeneration

_LABEL = 13


def change_lines(
    found: IndexDetails,
    manifest: Manifest,
    changes: Changes,
    *,
    new: bool,
    retrievers: Sequence[str],
    not_followed: Sequence[str] = (),
    report: BuildReport | None = None,
    width: int = 100,
) -> Iterator[str]:
    """What a build, an addition or a deletion came to: what became of each file and document, what searches them."""
    if report is not None:
        yield from report.lines(width)
    yield f"{manifest.passages:,} passages of {manifest.documents:,} documents, version {manifest.version}"
    several = len(found.generations) > 1
    told = _counts(changes.added, changes.replaced, changes.removed, changes.unchanged)
    if not new:
        yield f"nothing changed: generation {found.generation} stays ({told})"
    elif several:
        yield f"generation {found.generation}: {told}"
    for spec in retrievers:
        yield one_line(f"searchable with {safe(spec)}", 400)
    for failed in not_followed:
        yield one_line(f"not built for this generation, but when it is used: {safe(failed)}", 600)
    former = [one for one in found.generations if not one.searched]
    if new and former:
        size = _size(sum(one.bytes for one in former))
        noun = "generation takes" if len(former) == 1 else "generations take"
        yield f"{len(former)} former {noun} {size}: `ragrounds index prune` removes what no run needs"


def _counts(added: int, replaced: int, removed: int, unchanged: int) -> str:
    parts = ((added, "added"), (replaced, "replaced"), (removed, "removed"), (unchanged, "unchanged"))
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "no documents"


def index_rows(found: Sequence[IndexDetails]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the list of indexes."""
    rows = []
    for one in found:
        made = one.manifest
        passages = f"{made.passages:,}" if made else "half-built"
        kept = len(one.generations)
        number = "" if one.generation is None else f"{one.generation} of {kept}" if kept > 1 else f"{one.generation}"
        version, chunker = (made.version, made.chunker) if made else ("", "")
        size = f"{one.bytes / 1e6:,.1f}"
        rows.append([one.name, passages, version, number, str(len(one.engines)), size, chunker])
    return ["index", "passages", "version", "generation", "engines", "MB", "chunker"], rows


def details_lines(found: IndexDetails, width: int = 100) -> Iterator[str]:
    """What an index was made from, and how; what became of each file; its engines; its generations, the newest first.

    Args:
        found: the index.
        width: columns of the terminal.
    """
    made = found.manifest
    yield _line("name", found.name)
    if made is None:
        yield _line("passages", "half-built: the same `ragrounds index build` resumes")
    else:
        yield _line("version", made.version)
        yield _line("passages", f"{made.passages:,} of {made.documents:,} documents")
        yield _line("chunker", made.chunker)
        yield _line("source", made.source)
        for origin in made.origins[1:]:
            yield _line("added from", origin)
        if made.skipped:
            yield _line("skipped", f"{made.skipped:,}")
        yield _line("built", _moment(made.built))
        now = {True: "as of now", False: "other than now: a build reads and cuts all anew", None: "not known"}
        yield _line("read by code", now[found.current])
    if found.report is not None:
        for number, line in enumerate(found.report.lines(width - _LABEL)):
            yield f"{'' if number else 'files':{_LABEL}}{line}"
    yield _line("size", f"{_size(found.bytes)}")
    for engine in found.engines:
        yield _line("engine", f"{engine.index}  {_size(engine.bytes)}")
    for one in reversed(found.generations):
        yield _line("generation", _generation(one))


def pruned_lines(found: Sequence[PrunedGeneration]) -> Iterator[str]:
    """Former generations, and what becomes of each."""
    for one in found:
        made = one.generation
        fate = "to be removed" if one.removed else f"stays: {made.kept}"
        told = f"{safe(one.index)}, generation {made.number} of {_moment(made.built)}, {_size(made.bytes)}: {fate}"
        yield one_line(told, 300)
    if not any(one.removed for one in found):
        yield "there is no generation to remove"


def _generation(one: IndexGeneration) -> str:
    counts = _counts(one.added, one.replaced, one.removed, one.unchanged) if one.change else ""
    parts = [
        f"{one.number}  {_moment(one.built)}",
        f"{one.documents:,} documents",
        f"version {one.version}",
        _size(one.bytes),
        f"{one.change}: {counts}" if counts else "",
        one.kept,
    ]
    return ", ".join(part for part in parts if part)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _line(label: str, text: str) -> str:
    return f"{label:{_LABEL}}{safe(text)}"
