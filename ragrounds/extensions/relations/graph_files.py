"""Files of a knowledge graph, read line by line: triplets, the names and the types of entities, relations in words.

A graph may have millions of triplets (DRKG: 5.9 million), so no list of them is ever kept in memory: a second pass
reads the file again. Memory grows with entities (their names) and with relations, not with triplets.

* triplets: head, relation and tail between tabs, with or without a heading; ``train.txt``, ``valid.txt`` and
  ``test.txt``, or one file (``drkg.tsv``, ``ADIntKG.tsv``, any other ``.tsv`` or ``.txt``), also compressed (``.gz``);
* names: ``names.tsv`` (id, name), or ``cui2name.json``, ``names.json`` (an object of both);
* types: ``cui2semtype.json``, ``types.json`` or ``types.tsv``; otherwise the part of an id before ``::``.
"""

from __future__ import annotations

import gzip
import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import READ, broken, read_json, read_text, readable
from ragrounds.extensions.relations.extraction import Triplet

_PARTS = ("train.txt", "valid.txt", "test.txt")
_SINGLE = ("drkg.tsv", "ADIntKG.tsv", "graph.tsv", "triplets.tsv")
_NAMES = ("names.tsv", "entity_names.tsv", "cui2name.json", "names.json")
_TYPES = ("cui2semtype.json", "types.json", "types.tsv")
FILES = (*_PARTS, *_SINGLE, *_NAMES, *_TYPES)
"""Names of files that are looked for in a folder."""
_COLUMNS = (
    ("head", "subject", "subject_cui", "subj", "source", "h"),
    ("relation", "predicate", "rel", "edge", "r"),
    ("tail", "object", "object_cui", "obj", "target", "t"),
)
_DATES = ("pmid", "date", "year")
_LONGEST_LINE = 10_000
"""Largest number of bytes of one triplet's line."""


class GraphFolder(Struct, frozen=True, kw_only=True):
    """Paths of a graph's files."""

    parts: tuple[Path, ...]
    """Files of all triplets."""
    question_triplets: Path
    """File of the triplets that questions are made from."""
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
        return GraphFolder(parts=(path,), question_triplets=path, names=names, types=types)
    if any((path / name).is_file() for name in _PARTS):
        parts = tuple(path / name for name in _PARTS)
        return GraphFolder(parts=parts, question_triplets=parts[-1], names=names, types=types)
    triplets_file = _first(folder, tuple(name + ending for name in _SINGLE for ending in ("", ".gz")))
    if triplets_file is None:
        raise broken(path, f"the folder holds no {' and '.join(_PARTS)}, and no {' or '.join(_SINGLE)}")
    return GraphFolder(parts=(triplets_file,), question_triplets=triplets_file, names=names, types=types)


def _first(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def triplets(path: Path) -> Iterator[tuple[Triplet, str]]:
    """Yield the triplets of a file one by one, each with its date (a PMID) if a heading names such a column.

    Raises:
        UserError: no such file, a damaged archive, a line without a triplet, or a file without any.
    """
    columns: tuple[int, ...] = (0, 1, 2)
    date_index: int | None = None
    width, count = 3, 0
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split("\t")
        if number == 1 and (heading := _heading(fields)) is not None:
            columns, date_index = heading
            width = len(fields)
            continue
        if len(fields) != width:
            raise broken(path, _expected(width), f"line {number}")
        head_index, relation_index, tail_index = columns
        head, relation, tail = fields[head_index], fields[relation_index], fields[tail_index]
        if not (head.strip() and relation.strip() and tail.strip()):
            raise broken(path, _expected(width), f"line {number}")
        count += 1
        yield (head, relation, tail), fields[date_index] if date_index is not None else ""
    if not count:
        raise broken(path, "it contains no triplets")


def _expected(width: int) -> str:
    return "expected head, relation and tail between tabs" + (f", in {width} fields" if width != 3 else "")


def _heading(fields: list[str]) -> tuple[tuple[int, ...], int | None] | None:
    """Return the column indices of head, relation and tail, and that of a date; ``None`` if this is no heading."""
    titles = [field.strip().casefold() for field in fields]
    indices = [next((titles.index(name) for name in names if name in titles), None) for names in _COLUMNS]
    columns = tuple(index for index in indices if index is not None)
    if len(columns) != len(_COLUMNS):
        return None
    return columns, next((titles.index(name) for name in _DATES if name in titles), None)


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file that are not blank, without keeping the file in memory.

    Raises:
        UserError: no such file, a damaged archive, text that is not UTF-8, a line too long.
    """
    if path.is_dir():
        raise broken(path, "it is a folder; expected a file")
    READ.report(path)
    number = 0
    try:
        with readable(path), gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise broken(path, f"it is longer than {_LONGEST_LINE:,} bytes", f"line {number}")
                if line.strip():
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise broken(path, "it is not UTF-8; save the file as UTF-8 and try again", f"line {number}") from None


def texts_by_id(path: Path | None) -> dict[str, str]:
    """Read a file with the name or the type of each entity. Of several types, the first counts.

    Raises:
        UserError: a broken file.
    """
    if path is None:
        return {}
    texts: dict[str, str] = {}
    if path.name.endswith(".json"):
        value = read_json(path)
        if not isinstance(value, dict):
            raise broken(path, "expected an object of ids and texts")
        for id, text in value.items():
            first = text[0] if isinstance(text, list) and text else text
            if isinstance(first, str) and first.strip():
                texts[id] = " ".join(first.split())
        return texts
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        id, tab, text = line.rstrip("\r").partition("\t")
        if not tab:
            raise broken(path, "expected an id and a text between tabs", f"line {number}")
        if text.strip():
            texts[id] = " ".join(text.partition("\t")[0].split())
    return texts


def entity_type(id: str, types: Mapping[str, str]) -> str:
    """Return the type of an entity: by the file of types, else by its id (``Gene::2157``); empty if unknown."""
    return types.get(id) or (id.partition("::")[0] if "::" in id else "")


def entity_name(id: str, names: Mapping[str, str]) -> str:
    """Return the name of an entity; empty if it has only an id.

    Names may be listed under the id with or without its type.
    """
    name = names.get(id) or names.get(id.partition("::")[2])
    if name or names or "::" in id:
        return name or ""
    return id.replace("_", " ").strip()


@cache
def _relation_words() -> Mapping[str, str]:
    file = files(__package__) / "relation_words.toml"
    words: dict[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))["relations"]
    return words


def worded(relation: str) -> str:
    """Return a relation in words, without its database and types.

    The database (``GNBR::T::Compound:Disease``) and the types that it joins would give answers away. Relations with the
    same meaning in two databases have the same words.
    """
    if relation.count("::") < 2:
        return relation.replace("_", " ").strip()
    return _relation_words().get(relation) or relation.split("::")[1].replace("_", " ").strip().casefold()


def content_number(triplet: Triplet) -> int:
    """Return the number of a triplet.

    The sum over all triplets, modulo 2^63, identifies a graph's content, whatever the order of its lines.
    """
    return int.from_bytes(hashlib.blake2b("\t".join(triplet).encode(), digest_size=8).digest())
