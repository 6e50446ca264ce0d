"""Sets of queries with judgements: BEIR folders and R2MED folders.

| family | queries | judgements |
|---|---|---|
| ``beir:PATH`` | ``queries.jsonl`` {_id, text} | ``qrels/SPLIT.tsv`` |
| ``r2med:PATH`` | ``query.jsonl`` {id, text} | ``qrels.jsonl`` {q_id, p_id, score} |

``beir/NAME`` and ``r2med/NAME`` are the copies that `ragrounds data add` has put under the home folder, and
``cmedteb/NAME`` is one of lines {query, positive, negative}, as in :mod:`~ragrounds.evals.retrieval.pools`.

The corpus of a set is the one in its folder, unless another is named (an index built from the same documents).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragrounds.contracts import Library, Searcher
from ragrounds.errors import UserError, nearest, unknown
from ragrounds.evals.benchmarks.catalogue import located, parse_reference
from ragrounds.evals.benchmarks.families import r2med
from ragrounds.evals.benchmarks.source import Source as Benchmark
from ragrounds.evals.retrieval.trec import Judgements, read_judgements
from ragrounds.settings import read_settings
from ragrounds.tools.corpora import Source, passages

FAMILIES = ("beir", "r2med")


@dataclass(frozen=True)
class QuerySet:
    """Queries, what is relevant to each, and the corpus they are asked of."""

    name: str
    queries: dict[str, str]
    """Id → text, of the judged queries alone, in the file's order."""
    judgements: Judgements
    corpus: str
    """As :func:`ragrounds.tools.opening.open_searcher` takes it."""
    pools: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of a reranking set: the documents that each query is asked about."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Of a reranking set: the documents' texts."""


def query_set(benchmark: str, *, split: str = "test", corpus: str | None = None, home: Path | None = None) -> QuerySet:
    """Read ``beir:PATH`` or ``r2med:PATH``, or the registered copy of ``beir/NAME``, ``r2med/NAME``, ``cmedteb/NAME``.

    Args:
        benchmark: What is read.
        split: Which judgements of a BEIR folder.
        corpus: Another corpus than the folder's.
        home: Holds registered copies; ``None``: as the settings say.

    Raises:
        UserError: no such family, folder or copy, or judged queries without a text.
    """
    family = re.split(r"[:/\[]", benchmark, maxsplit=1)[0]
    if family not in FAMILIES and not benchmark.startswith("cmedteb/"):
        forms = [f"{name}{rest}" for name in FAMILIES for rest in (":PATH", "/NAME")]
        raise unknown("retrieval benchmark", benchmark, forms, "ragrounds retrieve --help")
    home = home or read_settings().home
    wanted = parse_reference(benchmark)
    folder = located(wanted, home)
    if family == "cmedteb":
        from ragrounds.evals.retrieval.pools import pool_set

        return pool_set(folder, home)
    if not folder.is_dir():
        raise UserError(f"There is no folder {str(folder)!r}: expected a {family} set of queries.")
    if family == "r2med" and (wanted.dataset or wanted.path is None):
        (folder, *others) = [found for found, _ in r2med.folders(Benchmark(folder, wanted.dataset))]
        if others:
            raise UserError(f"{benchmark!r} has several sets of queries: name one of them, r2med/NAME.")
    if family == "beir":
        texts, judged = _file(folder, "queries.jsonl"), _qrels(folder, str(wanted.parameters.get("split", split)))
    else:
        texts, judged = _file(folder, "query.jsonl"), _file(folder, "qrels.jsonl")
    judgements = read_judgements(judged)
    known = {row.id: row.text for row, _ in passages(Source(folder.name, (texts,)))}
    lost = [query for query in judgements if query not in known]
    if lost:
        raise UserError(
            f"{str(judged)!r} judges {len(lost)} queries that {texts.name} does not have, such as {lost[0]!r}: "
            "expected the queries and judgements of one set."
        )
    queries = {query: text for query, text in known.items() if query in judgements}
    return QuerySet(wanted.dataset or folder.resolve().name, queries, judgements, corpus or f"{family}:{folder}")


def unknown_documents(judgements: Judgements, searcher: Searcher) -> list[str]:
    """Relevant documents that the corpus does not hold: no retriever can find them. Empty where the searcher cannot
    say."""
    if not isinstance(searcher, Library):
        return []
    relevant = {document for judged in judgements.values() for document, grade in judged.items() if grade > 0}
    return sorted(document for document in relevant if not searcher.document(document))


def _qrels(folder: Path, split: str) -> Path:
    found = {path.stem: path for path in sorted((folder / "qrels").glob("*.tsv"))}
    if split not in found:
        raise UserError(
            f"{str(folder)!r} has no judgements qrels/{split}.tsv.{nearest(split, found)} "
            f"Splits there: {', '.join(found) or 'none'}."
        )
    return found[split]


def _file(folder: Path, name: str) -> Path:
    for ending in ("", ".gz", ".zst"):
        if (folder / (name + ending)).is_file():
            return folder / (name + ending)
    raise UserError(f"{str(folder)!r} has no {name}: expected it beside the corpus.")
