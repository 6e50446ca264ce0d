"""Measures of a ranking: nDCG@k, P@k, R@k, MAP@k, MRR@k, and whatever else trec_eval has, by running trec_eval's code.

Every judged query counts: one that the run has nothing for has the value 0, as with trec_eval's option ``-c``.
``tiedMAP`` is average precision with equal scores as one threshold (scikit-learn's, and so MTEB's for reranking): it
does not depend on how ties are ordered, where trec_eval orders them by document id.
A measure may also be given by trec_eval's own name (``iprec_at_recall_0.10``, ``ndcg_cut_20``, ``gm_map``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import fmean

import numpy as np

from ragrounds.base.errors import UserError, nearest
from ragrounds.evals.retrieval.trec import Judgements, Run

USUAL = ("nDCG@10", "P@10", "R@10", "R@100", "R@1000", "MAP@10", "MRR@10")
"""What is measured when nothing else is asked for."""

# Our spelling → trec_eval's with a cut-off and without one. trec_eval cannot cut the reciprocal rank: we cut the run.
_THEIRS: dict[str, tuple[str | None, str | None]] = {
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
_ALSO = {"precision": "P", "recall": "R", "ap": "MAP", "rr": "MRR", "hit": "Success"}
_NAMES = {name.lower(): name for name in _THEIRS} | _ALSO
_MEASURE = re.compile(r"([A-Za-z]+)(?:@(\d{1,9}))?")
_FLOOR = 0.00001
"""The least value that trec_eval's geometric means take a query for."""


def canonical(name: str) -> str:
    """The one spelling of a measure: ``map@10`` → ``MAP@10``.

    Raises:
        UserError: there is no such measure.
    """
    given = name.strip()
    match = _MEASURE.fullmatch(given)
    kind = _NAMES.get(match.group(1).lower()) if match else None
    if match is None or kind is None:
        if _trec_base(given) is None:
            known = sorted(_THEIRS)
            raise UserError(
                f"Unknown measure {name!r}.{nearest(given, known)} Known: {', '.join(known)}, with @k, and trec_eval's."
            )
        return given
    cut, whole = _THEIRS[kind]
    k = match.group(2)
    if k is None and whole is None:
        raise UserError(f"The measure {name!r} needs a cut-off: {kind}@10, say.")
    if k is not None and (cut is None or int(k) < 1):
        raise UserError(f"The measure {name!r} cannot be cut there: expected {kind + '@1 or more' if cut else kind}.")
    return f"{kind}@{int(k)}" if k else kind


def deepest(measures: Iterable[str]) -> int:
    """How many documents a query the measures look at; 1000, as at TREC, where one has no cut-off."""
    return max((int(name.partition("@")[2] or 1000) for name in map(canonical, measures)), default=1000)


def measure(
    judgements: Judgements, run: Run, measures: Sequence[str] = USUAL, *, relevant: int = 1
) -> dict[str, dict[str, float]]:
    """Measure a run: measure → query → value, for every judged query.

    Args:
        judgements: What is relevant. Queries of the run that are not judged are left out.
        run: Scores of documents; a higher one is better.
        measures: Names, in any spelling that :func:`canonical` knows.
        relevant: The least grade that counts as relevant where a measure knows no grades (trec_eval's ``-l``).
    """
    names = [canonical(name) for name in measures]
    kept = {query: dict(documents) for query, documents in run.items() if query in judgements and documents}
    values: dict[str, dict[str, float]] = {name: dict.fromkeys(judgements, _absent(name)) for name in names}
    if "tiedMAP" in names:
        values["tiedMAP"] |= {query: tied_precision(judgements[query], docs, relevant) for query, docs in kept.items()}
    by_cut: dict[int | None, dict[str, str]] = {}
    for name in names:
        if name == "tiedMAP":
            continue
        kind, _, k = name.partition("@")
        by_cut.setdefault(int(k) if kind == "MRR" and k else None, {})[_theirs(name)] = name
    for cut, wanted in by_cut.items():
        cut_run = kept if cut is None else {query: dict(ordered(docs)[:cut]) for query, docs in kept.items()}
        for query, found in _evaluate(judgements, cut_run, list(wanted), relevant).items():
            for theirs, name in wanted.items():
                values[name][query] = float(found[theirs])
    return values


def tied_precision(grades: Mapping[str, int], scores: Mapping[str, float], relevant: int = 1) -> float:
    """Average precision where documents with equal scores are found together: the sum over the thresholds of their
    precision times the recall that each adds. 0 where nothing is relevant."""
    wanted = {document for document, grade in grades.items() if grade >= relevant}
    held: dict[float, list[int]] = {}
    for document, score in scores.items():
        held.setdefault(score, []).append(document in wanted)
    seen = found = 0
    total = 0.0
    for score in sorted(held, reverse=True):
        hits = sum(held[score])
        seen, found = seen + len(held[score]), found + hits
        total += hits * found / seen
    return total / len(wanted) if wanted else 0.0


def ordered(documents: Mapping[str, float]) -> list[tuple[str, float]]:
    """Documents as trec_eval orders them: by score as a float32, equal ones by id, both descending."""
    return sorted(documents.items(), key=lambda item: (float(np.float32(item[1])), item[0]), reverse=True)


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Each measure over its queries, as trec_eval sums it up: counts are added, ``gm_…`` are geometric means."""
    summed: dict[str, float] = {}
    for name, each in values.items():
        if name.startswith("num_"):
            summed[name] = sum(each.values())
        elif each:
            mean = fmean(each.values())
            summed[name] = math.exp(mean) if name.startswith("gm_") else mean
    return summed


def _absent(name: str) -> float:
    """What a query without results has: 0, and for geometric means, which are kept as logarithms, trec_eval's floor."""
    return math.log(_FLOOR) if name.startswith("gm_") else 0.0


def _evaluate(judgements: Judgements, run: Run, measures: list[str], relevant: int) -> dict[str, dict[str, float]]:
    import pytrec_eval

    if not run:
        return {}
    judged = {query: dict(documents) for query, documents in judgements.items()}
    evaluator = pytrec_eval.RelevanceEvaluator(judged, measures, relevance_level=relevant)
    result: dict[str, dict[str, float]] = evaluator.evaluate(run)
    return result


def _theirs(name: str) -> str:
    kind, _, k = name.partition("@")
    if kind not in _THEIRS:
        return name
    cut, whole = _THEIRS[kind]
    return f"{cut}_{k}" if k and kind != "MRR" else str(whole)


@cache
def _trec_base(name: str) -> str | None:
    """The measure of trec_eval that a name with parameters belongs to."""
    import pytrec_eval

    for base in pytrec_eval.supported_measures:
        if name == base or re.fullmatch(re.escape(base) + r"_\d+(\.\d+)?", name):
            return str(base)
    return None
