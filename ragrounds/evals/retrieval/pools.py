"""Reranking sets: each query brings its own pool of documents (CMedTEB, CMedQA; MAP@10).

A file of JSON Lines ``{"query": text, "positive": [text, …], "negative": [text, …]}``, as MTEB has them (CARE's ``pos``
and ``neg`` too). The pools of all queries together are the corpus, so that a lexical retriever has statistics to go by;
of what it finds, a query's own pool counts. Documents of the pool that it does not find stand last, all with one score:
their order, which in the file gives the answer away, is never used.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ragrounds.errors import UserError
from ragrounds.evals.retrieval.running import Retrieved
from ragrounds.evals.retrieval.sets import QuerySet
from ragrounds.tools.lines import bad_line, read_rows
from ragrounds.tools.reranking import PairScorer

_FORM = "{query, positive, negative}"
MEASURES = ("MAP@10", "MRR@10", "nDCG@10")


class _Row(msgspec.Struct):
    query: str
    positive: list[str] | None = None
    negative: list[str] | None = None
    pos: list[str] | None = None
    neg: list[str] | None = None


class _Pool(NamedTuple):
    query: str
    positive: list[str]
    negative: list[str]


def pool_set(path: Path, home: Path) -> QuerySet:
    """Read a reranking set; its corpus is written under ``home/pools`` in BEIR's form.

    Raises:
        UserError: no such file, a line that is not of the form, or a query without positives.
    """
    rows = _read(path)
    texts: dict[str, str] = {}
    queries: dict[str, str] = {}
    judgements: dict[str, dict[str, int]] = {}
    pools: dict[str, frozenset[str]] = {}
    for number, row in enumerate(rows, 1):
        query = f"q{number}"
        positive, negative = _named(row.positive, texts), _named(row.negative, texts)
        queries[query] = row.query
        judgements[query] = dict.fromkeys(positive, 1)
        pools[query] = frozenset(positive + negative)
    lines = b"".join(msgspec.json.encode({"_id": name, "text": text}) + b"\n" for name, text in texts.items())
    folder = home / "pools" / hashlib.blake2b(lines, digest_size=8).hexdigest()
    if not (folder / "corpus.jsonl").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "corpus.part"
        part.write_bytes(lines)
        part.rename(folder / "corpus.jsonl")
    return QuerySet(path.stem, queries, judgements, f"beir:{folder}", pools, texts)


def completed(
    run: Mapping[str, Iterable[tuple[str, float]]], pools: Mapping[str, frozenset[str]]
) -> dict[str, list[tuple[str, float]]]:
    """A run with the documents of each pool that were not found put last, equally."""
    whole: dict[str, list[tuple[str, float]]] = {}
    for query, pool in pools.items():
        found = [(document, score) for document, score in run.get(query, ()) if document in pool]
        lowest = min((score for _, score in found), default=0.0) - 1.0
        held = {document for document, _ in found}
        whole[query] = found + [(document, lowest) for document in sorted(pool - held)]
    return whole


def rerank_pools(label: str, scorer: PairScorer, asked: QuerySet) -> Retrieved:
    """Put each query's pool into a cross-encoder's order."""
    run: dict[str, list[tuple[str, float]]] = {}
    seconds: dict[str, float] = {}
    for query, text in asked.queries.items():
        pool = sorted(asked.pools[query])
        began = time.perf_counter()
        scores = scorer(text, [asked.texts[document] for document in pool])
        seconds[query] = time.perf_counter() - began
        run[query] = sorted(zip(pool, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
    return Retrieved(label, asked.name, run, seconds)


def _read(path: Path) -> list[_Pool]:
    rows: list[_Pool] = []
    for number, row in read_rows(path, _Row, _FORM):
        positive, negative = row.positive or row.pos, row.negative if row.negative is not None else row.neg
        if not positive:
            raise bad_line(path, number, "its query has no positive document")
        if negative is None:
            raise bad_line(path, number, "it has no field `negative`", _FORM)
        rows.append(_Pool(row.query, positive, negative))
    if not rows:
        raise UserError(f"{str(path)!r} is empty: expected lines {{query, positive, negative}}.")
    return rows


def _named(documents: Iterable[str], texts: dict[str, str]) -> list[str]:
    """Ids by content, so that a text that stands in many pools is one document."""
    names = []
    for text in documents:
        name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        texts[name] = text
        names.append(name)
    return names
