"""Training data: texts for Stage I, and queries with relevant texts for the other stages.

The filter against near-duplicates is CMedTEB + CARE's (Section 4.1 and Table 14): an index begins with seed texts; a
later text is kept only if no more than `most` of its nearest neighbours in the index are nearer than a threshold,
and then joins the index. So the order of the texts matters; the seed decides it.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.base.errors import UserError
from ragrounds.extensions.retrieval.query_sets import query_set
from ragrounds.extensions.training.spec import Pairs, Texts
from ragrounds.tools.corpora import CorpusSource, corpus_source, passages
from ragrounds.tools.index.embedders import Vectors, joined
from ragrounds.tools.jsonlines import read_rows

_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(\[]?[A-Z0-9\u4e00-\u9fff])|(?<=[。！？])")


Sampled = TypeVar("Sampled")


class Example(Struct, frozen=True):
    """Query with a relevant text, and texts that are not relevant."""

    query: str
    positive: str
    negatives: tuple[str, ...] = ()


def read_texts(entries: Sequence[Texts], seed: int) -> list[str]:
    """Read every entry's texts, each text once, in an order that depends on the seed.

    Raises:
        UserError: a file or a field does not exist.
    """
    unique_texts: dict[str, None] = {}
    for number, entry in enumerate(entries):
        raw: Iterable[str]
        if entry.source:
            source_passages = (passage for passage, _ in passages(corpus_source(entry.source)))
            raw = (text for passage in source_passages for text in (passage.title, passage.text))
        else:
            raw = _read_fields(Path(entry.file).expanduser(), entry.fields)
        texts = sentences(raw, entry.words) if entry.cut == "sentences" else raw
        sampled = _sample(dict.fromkeys(" ".join(text.split()) for text in texts), entry.limit, seed + number)
        unique_texts.update(dict.fromkeys(sampled))
    unique_texts.pop("", None)
    return _sample(unique_texts, 0, seed)


def sentences(texts: Iterable[str], words: tuple[int, int]) -> Iterator[str]:
    """Yield the sentences whose number of words is in the range `words`; a Chinese character counts as a word."""
    low, high = words
    for text in texts:
        for sentence in _END.split(text):
            chinese_words = sum("\u4e00" <= letter <= "\u9fff" for letter in sentence)
            if low <= (chinese_words or len(sentence.split())) <= high:
                yield sentence.strip()


def read_pairs(entries: Sequence[Pairs], seed: int) -> list[Example]:
    """Read every entry's pairs, in an order that depends on the seed.

    Each query and each positive appears once, because two equal texts in a batch would be each other's false negatives.

    Raises:
        UserError: a file, a field or judgements do not exist; no pair is left.
    """
    queries: set[str] = set()
    positives: set[str] = set()
    unique_pairs: list[Example] = []
    for number, entry in enumerate(entries):
        fresh: list[Example] = []
        for example in _pairs(entry):
            if not example.query or not example.positive or example.query in queries or example.positive in positives:
                continue
            queries.add(example.query)
            positives.add(example.positive)
            fresh.append(example)
        unique_pairs += _sample(fresh, entry.limit, seed + number)
    if entries and not unique_pairs:
        raise UserError("No training pair was found: the [[pairs]] files hold no query with a positive text.")
    return _sample(unique_pairs, 0, seed)


def fingerprint(values: object) -> str:
    """Return sixteen hexadecimal digits that change with any change in the values."""
    return hashlib.blake2b(msgspec.json.encode(values, order="sorted"), digest_size=8).hexdigest()


def _pairs(entry: Pairs) -> Iterator[Example]:
    if entry.file:
        yield from _read_pair_file(entry)
    elif entry.source:
        for passage, _ in passages(corpus_source(entry.source)):
            if passage.title and passage.text:
                yield Example(passage.title, passage.text)
    else:
        yield from _read_judged_pairs(entry)


def _read_pair_file(entry: Pairs) -> Iterator[Example]:
    path = Path(entry.file).expanduser()
    missing = True
    for row in _rows(path):
        query, positives = _texts(row.get(entry.query)), _texts(row.get(entry.positive))
        if query and positives:
            missing = False
            yield Example(query[0], positives[0], tuple(_texts(row.get(entry.negative))))
    if missing:
        raise UserError(
            f"{str(path)!r} has no line with texts in the fields {entry.query!r} and {entry.positive!r}: set them "
            "with query = and positive = in [[pairs]]."
        )


def _read_judged_pairs(entry: Pairs) -> Iterator[Example]:
    queries_of_set = query_set(entry.benchmark, split=entry.split)
    relevant_documents = {
        document for grades in queries_of_set.judgements.values() for document, grade in grades.items() if grade > 0
    }
    texts = {
        passage.document: joined(passage.title, passage.text, "sentence")
        for passage, _ in passages(corpus_source(queries_of_set.corpus))
        if passage.document in relevant_documents
    }
    for query, grades in queries_of_set.judgements.items():
        for document, grade in grades.items():
            if grade > 0 and document in texts:
                yield Example(queries_of_set.queries[query], texts[document])


def _read_fields(path: Path, fields: Sequence[str]) -> Iterator[str]:
    seen = False
    for row in _rows(path):
        for field in fields:
            seen = seen or field in row
            yield from _texts(row.get(field))
    if not seen:
        raise UserError(f"{str(path)!r} has no field {' or '.join(map(repr, fields))}.")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise UserError(f"There is no file {str(path)!r} to train on.")
    yield from (row for _, row in read_rows(path, dict[str, Any]))


def _texts(value: object) -> list[str]:
    entries = value if isinstance(value, list) else [value]
    return [" ".join(text.split()) for text in entries if isinstance(text, str) and text.strip()]


def _sample(values: Iterable[Sampled], limit: int, seed: int) -> list[Sampled]:
    """Return all values in the seed's order, or the first `limit` of them."""
    shuffled = list(values)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:limit] if limit else shuffled


def corpus_texts(origin: CorpusSource) -> list[str]:
    """Return the documents of a corpus as one text each, as they are embedded."""
    return [joined(passage.title, passage.text, "sentence") for passage, _ in passages(origin)]


_BLOCK = 512


def diverse(
    vectors: Vectors,
    threshold: float,
    *,
    seeds: int = 5000,
    neighbours: int = 5,
    max_neighbours: int = 1,
    progress: Callable[[int], None] | None = None,
) -> npt.NDArray[np.intp]:
    """Return the positions of the texts that are kept, ascending.

    Args:
        vectors: Unit vectors, one row a text, in the order of comparison.
        threshold: Cosine above which a neighbour is too near.
        seeds: Number of texts at the beginning that are kept without a comparison.
        neighbours: Number of nearest neighbours that are compared.
        max_neighbours: Number of them that may be too near.
        progress: Called with the number of texts that have been compared.
    """
    if max_neighbours >= neighbours:
        return np.arange(len(vectors))
    is_kept = np.zeros(len(vectors), dtype=bool)
    is_kept[:seeds] = True
    for start in range(min(seeds, len(vectors)), len(vectors), _BLOCK):
        block = vectors[start : start + _BLOCK]
        # Texts before the block are compared at once; those within it one after another, as they join the index.
        near = (block @ vectors[:start][is_kept[:start]].T > threshold).sum(axis=1)
        within = block @ block.T > threshold
        for row in range(len(block)):
            count = near[row] + (within[row, :row] & is_kept[start : start + row]).sum()
            # Among the nearest `neighbours`, those above the threshold come first: counting all of them is enough.
            is_kept[start + row] = min(count, neighbours) <= max_neighbours
        if progress:
            progress(start + len(block))
    return np.flatnonzero(is_kept)
