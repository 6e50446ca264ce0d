"""Files of a built benchmark: each is written completely or not at all, and the card last.

``rejected.jsonl`` lists all items that were sampled, or dropped before, and did not become a part of the benchmark,
with stage, reason and detail. Items that passed the filters and were not sampled are only counted, in the card: a store
of reports may contain millions. A `detail` is empty if the reason is complete (an empty text, an unknown fact).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.benchmarks.cards import CARD_FILE, Card
from ragrounds.extensions.construction.card import BuiltCard
from ragrounds.extensions.construction.items import Dropped, ItemSet
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.extensions.construction.pipeline import ItemResult

Lines = Iterable[bytes]
Files = Mapping[str, Lines]
"""Name inside the folder → lines with their ends."""


_SHEET_ENDINGS = (".csv", ".md")


def check_folder(folder: Path, pipeline: str) -> None:
    """Check that the result can be written into a folder, before anything is paid.

    Raises:
        UserError: it is a file, it contains something that this pipeline did not write, or it cannot be written.
    """
    try:
        has_content = folder.is_dir() and any(folder.iterdir())
        if has_content and _read_provenance(folder).get("pipeline") != pipeline:
            raise UserError(
                f"{folder} holds other files than a benchmark by {pipeline}: give a new or empty folder with --out."
            )
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is not a folder: give a new one with --out.")
        target = folder.resolve()
        _try_writing(target if has_content else target.parent, target.name)
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}. Choose another --out.") from None


def _try_writing(folder: Path, name: str) -> None:
    """Create the folders that :func:`write_built` will create, and remove them again."""
    missing_folders = list(itertools.takewhile(lambda path: not path.exists(), (folder, *folder.parents)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-"):
            pass
    finally:
        for path in missing_folders:
            with contextlib.suppress(OSError):  # it was not created, or is no longer empty
                path.rmdir()


def write_built(folder: Path, files: Files, card: BuiltCard) -> BuiltCard:
    """Write the files and then ``card.json`` with their hashes, and return the card as written.

    A new folder appears completely or not at all. In an existing one, each file is replaced separately, and unchanged
    files that no longer belong to it are removed; sheets and instructions stay.

    Raises:
        UserError: the folder cannot be written.
    """
    target = folder.resolve()
    try:
        if target.is_dir() and any(target.iterdir()):
            recorded_hashes = _read_provenance(target).get("files")
            written_card = _fill(target, files, card)
            for name, expected_hash in recorded_hashes.items() if isinstance(recorded_hashes, dict) else ():
                path = (target / name).resolve()
                is_stale = name not in files and path.is_relative_to(target) and not name.endswith(_SHEET_ENDINGS)
                if is_stale and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == expected_hash:
                    path.unlink()
            return written_card
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as scratch:
            complete = Path(scratch) / "whole"
            complete.mkdir()
            written_card = _fill(complete, files, card)
            if target.exists():
                target.rmdir()
            complete.rename(target)
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or folder}: {error.strerror}. Choose another --out.") from None
    return written_card


def _fill(folder: Path, files: Files, card: BuiltCard) -> BuiltCard:
    hashes = {name: _write(folder / name, lines) for name, lines in files.items()}
    complete_card = replace(card, made=replace(card.made, files=hashes))
    _write(folder / CARD_FILE, [msgspec.json.format(msgspec.json.encode(complete_card), indent=2) + b"\n"])
    return complete_card


def json_lines(rows: Iterable[Any]) -> Iterator[bytes]:
    """Return the rows as JSON objects, one per line."""
    return (msgspec.json.encode(row) + b"\n" for row in rows)


def beir_files(
    documents: Iterable[tuple[str, str, str]],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
) -> dict[str, Lines]:
    """Return the files of a BEIR folder. `documents` are id, title and text; `judgements` query → document → grade."""
    return {
        "corpus.jsonl": json_lines({"_id": id, "title": title, "text": text} for id, title, text in documents),
        "queries.jsonl": json_lines({"_id": id, "text": text} for id, text in queries.items()),
        "qrels/test.tsv": qrels_lines(judgements),
    }


def qrels_lines(judgements: Mapping[str, Mapping[str, int]]) -> Iterator[bytes]:
    """Yield BEIR's judgements with their heading.

    Raises:
        UserError: an id with a blank in it, which the format cannot represent.
    """
    yield b"query-id\tcorpus-id\tscore\n"
    for query, grades in judgements.items():
        for document, grade in grades.items():
            if len(f"{query} {document}".split()) != 2 or not query or not document:
                raise UserError(
                    f"The ids {query!r} and {document!r} contain a space: not possible in a judgements file."
                )
            yield f"{query}\t{document}\t{grade}\n".encode()


def _write(path: Path, lines: Lines) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            for line in lines:
                digest.update(line)
                file.write(line)
        Path(name).chmod(0o644)  # a temporary file can be read by its owner alone
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return digest.hexdigest()


def _read_provenance(folder: Path) -> JsonObject:
    """Return the provenance in a folder's card; empty if it has no card."""
    try:
        content = msgspec.json.decode((folder / CARD_FILE).read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
    provenance = content.get("made") if isinstance(content, dict) else None
    return provenance if isinstance(provenance, dict) else {}


class Product(Struct, frozen=True, kw_only=True):
    """A benchmark before it is written."""

    benchmark: Card
    files: Mapping[str, Lines]
    """Name inside the folder → lines.

    It is empty if no item is left; the card and the rejections are written all the same.
    """
    stage: str = ""
    """Stage that follows the graph's stages; empty if none does."""
    dropped: tuple[Dropped, ...] = ()
    """Items that this stage drops, and parts that the graph left out of the items that it kept."""
    figures: JsonObject = field(default_factory=dict)
    """Figures that were measured, for the card."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the card."""
    following: tuple[str, ...] = ()
    """Commands to try next; ``{out}`` is replaced by the folder."""


Finish = Callable[[Sequence[ItemResult]], Product]
"""Function from all items with their outcomes to the benchmark.

It calls no model: the outcomes contain all it needs.
"""


FILE = "rejected.jsonl"
GRADES = "grades.jsonl"
"""File of all grades that models gave."""


def rejections(item_set: ItemSet, results: Sequence[ItemResult], later: Iterable[Dropped] = ()) -> Iterator[Dropped]:
    """Yield the items that the intake dropped, the graph rejected or later stages dropped, then those without an
    outcome.
    """
    yield from item_set.dropped
    for item_result in results:
        if item_result.outcome is not None and not item_result.outcome.kept:
            outcome = item_result.outcome
            yield Dropped(id=item_result.question.id, stage=outcome.stage, reason=outcome.reason, detail=outcome.detail)
    yield from later
    for item_result in results:
        if item_result.outcome is None:
            yield Dropped(id=item_result.question.id, stage="run", reason=item_result.status, detail=item_result.reason)


def not_listed(item_set: ItemSet) -> list[str]:
    """Return the notes of the card on items that the file does not list."""
    unsampled = item_set.passed - len(item_set.items)
    return (
        [f"{unsampled:,} items that were not sampled are only counted: {FILE} does not list them."] if unsampled else []
    )
