"""Retrieval beside the programs of MedRAG, Pyserini, R2MED, BRIGHT and MTEB."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ragrounds.contracts import Searcher
from ragrounds.evals.retrieval.measures import means, measure
from ragrounds.records import Passage
from ragrounds.specs import Spec
from ragrounds.tools.corpora import corpora_of
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


def same_measures(case: Case, run: dict[str, dict[str, float]]) -> bool:
    """Whether a run's measures, of each query and on average over those that have results, are those recorded."""
    judged = {query: grades for query, grades in case["qrels"].items() if run.get(query)}
    wanted = {name: _measure_name(name) for name in case["metrics"]}
    each = {name: _query_measure(name) for found in case["per_query"].values() for name in found}
    values = measure(judged, run, sorted({*wanted.values(), *each.values()}))
    summed = means(values)
    return all(
        near(values[each[name]][query], value)
        for query, found in case["per_query"].items()
        for name, value in found.items()
    ) and all(round(summed.get(wanted[name], 0.0), 5) == value for name, value in case["metrics"].items())


def _trec(case: Case) -> bool:
    return same_measures(case, case["results"])


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
        spec = Spec("rrf", {**named, "constant": case["rrf_k"], "double": True, "joined": joined})
    searcher = open_searcher(spec, "+".join(f"c{number}" for number in range(case["n_corpora"])), Path())
    found = asyncio.run(searcher.search(case["id"], case["k"]))
    sign = -1.0 if case["ascending"] == [True] else 1.0
    variant = "stable" if case["tie_sensitive"] else "out"
    return [hit.id for hit in found] == case[f"{variant}_ids"] and all(
        near(sign * hit.score, score) for hit, score in zip(found, case[f"{variant}_scores"], strict=True)
    )


COMPARISONS = (
    Comparison("medrag_merge", "rrf4, rrf[…,joined=whole], joined[of=…]", True, lambda case: _merged(case, "whole")),
    Comparison(
        "medrag_merge",
        "rrf[…], RETRIEVER",
        False,
        lambda case: _merged(case, "cut"),
        "several corpora are one, cut to the depth before ranks are given; equal scores go to the corpus named first",
    ),
    Comparison("trec_metrics", "ragrounds retrieve --run", True, _trec),
)
