"""Indexes in lines: what a build came to, what an index holds, which versions are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from shlex import quote

from ragrounds.tools.index.build_report import fold
from ragrounds.tools.index.collection import Manifest
from ragrounds.tools.index.index_details import IndexDetails, IndexVersion
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import number_of, one_line, safe, size

_LABEL = 13


def built_lines(found: IndexDetails, *, new: bool, retrievers: Sequence[str], width: int = 100) -> Iterator[str]:
    """What a build came to: what became of each file and document, what searches them."""
    if found.report is not None:
        yield from found.report.lines(width)
    if found.manifest is not None:
        yield _held(found.manifest)
    if not new:
        yield "nothing changed: the same version is searched"
    for spec in retrievers:
        yield one_line(f"searchable with {safe(spec)}", 400)
    if new and (former := found.versions[:-1]):
        taken = size(sum(one.bytes for one in former))
        name = quote(f"{found.name}@{former[0].version}")
        yield f"earlier versions take {taken}: `ragrounds index rm {name}` removes one"


def _held(made: Manifest | IndexVersion) -> str:
    return f"{made.passages:,} passages of {made.documents:,} documents, version {made.version}"


def index_table(found: Sequence[IndexDetails]) -> TextTable:
    """A line for each index."""

    def passages(one: IndexDetails) -> str:
        """How many, or why there are none."""
        return f"{one.manifest.passages:,}" if one.manifest else "damaged" if one.damage else "half-built"

    columns = (
        words("index", "name", whole=True),
        Column("passages", passages),
        words("version", lambda one: one.manifest.version if one.manifest else ""),
        Column("kept", lambda one: len(one.versions)),
        Column("engines", lambda one: len(one.engines)),
        Column("size", "bytes", size),
        words("chunker", lambda one: one.manifest.chunker if one.manifest else ""),
    )
    return table_of("indexes", found, columns)


def details_lines(found: IndexDetails, width: int = 100) -> Iterator[str]:
    """What an index was made from, and how; what became of each file; its engines; its versions, the newest first.

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
        yield from _wrapped("engine", f"{engine.index}  {size(engine.bytes)}", width)
    for one in reversed(found.versions):
        runs = f", searched by {number_of(len(one.runs), 'stored run')}" if one.runs else ""
        yield from _wrapped("kept", f"{_moment(one.built)}  {_held(one)}, {size(one.bytes)}{runs}", width)


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
        if made.skipped and found.report is None:  # the report counts them, with files that were not even opened
            yield "skipped", f"{made.skipped:,}"
        yield "built", _moment(made.built)
    yield "size", size(found.bytes)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _wrapped(label: str, text: str, width: int, indent: int = _LABEL) -> list[str]:
    """A label with its text, which goes on below itself where the terminal ends."""
    held = f"{label:{indent}}{safe(text)}"
    return fold(held, max(width, 2 * indent), " " * indent) or [held]
