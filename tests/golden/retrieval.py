"""Retrieval beside the programs of MedRAG, Pyserini, R2MED, BRIGHT and MTEB."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ragrounds.base.contracts import Searcher
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.extensions.retrieval.measures import means, measure
from ragrounds.extensions.retrieval.search import Keep, Retrieved, leak_filter, retrieve
from ragrounds.extensions.retrieval.similarity import GradedPair, correlations, cosines
from ragrounds.tools.corpora import corpora_of
from ragrounds.tools.index.analysers import analyser
from ragrounds.tools.index.embedders import Vectors
from ragrounds.tools.merged import MergedSearcher
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, open_searcher
from tests.golden.cases import Case, Comparison, near

_THEIRS = {"ndcg_at": "nDCG", "map_at": "MAP", "recall_at": "R", "precision_at": "P"}


def _measure_name(theirs: str) -> str:
    """The name of ours for one of theirs: ``ndcg_at_10`` is ``nDCG@10``."""
    kind, _, cut = theirs.rpartition("_")
    return f"{_THEIRS[kind]}@{cut}" if kind in _THEIRS else "MRR"


_PER_QUERY = {"recip_rank": "MRR", "P": "P", "recall": "R", "ndcg_cut": "nDCG", "map_cut": "MAP"}


def _query_measure(theirs: str) -> str:
    kind, _, cut = theirs.rpartition("_")
    return f"{_PER_QUERY[kind]}@{cut}" if kind in _PER_QUERY else _PER_QUERY[theirs]


def same_measures(case: Case, run: dict[str, dict[str, float]], every: bool = False) -> bool:
    """Whether a run's measures, of each query and on average, are those recorded: over the queries that have results,
    as the program has it, or over `every` judged one."""
    judged = {query: grades for query, grades in case["qrels"].items() if every or run.get(query)}
    wanted = {name: _measure_name(name) for name in case["metrics"]}
    each = {name: _query_measure(name) for found in case["per_query"].values() for name in found}
    values = measure(judged, run, sorted({*wanted.values(), *each.values()}))
    summed = means(values)
    return all(
        near(values[each[name]][query], value)
        for query, found in case["per_query"].items()
        for name, value in found.items()
    ) and all(round(summed.get(wanted[name], 0.0), 5) == value for name, value in case["metrics"].items())


def _trec(case: Case, every: bool) -> bool:
    return same_measures(case, case["results"], every)


class _Listed:
    """A searcher with recorded results; distances carry a minus sign, as those of every retriever here do."""

    def __init__(self, spec: Spec, corpus: str) -> None:
        self.spec, self.corpus = str(spec), corpus
        self._sign = -1.0 if spec.parameters.get("metric") == "l2" else 1.0
        self._listed = _now["lists"][spec.parameters["number"]][int(corpus.removeprefix("c"))]

    async def search(self, query: str, k: int) -> list[Passage]:
        """What is recorded; `k` of it where the program asked its retrievers."""
        hits = self._listed[:k] if _now["entry"] == "retrieve" else self._listed
        return [
            Passage(id=id, document=id, title="", text="", corpus=self.corpus, score=self._sign * score, rank=rank)
            for rank, (id, score) in enumerate(hits, 1)
        ]


_now: Case = {}


def _open_listed(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    """Opened as every retriever is over several corpora."""
    opened = [_Listed(spec, name) for name in corpora_of(corpora.names)]
    return opened[0] if len(opened) == 1 else MergedSearcher(opened)


LISTED = Retriever(
    name="tests.golden.retrieval:LISTED",
    summary="recorded results",
    example="",
    open=_open_listed,
    parameters=(RetrieverParameter("number", "which"), RetrieverParameter("metric", "l2: distances", "ip")),
)


MEDRAG_CONSTANT = 100


def _merged(case: Case, joined: str) -> bool:
    """MedRAG's merging: the retriever that a user types, over corpora joined by a plus. Where the program's own order
    depends on its unstable sort, what it gives with a stable one is wanted."""
    _now.clear()
    _now.update(case)
    members = [
        Spec(LISTED.name, {"number": number, **({"metric": "l2"} if ascending else {})})
        for number, ascending in enumerate(case["ascending"])
    ]
    if len(members) == 1:
        spec = Spec("joined", {"of": members[0]}) if joined == "whole" else members[0]
    else:
        named = dict(zip(case["retrievers"], members, strict=True))
        if joined == "whole":  # the presets that the profile medrag names; their constant is the published one
            constant = {} if case["rrf_k"] == MEDRAG_CONSTANT else {"constant": case["rrf_k"]}
            spec = Spec(f"rrf{len(members)}", {**named, **constant})
        else:
            spec = Spec("rrf", {**named, "constant": case["rrf_k"], "double": True, "joined": joined})
    searcher = open_searcher(spec, "+".join(f"c{number}" for number in range(case["n_corpora"])), Path())
    found = asyncio.run(searcher.search(case["id"], case["k"]))
    sign = -1.0 if case["ascending"] == [True] else 1.0
    variant = "stable" if case["tie_sensitive"] else "out"
    return [hit.id for hit in found] == case[f"{variant}_ids"] and all(
        near(sign * hit.score, score) for hit, score in zip(found, case[f"{variant}_scores"], strict=True)
    )


@contextmanager
def corpus_of(documents: list[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """A corpus as a user has it, of ids and texts, and a home for its indexes."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "corpus.jsonl"
        rows = (json.dumps({"_id": id, "text": text}) + "\n" for id, text in documents)
        path.write_text("".join(rows), encoding="utf-8")
        yield f"beir:{made}", Path(made)


def _anserini(case: Case, spec: str) -> bool:
    """Anserini's hits: the ids in their order, the scores as far as it reports them."""
    with corpus_of(case["docs"]) as (corpus, home):
        searcher = open_searcher(spec, corpus, home)
        for asked in case["queries"]:
            found = asyncio.run(searcher.search(asked["query"], asked["k"]))
            if [hit.id for hit in found] != [id for id, _ in asked["hits"]]:
                return False
            if not all(abs(hit.score - score) < 3e-4 for hit, (_, score) in zip(found, asked["hits"], strict=True)):
                return False
    return True


_R2MED = "bm25[analyser=plain,query_weighted=true,zeros=true]"


def _searched(case: Case, spec: str, k: int, keep: Keep | None = None) -> Retrieved:
    """What ``ragrounds retrieve`` finds for the queries of a case."""
    with corpus_of(list(zip(case["doc_ids"], case["docs"], strict=True))) as (corpus, home):
        queries = dict(zip(case["query_ids"], case["queries"], strict=True))
        return asyncio.run(retrieve(open_searcher(spec, corpus, home), queries, k, keep=keep))


def _same_ranking(ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> bool:
    return [id for id, _ in ours] == [id for id, _ in theirs] and all(
        near(one, other, 1e-5) for (_, one), (_, other) in zip(ours, theirs, strict=True)
    )


def _r2med(case: Case, spec: str) -> bool:
    """R2MED's rankings: ids in their order, and scores, which the weights of query and documents make."""
    found = _searched(case, spec, 100)
    return all(_same_ranking(found.run[query], ranking) for query, ranking in case["ranking"].items())


def _r2med_measures(case: Case, spec: str) -> bool:
    return same_measures(case, _searched(case, spec, 100).scores)


def _bright(case: Case, spec: str) -> bool:
    """BRIGHT's rankings without the documents that a query may not find, and their measures."""
    with tempfile.TemporaryDirectory() as made:
        guard = Path(made) / "guard.jsonl"
        rows = ({"query": query, "documents": ids} for query, ids in case["bright_excluded"].items())
        guard.write_text("".join(json.dumps(row) + "\n" for row in rows))
        keep = leak_filter(dict.fromkeys(case["query_ids"], ""), guard, None)
    found = _searched(case, spec, 1000, keep)
    if any([id for id, _ in found.run[query]] != ids for query, ids in case["bright_ranking_ids"].items()):
        return False
    wanted = {name: name.replace("NDCG", "nDCG").replace("Recall", "R") for name in case["bright_metrics"]}
    summed = means(measure(case["qrels"], found.scores, sorted(wanted.values())))
    return all(round(summed.get(wanted[name], 0.0), 5) == value for name, value in case["bright_metrics"].items())


def _analyser(case: Case) -> bool:
    return analyser("lucene-english")(case["text"]) == case["tokens"]


def _reranking(case: Case, name: str) -> bool:
    """MTEB's average precision and, where scores are distinct, its reciprocal rank."""
    ids = [f"d{number:03}" for number in range(len(case["scores"]))]
    judgements = {"q": dict(zip(ids, map(int, case["relevant"]), strict=True))}
    values = measure(judgements, {"q": dict(zip(ids, case["scores"], strict=True))}, [name, "MRR@10"])
    return near(values[name]["q"], case["ap"]) and case["mrr_at_10"] in (None, values["MRR@10"]["q"])


class _Given:
    """An embedder whose texts are places in a list of vectors."""

    def __init__(self, vectors: list[list[float]]) -> None:
        self._vectors = np.array(vectors)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[int(text) for text in texts]]

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        raise NotImplementedError


def _similarity(case: Case) -> bool:
    """MTEB's correlations of cosines with the graded pairs; none where a side is constant."""
    count = len(case["gold"])
    pairs = [GradedPair(str(place), str(count + place), grade) for place, grade in enumerate(case["gold"])]
    found = cosines(pairs, _Given(case["emb1"] + case["emb2"]))
    made = correlations({"x": found}, case["gold"], [str(place) for place in range(count)], resamples=1)[0]["x"]
    wanted = {"Pearson": case["out"]["cosine_pearson"], "Spearman": case["out"]["cosine_spearman"]}
    return all(near(made[name].value if name in made else None, value) for name, value in wanted.items())


COMPARISONS = (
    Comparison("lucene_english_analyzer", "bm25[analyser=lucene-english]", True, _analyser),
    Comparison(
        "anserini_bm25",
        "bm25[lengths=lucene,ties=id]",
        True,
        lambda case: _anserini(case, "bm25[lengths=lucene,ties=id]"),
    ),
    Comparison(
        "anserini_bm25",
        "bm25",
        False,
        lambda case: _anserini(case, "bm25"),
        "the formula's own lengths, not their one byte; empty passages count; equal scores in the corpus' order",
    ),
    Comparison("medrag_merge", "rrf2, rrf4, joined[of=…]", True, lambda case: _merged(case, "whole")),
    Comparison(
        "medrag_merge",
        "rrf[…], RETRIEVER",
        False,
        lambda case: _merged(case, "cut"),
        "several corpora are one, cut to the depth before ranks are given; equal scores go to the corpus named first",
    ),
    Comparison("r2med_bm25", _R2MED, True, lambda case: _r2med(case, _R2MED), what="rankings and scores"),
    Comparison("r2med_bm25", _R2MED, True, lambda case: _r2med_measures(case, _R2MED), what="measures"),
    Comparison("r2med_bm25", f"{_R2MED} --guard", True, lambda case: _bright(case, _R2MED), what="BRIGHT's"),
    Comparison(
        "r2med_bm25",
        _R2MED.replace(",zeros=true", ""),
        False,
        lambda case: _r2med(case, _R2MED.replace(",zeros=true", "")),
        "only passages that share a term with the query are found",
        what="rankings and scores",
    ),
    Comparison(
        "trec_metrics", "ragrounds retrieve --run", True, lambda case: _trec(case, False), what="queries with results"
    ),
    Comparison(
        "trec_metrics",
        "ragrounds retrieve --run",
        False,
        lambda case: _trec(case, True),
        "every judged query counts: one without results has 0, and is not left out of the mean",
    ),
    Comparison("mteb_reranking", "--measure tiedMAP --measure MRR@10", True, lambda case: _reranking(case, "tiedMAP")),
    Comparison(
        "mteb_reranking",
        "--measure MAP --measure MRR@10",
        False,
        lambda case: _reranking(case, "MAP"),
        "trec_eval's: equal scores are ordered by document id, not taken as one threshold",
    ),
    Comparison("mteb_sts", "ragrounds retrieve --benchmark sts:FILE", True, _similarity, what="cosines"),
)
