"""Indexes in lines: what a change came to, what an index holds, which generations are kept and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ragrounds.tools.build_report import BuildReport, fold
from ragrounds.tools.collection import Manifest
from ragrounds.tools.collection_builder import Changes
from ragrounds.tools.index_details import IndexDetails, PrunedGeneration
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import one_line, safe

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


def index_table(found: Sequence[IndexDetails]) -> TextTable:
    """A line for each index."""

    def passages(one: IndexDetails) -> str:
        """How many, or why there are none."""
        return f"{one.manifest.passages:,}" if one.manifest else "damaged" if one.damage else "half-built"

    def generation(one: IndexDetails) -> str:
        """Its number, and of how many where there are several."""
        kept = len(one.generations)
        return f"{one.generation} of {kept}" if kept > 1 else str(one.generation or "")

    columns = (
        words("index", "name", whole=True),
        Column("passages", passages),
        words("version", lambda one: one.manifest.version if one.manifest else ""),
        words("generation", generation),
        Column("engines", lambda one: len(one.engines)),
        Column("size", "bytes", _size),
        words("chunker", lambda one: one.manifest.chunker if one.manifest else ""),
    )
    return table_of("indexes", found, columns)


def details_lines(found: IndexDetails, width: int = 100) -> Iterator[str]:
    """What an index was made from, and how; what became of each file; its engines; its generations, the newest first.

    Args:
        found: the index.
        width: columns of the terminal.
    """
    for label, text in _details(found):
        yield from _wrapped(label, text, width)
    if found.report is not None:
        for number, line in enumerate(found.report.lines(width - _LABEL)):
            yield f"{'' if number else 'files':{_LABEL}}{line}"
    for engine in found.engines:
        yield from _wrapped("engine", f"{engine.index}  {_size(engine.bytes)}", width)
    for one in reversed(found.generations):
        facts = f"{one.documents:,} documents, version {one.version}, {_size(one.bytes)}"
        yield from _wrapped("generation", f"{one.number}  {_moment(one.built)}  {facts}", width)
        counts = _counts(one.added, one.replaced, one.removed, one.unchanged)
        told = [f"{one.change}: {counts}"] if one.change else []
        yield from _wrapped("", "; ".join([*told, one.kept or "not needed any more"]), width, _LABEL + 3)


def _details(found: IndexDetails) -> Iterator[tuple[str, str]]:
    made = found.manifest
    yield "name", found.name
    if found.damage:
        yield "damaged", found.damage
    elif made is None:
        yield "passages", "half-built: the same `ragrounds index build` resumes"
    else:
        yield "version", made.version
        yield "passages", f"{made.passages:,} of {made.documents:,} documents"
        yield "chunker", made.chunker
        yield "source", made.source
        for origin in made.origins[1:]:
            yield "added from", origin
        if made.skipped and found.report is None:  # the report counts them, with files that were not even opened
            yield "skipped", f"{made.skipped:,}"
        yield "built", _moment(made.built)
        code = {
            True: "today's code",
            False: "other code than today's: the next build reads and cuts all anew",
            None: "code that is not known",
        }
        yield "made with", code[found.current]
    yield "size", _size(found.bytes)


def pruned_lines(found: Sequence[PrunedGeneration]) -> Iterator[str]:
    """Former generations, and what becomes of each."""
    for one in found:
        made = one.generation
        fate = "to be removed" if one.removed else f"stays: {made.kept}"
        told = f"{safe(one.index)}, generation {made.number} of {_moment(made.built)}, {_size(made.bytes)}: {fate}"
        yield one_line(told, 300)
    if not any(one.removed for one in found):
        yield "there is no generation to remove"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _wrapped(label: str, text: str, width: int, indent: int = _LABEL) -> list[str]:
    """A label with its text, which goes on below itself where the terminal ends."""
    held = f"{label:{indent}}{safe(text)}"
    return fold(held, max(width, 2 * indent), " " * indent) or [held]
