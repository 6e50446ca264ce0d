"""The files of a built benchmark: each is written whole or not at all, and the card last.

``rejected.jsonl`` lists everything that was drawn, or dropped before, and did not become a part of the benchmark, with
stage, reason and detail. Items that passed the filters and were not drawn are only counted, in the card: a store of
reports may hold millions. A `detail` is empty where the reason says it all (an empty text, a fact that is not known).
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


_FOR_PEOPLE = (".csv", ".md")


def check_folder(folder: Path, pipeline: str) -> None:
    """See before anything is paid that the result can be written there.

    Raises:
        UserError: it is a file, or a folder with something in it that this pipeline did not write; nothing can be
            written there.
    """
    try:
        inside = folder.is_dir() and any(folder.iterdir())
        if inside and _made_by(folder) != pipeline:
            raise UserError(
                f"{folder} holds other files than a benchmark by {pipeline}: give a new or empty folder with --out."
            )
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is not a folder: give a new one with --out.")
        place = folder.resolve()
        _try_writing(place if inside else place.parent, place.name)
    except OSError as error:
        raise UserError(f"Cannot write {folder}: {error.strerror}. Choose another --out.") from None


def _try_writing(folder: Path, name: str) -> None:
    """Make what :func:`write_built` will make there, and take it away again."""
    new = list(itertools.takewhile(lambda each: not each.exists(), (folder, *folder.parents)))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{name}-"):
            pass
    finally:
        for each in new:
            with contextlib.suppress(OSError):  # it was not made, or somebody has put something there
                each.rmdir()


def write_built(folder: Path, files: Files, card: BuiltCard) -> BuiltCard:
    """Write the files and then ``card.json`` with their hashes; gives the card as written.

    A new folder appears whole or not at all. In one that was made before each file is replaced by itself, and what no
    longer belongs to it is removed, where it is as it was written; sheets and instructions stay.

    Raises:
        UserError: the folder cannot be written.
    """
    place = folder.resolve()
    try:
        if place.is_dir() and any(place.iterdir()):
            before = _recorded(place)
            written = _fill(place, files, card)
            _remove_stale(place, {name: hash for name, hash in before.items() if name not in files})
            return written
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{place.name}-") as scratch:
            whole = Path(scratch) / "whole"
            whole.mkdir()
            written = _fill(whole, files, card)
            if place.exists():
                place.rmdir()
            whole.rename(place)
    except OSError as error:
        raise UserError(f"Cannot write {error.filename or folder}: {error.strerror}. Choose another --out.") from None
    return written


def _fill(folder: Path, files: Files, card: BuiltCard) -> BuiltCard:
    hashes = {name: _write(folder / name, lines) for name, lines in files.items()}
    written = replace(card, made=replace(card.made, files=hashes))
    _write(folder / CARD_FILE, [msgspec.json.format(msgspec.json.encode(written), indent=2) + b"\n"])
    return written


def _remove_stale(folder: Path, recorded: Mapping[str, str]) -> None:
    for name, wanted in recorded.items():
        path = (folder / name).resolve()
        ours = path.is_relative_to(folder) and path.is_file() and not name.endswith(_FOR_PEOPLE)
        if ours and hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            path.unlink()


def json_lines(rows: Iterable[Any]) -> Iterator[bytes]:
    """A JSON object a line."""
    return (msgspec.json.encode(row) + b"\n" for row in rows)


def beir_files(
    documents: Iterable[tuple[str, str, str]],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    split: str = "test",
) -> dict[str, Lines]:
    """The files of a BEIR folder. `documents` are id, title and text; `judgements` query → document → grade."""
    return {
        "corpus.jsonl": json_lines({"_id": id, "title": title, "text": text} for id, title, text in documents),
        "queries.jsonl": json_lines({"_id": id, "text": text} for id, text in queries.items()),
        f"qrels/{split}.tsv": qrels_lines(judgements),
    }


def qrels_lines(judgements: Mapping[str, Mapping[str, int]]) -> Iterator[bytes]:
    """BEIR's judgements with their heading.

    Raises:
        UserError: an id with a blank in it, which the format cannot carry.
    """
    yield b"query-id\tcorpus-id\tscore\n"
    for query, judged in judgements.items():
        for document, grade in judged.items():
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
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return digest.hexdigest()


def _made_by(folder: Path) -> str:
    return str(_account(folder).get("pipeline", ""))


def _recorded(folder: Path) -> dict[str, str]:
    """The files that the card of a folder names, with their hashes."""
    files = _account(folder).get("files")
    return {str(name): str(hash) for name, hash in files.items()} if isinstance(files, dict) else {}


def _account(folder: Path) -> JsonObject:
    """How a folder was made, by its card; empty: it has none."""
    try:
        found = msgspec.json.decode((folder / CARD_FILE).read_bytes())
    except (OSError, msgspec.MsgspecError, RecursionError):
        return {}
    made = found.get("made") if isinstance(found, dict) else None
    return made if isinstance(made, dict) else {}


class Product(Struct, frozen=True, kw_only=True):
    """A benchmark before it is written."""

    benchmark: Card
    files: Mapping[str, Lines]
    """Name inside the folder → lines. Empty where nothing is left to make a benchmark of; the card and the rejections
    are written all the same."""
    stage: str = ""
    """The one that follows the graph's; empty: none does."""
    dropped: tuple[Dropped, ...] = ()
    """What it drops, and what the graph left out of the items that it kept."""
    figures: JsonObject = field(default_factory=dict)
    """What was measured, for the card."""
    notes: tuple[str, ...] = ()
    """What a reader of the card must know."""
    following: tuple[str, ...] = ()
    """Commands to try next; ``{out}`` stands for the folder."""


Finish = Callable[[Sequence[ItemResult]], Product]
"""All items with their outcomes → the benchmark. It asks no model: whatever it needs stands in the outcomes."""


FILE = "rejected.jsonl"
GRADES = "grades.jsonl"
"""Every grade that models gave."""


def rejections(item_set: ItemSet, results: Sequence[ItemResult], later: Iterable[Dropped] = ()) -> Iterator[Dropped]:
    """What the intake dropped, what the graph rejected, what later stages dropped; then what has no outcome yet."""
    yield from item_set.dropped
    for result in results:
        if result.outcome is not None and not result.outcome.kept:
            outcome = result.outcome
            yield Dropped(id=result.question.id, stage=outcome.stage, reason=outcome.reason, detail=outcome.detail)
    yield from later
    for result in results:
        if result.outcome is None:
            yield Dropped(id=result.question.id, stage="run", reason=result.status, detail=result.reason)


def not_listed(item_set: ItemSet) -> list[str]:
    """What the card says of items that the file does not hold."""
    undrawn = item_set.passed - len(item_set.items)
    return [f"{undrawn:,} items that were not drawn are only counted: {FILE} does not list them."] if undrawn else []
