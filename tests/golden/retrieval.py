"""Retrieval beside the programs of MedRAG, Pyserini, R2MED, BRIGHT and MTEB."""

from __future__ import annotations

from ragrounds.evals.retrieval.measures import means, measure
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


COMPARISONS = (Comparison("trec_metrics", "ragrounds retrieve --run", True, _trec),)
