"""Sets of queries with judgements: BEIR folders, R2MED folders, and reranking sets.

| family | queries | judgements |
|---|---|---|
| ``beir:PATH`` | ``queries.jsonl`` {_id, text} | ``qrels/SPLIT.tsv`` |
| ``r2med:PATH`` | ``query.jsonl`` {id, text} | ``qrels.jsonl`` {q_id, p_id, score} |

``beir/NAME`` and ``r2med/NAME`` are the copies that `ragrounds data add` put under the home folder, and
``cmedteb/NAME`` is a reranking set. The corpus of a set is in its folder, unless another corpus is named (an index
built from the same documents). Any other benchmark whose questions name documents as their golds (OGCaReBench: the case
report) is a set of queries too, over a named corpus: each question's text is searched for, its golds are relevant.

In a **reranking set** each query brings its own pool of documents (CMedTEB, CMedQA; MAP@10): a file of JSON Lines
``{"query": text, "positive": [text, …], "negative": [text, …]}``, as MTEB has them (CARE's ``pos`` and ``neg`` too).
The pools of all queries together are the corpus, so that a lexical retriever has term statistics. Only the documents of
a query's own pool count. Documents of the pool that are not found are ranked last with equal scores: their order in the
file, which would reveal the answer, is never used."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from ragrounds.base.contracts import Library, Searcher
from ragrounds.base.errors import UserError, nearest, unknown
from ragrounds.base.settings import read_settings
from ragrounds.evals.benchmarks.catalogue import load, located, parse_reference
from ragrounds.evals.benchmarks.family import BenchmarkSource as Benchmark
from ragrounds.evals.benchmarks.family import find_family
from ragrounds.extensions.retrieval.measures import USUAL
from ragrounds.extensions.retrieval.search import Retrieved
from ragrounds.extensions.retrieval.trec import Judgements, read_judgements
from ragrounds.tools.corpora import CorpusSource, passages
from ragrounds.tools.jsonlines import bad_line, read_rows
from ragrounds.tools.leak_guard import GUARD_FILE, read_guard
from ragrounds.tools.retrievers.rerank import PairScorer

FAMILIES = ("beir", "r2med")


@dataclass(frozen=True)
class QuerySet:
    """Queries, the relevant documents of each, and the corpus that is searched."""

    name: str
    queries: dict[str, str]
    """Query id → text, only of judged queries, in the file's order."""
    judgements: Judgements
    corpus: str
    """Spec of the corpus for :func:`ragrounds.tools.retriever.open_searcher`."""
    pools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Query → pool of documents to rank. Empty unless this is a reranking set."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Document → text. Empty unless this is a reranking set."""
    guard: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Query → documents that it may not find, from the set's ``guard.jsonl``."""
    drops_own: bool = False
    """True if a document with the query's id is not scored, as in BEIR's evaluation, where queries may be documents."""


OGCAREBENCH = ("nDCG@10", "R@1", "R@3", "R@5", "R@10", "R@100", "R@1000", "MRR@5")
"""Measures of OGCaReBench's Table 5 for the source report of a question; the first one is compared."""


def usual_measures(benchmark: str | None) -> tuple[str, ...]:
    """Return the measures that are computed on a benchmark by default."""
    if benchmark is not None and benchmark.startswith(("rerank:", "cmedteb/")):
        return MEASURES
    return OGCAREBENCH if benchmark is not None and re.match(r"ogcarebench\b", benchmark) else USUAL


def query_set(benchmark: str, *, split: str = "test", corpus: str | None = None, home: Path | None = None) -> QuerySet:
    """Read ``beir:PATH`` or ``r2med:PATH``, or the registered copy of ``beir/NAME``, ``r2med/NAME``, ``cmedteb/NAME``.
    Any other benchmark gives the questions that name documents.

    Args:
        benchmark: reference of the set.
        split: judgements of a BEIR folder to read.
        corpus: corpus to use instead of the folder's.
        home: folder of registered copies; ``None`` for the one in the settings.

    Raises:
        UserError: no such family, folder or copy, judged queries without a text, or questions without documents or
            without a corpus.
    """
    family = re.split(r"[:/\[]", benchmark, maxsplit=1)[0]
    home = home or read_settings().home
    if family not in FAMILIES and not benchmark.startswith("cmedteb/"):
        if find_family(family) is None:
            forms = [f"{name}{rest}" for name in FAMILIES for rest in (":PATH", "/NAME")]
            raise unknown("retrieval benchmark", benchmark, forms, "ragrounds retrieve --help")
        return _question_set(benchmark, corpus, home)
    reference = parse_reference(benchmark)
    folder = located(reference, home)
    if family == "cmedteb":
        return pool_set(folder, home)
    if not folder.is_dir():
        raise UserError(f"There is no folder {str(folder)!r}: expected a {family} set of queries.")
    if reference.reader.sets and (reference.dataset or reference.path is None):
        (folder, *other_folders) = [
            set_folder for set_folder, _ in reference.reader.sets(Benchmark(folder, reference.dataset))
        ]
        if other_folders:
            raise UserError(f"{benchmark!r} has several sets of queries: name one of them, r2med/NAME.")
    if family == "beir":
        texts, qrels = _file(folder, "queries.jsonl"), _qrels(folder, str(reference.parameters.get("split", split)))
    else:
        texts, qrels = _file(folder, "query.jsonl"), _file(folder, "qrels.jsonl")
    judgements = read_judgements(qrels)
    text_by_query = {row.id: row.text for row, _ in passages(CorpusSource(folder.name, (texts,)))}
    absent = [query for query in judgements if query not in text_by_query]
    if absent:
        raise UserError(
            f"{str(qrels)!r} judges {len(absent)} queries that {texts.name} does not have, such as {absent[0]!r}: "
            "expected the queries and judgements of one set."
        )
    queries = {query: text for query, text in text_by_query.items() if query in judgements}
    guard = read_guard(folder / GUARD_FILE) if (folder / GUARD_FILE).is_file() else {}
    name = reference.dataset or folder.resolve().name
    return QuerySet(name, queries, judgements, corpus or f"{family}:{folder}", guard=guard, drops_own=family == "beir")


def _question_set(name: str, corpus: str | None, home: Path) -> QuerySet:
    """Return the questions of a benchmark that name documents, as queries over a corpus."""
    questions = load(name, home)
    judgements = {id: dict.fromkeys(gold.documents, 1) for id, gold in questions.golds.items() if gold.documents}
    if not judgements:
        raise UserError(
            f"The questions of {name!r} name no documents, so nothing says what is relevant to them: expected a set of "
            "beir or r2med, or a benchmark such as ogcarebench, whose questions come from documents."
        )
    if (corpus := corpus or questions.own_corpus) is None:
        raise UserError(f"{name!r} brings no documents: name what is searched with --corpus, such as beir:PATH.")
    queries = {question.id: question.text for question in questions.questions if question.id in judgements}
    guard = {id: frozenset(gold.withheld) for id, gold in questions.golds.items() if gold.withheld}
    return QuerySet(questions.name, queries, judgements, corpus, guard=guard)


def unknown_documents(judgements: Judgements, searcher: Searcher) -> list[str]:
    """Return relevant documents that the corpus does not contain, so that no retriever can find them.

    The list is empty if the searcher cannot look up documents.
    """
    if not isinstance(searcher, Library):
        return []
    relevant = {document for grades in judgements.values() for document, grade in grades.items() if grade > 0}
    return sorted(document for document in relevant if not searcher.document(document))


def _qrels(folder: Path, split: str) -> Path:
    path_by_split = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if split not in path_by_split:
        raise UserError(
            f"{str(folder)!r} has no judgements qrels/{split}.tsv.{nearest(split, path_by_split)} "
            f"Splits there: {', '.join(path_by_split) or 'none'}."
        )
    return path_by_split[split]


def _file(folder: Path, name: str) -> Path:
    for ending in ("", ".gz", ".zst"):
        if (folder / (name + ending)).is_file():
            return folder / (name + ending)
    raise UserError(f"{str(folder)!r} has no {name}: expected it in the folder of the corpus.")


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
    """Read a reranking set, and write its corpus under ``home/pools`` in BEIR's form.

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
        positive, negative = _ids_by_content(row.positive, texts), _ids_by_content(row.negative, texts)
        queries[query] = row.query
        judgements[query] = dict.fromkeys(positive, 1)
        pools[query] = frozenset(positive + negative)
    lines = b"".join(msgspec.json.encode({"_id": name, "text": text}) + b"\n" for name, text in texts.items())
    folder = home / "pools" / hashlib.blake2b(lines, digest_size=8).hexdigest()
    if not (folder / "corpus.jsonl").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        # The file appears under its final name only when it is complete.
        part = folder / "corpus.part"
        part.write_bytes(lines)
        part.rename(folder / "corpus.jsonl")
    return QuerySet(path.stem, queries, judgements, f"beir:{folder}", pools, texts)


def completed(
    run: Mapping[str, Iterable[tuple[str, float]]], pools: Mapping[str, frozenset[str]]
) -> dict[str, list[tuple[str, float]]]:
    """Return a run with the missing documents of each pool ranked last, with equal scores."""
    completed_run: dict[str, list[tuple[str, float]]] = {}
    for query, pool in pools.items():
        pool_hits = [(document, score) for document, score in run.get(query, ()) if document in pool]
        lowest = min((score for _, score in pool_hits), default=0.0) - 1.0
        found_ids = {document for document, _ in pool_hits}
        completed_run[query] = pool_hits + [(document, lowest) for document in sorted(pool - found_ids)]
    return completed_run


def rerank_pools(label: str, scorer: PairScorer, query_set: QuerySet) -> Retrieved:
    """Rank each query's pool by a cross-encoder."""
    run: dict[str, list[tuple[str, float]]] = {}
    seconds: dict[str, float] = {}
    for query, text in query_set.queries.items():
        pool = sorted(query_set.pools[query])
        began = time.perf_counter()
        scores = scorer(text, [query_set.texts[document] for document in pool])
        seconds[query] = time.perf_counter() - began
        run[query] = sorted(zip(pool, scores, strict=True), key=lambda hit: (-hit[1], hit[0]))
    return Retrieved(label, query_set.name, run, seconds, sum(seconds.values()))


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


def _ids_by_content(documents: Iterable[str], texts: dict[str, str]) -> list[str]:
    """Return ids by content, so that a text in many pools is one document. Texts are added to `texts`."""
    ids = []
    for text in documents:
        id = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        texts[id] = text
        ids.append(id)
    return ids
