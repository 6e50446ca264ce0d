"""Measures of a ranking: nDCG@k, P@k, R@k, MAP@k, MRR@k, and any other measure of trec_eval, computed by trec_eval's
code.

Every judged query counts: a query without results has the value 0, as with trec_eval's option ``-c``. ``tiedMAP`` is
average precision with equal scores as one threshold (scikit-learn's, and so MTEB's for reranking): it does not depend
on the order of ties, which trec_eval orders by document id. A measure may also be given by trec_eval's own name
(``iprec_at_recall_0.10``, ``ndcg_cut_20``, ``gm_map``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean

import numpy as np

from ragrounds.base.errors import UserError, nearest
from ragrounds.extensions.retrieval.trec import Judgements, Run

USUAL = ("nDCG@10", "P@10", "R@10", "R@100", "R@1000", "MAP@10", "MRR@10")
"""Measures that are computed by default."""

# Our spelling → trec_eval's with a cut-off and without one. trec_eval cannot cut the reciprocal rank: we cut the run.
_TREC_EVAL_NAMES: dict[str, tuple[str | None, str | None]] = {
    "nDCG": ("ndcg_cut", "ndcg"),
    "P": ("P", None),
    "R": ("recall", None),
    "MAP": ("map_cut", "map"),
    "MRR": ("recip_rank", "recip_rank"),
    "Success": ("success", None),
    "Rprec": (None, "Rprec"),
    "Bpref": (None, "bpref"),
    "tiedMAP": (None, "tiedMAP"),
}
_ALIASES = {"precision": "P", "recall": "R", "ap": "MAP", "rr": "MRR", "hit": "Success"}
_NAMES = {name.lower(): name for name in _TREC_EVAL_NAMES} | _ALIASES
_MEASURE = re.compile(r"([A-Za-z]+)(?:@(\d{1,9}))?")
_FLOOR = 0.00001
"""Value by which trec_eval's geometric means replace smaller values of a query."""


def canonical(name: str) -> str:
    """Return the canonical spelling of a measure: ``map@10`` → ``MAP@10``.

    Raises:
        UserError: the measure is unknown.
    """
    label = name.strip()
    match = _MEASURE.fullmatch(label)
    kind = _NAMES.get(match.group(1).lower()) if match else None
    if match is None or kind is None:
        if _trec_base(label) is None:
            names = sorted(_TREC_EVAL_NAMES)
            raise UserError(
                f"Unknown measure {name!r}.{nearest(label, names)} Known: {', '.join(names)}, with @k, and trec_eval's."
            )
        return label
    cut, uncut = _TREC_EVAL_NAMES[kind]
    k = match.group(2)
    if k is None and uncut is None:
        raise UserError(f"The measure {name!r} needs a cut-off: {kind}@10, say.")
    if k is not None and (cut is None or int(k) < 1):
        raise UserError(f"The measure {name!r} cannot be cut there: expected {kind + '@1 or more' if cut else kind}.")
    return f"{kind}@{int(k)}" if k else kind


def deepest(measures: Iterable[str]) -> int:
    """Return how many documents per query the measures look at; 1000, as at TREC, if a measure has no cut-off."""
    return max((int(name.partition("@")[2] or 1000) for name in map(canonical, measures)), default=1000)


def measure(
    judgements: Judgements, run: Run, measures: Sequence[str] = USUAL, *, relevant: int = 1
) -> dict[str, dict[str, float]]:
    """Measure a run: measure → query → value, for every judged query.

    Args:
        judgements: grades of documents. Queries of the run without judgements are left out.
        run: scores of documents; higher is better.
        measures: names, in any spelling that :func:`canonical` accepts.
        relevant: smallest grade that counts as relevant for a measure without grades (trec_eval's ``-l``).
    """
    names = [canonical(name) for name in measures]
    judged_results = {query: dict(documents) for query, documents in run.items() if query in judgements and documents}
    # The value of a query without results is 0 or, for geometric means, the logarithm of trec_eval's floor.
    values: dict[str, dict[str, float]] = {
        name: dict.fromkeys(judgements, math.log(_FLOOR) if name.startswith("gm_") else 0.0) for name in names
    }
    if "tiedMAP" in names:
        values["tiedMAP"] |= {
            query: tied_precision(judgements[query], docs, relevant) for query, docs in judged_results.items()
        }
    by_cut: dict[int | None, dict[str, str]] = {}
    for name in names:
        if name == "tiedMAP":
            continue
        kind, _, k = name.partition("@")
        # trec_eval cannot cut the reciprocal rank: the run is cut instead.
        by_cut.setdefault(int(k) if kind == "MRR" and k else None, {})[_trec_eval_name(name)] = name
    for cut, names_by_trec_name in by_cut.items():
        cut_run = (
            judged_results
            if cut is None
            else {query: dict(ordered(docs)[:cut]) for query, docs in judged_results.items()}
        )
        for query, query_values in _evaluate(judgements, cut_run, list(names_by_trec_name), relevant).items():
            for trec_name, name in names_by_trec_name.items():
                values[name][query] = float(query_values[trec_name])
    return values


def tied_precision(grades: Mapping[str, int], scores: Mapping[str, float], relevant: int = 1) -> float:
    """Return the average precision with equal scores as one threshold; 0 if nothing is relevant.

    It is the sum over the thresholds of their precision times the recall that each adds.
    """
    relevant_ids = {document for document, grade in grades.items() if grade >= relevant}
    hits_by_score: dict[float, list[int]] = {}
    for document, score in scores.items():
        hits_by_score.setdefault(score, []).append(document in relevant_ids)
    seen = total_hits = 0
    total = 0.0
    for score in sorted(hits_by_score, reverse=True):
        hits = sum(hits_by_score[score])
        seen, total_hits = seen + len(hits_by_score[score]), total_hits + hits
        total += hits * total_hits / seen
    return total / len(relevant_ids) if relevant_ids else 0.0


def ordered(documents: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return documents in trec_eval's order: by score as a float32, equal scores by id, both descending."""
    return sorted(documents.items(), key=lambda scored: (float(np.float32(scored[1])), scored[0]), reverse=True)


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each measure over its queries as trec_eval does: counts are added, ``gm_…`` are geometric
    means.
    """
    summed: dict[str, float] = {}
    for name, query_values in values.items():
        if name.startswith("num_"):
            summed[name] = sum(query_values.values())
        elif query_values:
            mean = fmean(query_values.values())
            summed[name] = math.exp(mean) if name.startswith("gm_") else mean
    return summed


def _evaluate(judgements: Judgements, run: Run, measures: list[str], relevant: int) -> dict[str, dict[str, float]]:
    import pytrec_eval

    if not run:
        return {}
    grades = {query: dict(documents) for query, documents in judgements.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(grades, measures, relevance_level=relevant)
    values: dict[str, dict[str, float]] = evaluator.evaluate(run)
    return values


def _trec_eval_name(name: str) -> str:
    kind, _, k = name.partition("@")
    if kind not in _TREC_EVAL_NAMES:
        return name
    cut, uncut = _TREC_EVAL_NAMES[kind]
    return f"{cut}_{k}" if k and kind != "MRR" else str(uncut)


@cache
def _trec_base(name: str) -> str | None:
    """Return the measure of trec_eval that a name with parameters belongs to."""
    import pytrec_eval

    for base in pytrec_eval.supported_measures:
        if name == base or re.fullmatch(re.escape(base) + r"_\d+(\.\d+)?", name):
            return str(base)
    return None
