"""Indexes in lines: the result of a build, the content of an index, the versions that are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from shlex import quote

from ragrounds.tools.index.build_report import fold
from ragrounds.tools.index.collection import Manifest
from ragrounds.tools.index.index_details import IndexDetails, IndexVersion
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.text import number_of, one_line, safe, size

_LABEL_WIDTH = 13


def built_lines(details: IndexDetails, *, new: bool, retrievers: Sequence[str], width: int = 100) -> Iterator[str]:
    """Yield the result of a build: what became of each file and document, and the retrievers that search them."""
    if details.report is not None:
        yield from details.report.lines(width)
    if details.manifest is not None:
        yield _version_text(details.manifest)
    if not new:
        yield "nothing changed: the same version is searched"
    for spec in retrievers:
        yield one_line(f"searchable with {safe(spec)}", 400)
    if new and (former := details.versions[:-1]):
        former_size = size(sum(version.bytes for version in former))
        name = quote(f"{details.name}@{former[0].version}")
        yield f"earlier versions take {former_size}: `ragrounds index rm {name}` removes one"


def _version_text(version: Manifest | IndexVersion) -> str:
    return f"{version.passages:,} passages of {version.documents:,} documents, version {version.version}"


def index_table(indexes: Sequence[IndexDetails]) -> TextTable:
    """Return a table with a line for each index."""

    def passages(index: IndexDetails) -> str:
        """Return the number of passages, or why the index has none."""
        return f"{index.manifest.passages:,}" if index.manifest else "damaged" if index.damage else "half-built"

    columns = (
        words("index", "name", unfolded=True),
        Column("passages", passages),
        words("version", lambda index: index.manifest.version if index.manifest else ""),
        Column("kept", lambda index: len(index.versions)),
        Column("engines", lambda index: len(index.engines)),
        Column("size", "bytes", size),
        words("chunker", lambda index: index.manifest.chunker if index.manifest else ""),
    )
    return table_of("indexes", indexes, columns)


def details_lines(details: IndexDetails, width: int = 100) -> Iterator[str]:
    """Yield an index's source and settings, what became of each file, its engines, and its versions, the newest first.

    Args:
        details: the index.
        width: columns of the terminal.
    """
    for label, text in _labelled_details(details):
        yield from _wrap_labelled(label, text, width)
    if details.report is not None:
        for number, line in enumerate(details.report.lines(width - _LABEL_WIDTH)):
            yield f"{'' if number else 'files':{_LABEL_WIDTH}}{line}"
    for engine in details.engines:
        yield from _wrap_labelled("engine", f"{engine.index}  {size(engine.bytes)}", width)
    for version in reversed(details.versions):
        runs = f", searched by {number_of(len(version.runs), 'stored run')}" if version.runs else ""
        yield from _wrap_labelled(
            "kept", f"{_moment_text(version.built)}  {_version_text(version)}, {size(version.bytes)}{runs}", width
        )


def _labelled_details(index: IndexDetails) -> Iterator[tuple[str, str]]:
    manifest = index.manifest
    yield "name", index.name
    if index.damage:
        yield "damaged", index.damage
    elif manifest is None:
        yield "passages", "half-built: the same `ragrounds index build` resumes"
    else:
        yield "version", manifest.version
        yield "passages", f"{manifest.passages:,} of {manifest.documents:,} documents"
        yield "chunker", manifest.chunker
        yield "source", manifest.source
        if manifest.skipped and index.report is None:  # the report also counts files that were not even opened
            yield "skipped", f"{manifest.skipped:,}"
        yield "built", _moment_text(manifest.built)
    yield "size", size(index.bytes)


def _moment_text(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _wrap_labelled(label: str, text: str, width: int) -> list[str]:
    """Return a label with its text, folded to the width; further lines are indented below the text."""
    line = f"{label:{_LABEL_WIDTH}}{safe(text)}"
    return fold(line, max(width, 2 * _LABEL_WIDTH), " " * _LABEL_WIDTH) or [line]
