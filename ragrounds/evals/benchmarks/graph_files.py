"""The files of a knowledge graph, read line by line: triplets, the names and the types of entities, relations in words.

A graph may have millions of triplets (DRKG: 5.9 million), so no list of them is ever held: whoever needs more than one
look reads the file again. What is held grows with entities (their names) and with relations, not with triplets.

* triplets: head, relation and tail between tabs, with or without a heading; ``train.txt``, ``valid.txt`` and
  ``test.txt``, or one file (``drkg.tsv``, ``ADIntKG.tsv``, any other ``.tsv`` or ``.txt``), also packed (``.gz``);
* names: ``names.tsv`` (id, name), or ``cui2name.json``, ``names.json`` (an object of both);
* types: ``cui2semtype.json``, ``types.json`` or ``types.tsv``; without one, what stands before ``::`` in an id.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import READ, broken, read_json, read_text
from ragrounds.evals.benchmarks.extraction import Triplet

_PARTS = ("train.txt", "valid.txt", "test.txt")
_WHOLE = ("drkg.tsv", "ADIntKG.tsv", "graph.tsv", "triplets.tsv")
_NAMES = ("names.tsv", "entity_names.tsv", "cui2name.json", "names.json")
_TYPES = ("cui2semtype.json", "types.json", "types.tsv")
FILES = (*_PARTS, *_WHOLE, *_NAMES, *_TYPES)
"""Names that are looked for in a folder."""
_COLUMNS = (
    ("head", "subject", "subject_cui", "subj", "source", "h"),
    ("relation", "predicate", "rel", "edge", "r"),
    ("tail", "object", "object_cui", "obj", "target", "t"),
)
_DATES = ("pmid", "date", "year")
_LONGEST_LINE = 10_000
"""Bytes of one triplet."""


class GraphFolder(Struct, frozen=True, kw_only=True):
    """Where a graph's files are."""

    parts: tuple[Path, ...]
    """All triplets, in one file or more."""
    asked: Path
    """Those of which questions are made."""
    names: Path | None = None
    types: Path | None = None


def graph_folder(path: Path) -> GraphFolder:
    """Find a graph's files.

    Raises:
        UserError: the folder holds no triplets, or several files of them.
    """
    folder = path if path.is_dir() else path.parent
    names, types = _first(folder, _NAMES), _first(folder, _TYPES)
    if not path.is_dir():
        return GraphFolder(parts=(path,), asked=path, names=names, types=types)
    if any((path / name).is_file() for name in _PARTS):
        parts = tuple(path / name for name in _PARTS)
        return GraphFolder(parts=parts, asked=parts[-1], names=names, types=types)
    found = _first(folder, tuple(name + ending for name in _WHOLE for ending in ("", ".gz")))
    if found is None:
        raise broken(path, f"the folder holds no {' and '.join(_PARTS)}, and no {' or '.join(_WHOLE)}")
    return GraphFolder(parts=(found,), asked=found, names=names, types=types)


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def triplets(path: Path) -> Iterator[tuple[Triplet, str]]:
    """The triplets of a file, one after the other, each with its date (a PMID) where a heading names such a column.

    Raises:
        UserError: no such file, a damaged archive, a line that holds no triplet, or none that does.
    """
    columns: tuple[int, ...] = (0, 1, 2)
    dated: int | None = None
    width, count = 3, 0
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split("\t")
        if number == 1 and (found := _heading(fields)) is not None:
            columns, dated = found
            width = len(fields)
            continue
        if len(fields) != width:
            raise broken(path, _expected(width), f"line {number}")
        one, two, three = columns
        head, relation, tail = fields[one], fields[two], fields[three]
        if not (head.strip() and relation.strip() and tail.strip()):
            raise broken(path, _expected(width), f"line {number}")
        count += 1
        yield (head, relation, tail), fields[dated] if dated is not None else ""
    if not count:
        raise broken(path, "it contains no triplets")


def _expected(width: int) -> str:
    return "expected head, relation and tail between tabs" + (f", in {width} fields" if width != 3 else "")


def _heading(fields: list[str]) -> tuple[tuple[int, ...], int | None] | None:
    """The columns of head, relation and tail, and that of a date; ``None``: this is no heading."""
    named = [field.strip().casefold() for field in fields]
    found = [next((named.index(name) for name in names if name in named), None) for names in _COLUMNS]
    columns = tuple(place for place in found if place is not None)
    if len(columns) != len(_COLUMNS):
        return None
    return columns, next((named.index(name) for name in _DATES if name in named), None)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file that are not blank; the file is not held.

    Raises:
        UserError: no such file, a damaged archive, text that is not UTF-8, a line too long.
    """
    if path.is_dir():
        raise broken(path, "it is a folder; expected a file")
    READ.report(path)
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise broken(path, f"it is longer than {_LONGEST_LINE:,} bytes", f"line {number}")
                if line.strip():
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except FileNotFoundError:
        raise broken(path, "there is no such file") from None
    except UnicodeDecodeError:
        raise broken(path, "it is not UTF-8; save the file as UTF-8 and try again", f"line {number}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise broken(path, f"the archive is damaged or cut off ({error})") from None
    except OSError as error:
        raise broken(path, error.strerror or "it cannot be opened") from None


def texts_by_id(path: Path | None) -> dict[str, str]:
    """What a file says of each entity: its name or its type. Of several types the first.

    Raises:
        UserError: a broken file.
    """
    if path is None:
        return {}
    found: dict[str, str] = {}
    if path.name.endswith(".json"):
        value = read_json(path)
        if not isinstance(value, dict):
            raise broken(path, "expected an object of ids and texts")
        for id, text in value.items():
            first = text[0] if isinstance(text, list) and text else text
            if isinstance(first, str) and first.strip():
                found[id] = " ".join(first.split())
        return found
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        id, tab, text = line.rstrip("\r").partition("\t")
        if not tab:
            raise broken(path, "expected an id and a text between tabs", f"line {number}")
        if text.strip():
            found[id] = " ".join(text.partition("\t")[0].split())
    return found


def entity_type(id: str, types: Mapping[str, str]) -> str:
    """The type of an entity: by the file of types, else by its id (``Gene::2157``); empty: not known."""
    return types.get(id) or (id.partition("::")[0] if "::" in id else "")


def named(id: str, names: Mapping[str, str]) -> str:
    """The name of an entity; empty: it has none but its id. Names may stand under the id with or without its type."""
    found = names.get(id) or names.get(id.partition("::")[2])
    if found or names or "::" in id:
        return found or ""
    return id.replace("_", " ").strip()


@cache
def _relation_words() -> Mapping[str, str]:
    file = files(__package__) / "relation_words.toml"
    found: dict[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))["relations"]
    return found


def worded(relation: str) -> str:
    """A relation in words: without the database that it is from (``GNBR::T::Compound:Disease``) and without the types
    that it joins, both of which give answers away. What two databases say alike has the same words."""
    if relation.count("::") < 2:
        return relation.replace("_", " ").strip()
    return _relation_words().get(relation) or relation.split("::")[1].replace("_", " ").strip().casefold()


def content_number(triplet: Triplet) -> int:
    """A number of a triplet. The sum of all, modulo 2^63, is a number of a graph's content, whatever the order of its
    lines."""
    return int.from_bytes(hashlib.blake2b("\t".join(triplet).encode(), digest_size=8).digest())
