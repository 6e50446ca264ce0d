"""Answers by what retrieval had found: the gold passage's position (MIRAGE Fig. 4), success or failure (OGCaReBench
Table 14), quality of the ranking (R2MED Fig. 5), sources of the passages (MIRAGE Fig. 5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.analyses.run_data import FoundPassages, ScoredRun, gold_rank
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.stats.intervals import wilson
from ragrounds.records import Gold, Passage

EDGES = (1, 2, 3, 5, 9, 17, 33)
"""First ranks of the bins of positions: 1, 2, 3–4, 5–8, 9–16, 17–32, 33 and more."""
NOT_FOUND = "not found"


class PositionBin(Struct, frozen=True, kw_only=True):
    """Questions whose gold passage stood at these ranks."""

    ranks: str
    questions: int
    figure: Figure


class Positions(Struct, frozen=True, kw_only=True):
    """Accuracy by the gold passage's rank in an attempt's first search."""

    run: str
    scorer: str
    bins: tuple[PositionBin, ...]
    without_gold: int
    """Questions that name no gold document, or were not searched for: in no bin."""


class Success(Struct, frozen=True, kw_only=True):
    """Retrieval success against a right answer."""

    run: str
    scorer: str
    k: int
    found_right: int
    found_wrong: int
    missed_right: int
    missed_wrong: int
    accuracy_found: float | None
    accuracy_missed: float | None
    difference: float | None
    """Accuracy with the gold document found, less that without; with Newcombe's interval (1998, method 10)."""
    low: float | None
    high: float | None
    without_gold: int


class RunQuality(Struct, frozen=True, kw_only=True):
    """One run's retrieval quality and its accuracy."""

    run: str
    ndcg: float
    """Mean nDCG@k of the first search, each gold document counting once."""
    figure: Figure
    questions: int


class Qualities(Struct, frozen=True, kw_only=True):
    """Answer accuracy against nDCG@k, one point a run."""

    scorer: str
    k: int
    runs: tuple[RunQuality, ...]
    correlation: float | None
    """Pearson's, over runs; ``None`` for fewer than three or without spread."""


class Sources(Struct, frozen=True, kw_only=True):
    """Which sources the top k passages come from."""

    run: str
    k: int
    shares: dict[str, dict[str, float]]
    """Dataset → source → share of its passages."""
    corpus: dict[str, float]
    """Source → share of the corpus itself; empty: not given."""


def by_position(
    run: ScoredRun, found: Mapping[str, FoundPassages], edges: Sequence[int] = EDGES, seed: int = 0
) -> Positions:
    """Accuracy in bins of the gold passage's rank; `found` is each question's first search."""
    names = [*(_ranks(start, end) for start, end in zip(edges, [*edges[1:], 0], strict=True)), NOT_FOUND]
    members: dict[str, list[str]] = {name: [] for name in names}
    for question, rank in _ranks_of(run, found).items():
        place = len(edges) if rank is None else sum(rank >= edge for edge in edges) - 1
        members[names[place]].append(question)
    counted = sum(len(ids) for ids in members.values())
    return Positions(
        run=run.run.id,
        scorer=run.scorer,
        bins=tuple(
            PositionBin(ranks=name, questions=len(ids), figure=run.figure(ids, seed))
            for name, ids in members.items()
            if ids
        ),
        without_gold=len(run.questions) - counted,
    )


def by_success(run: ScoredRun, found: Mapping[str, FoundPassages], k: int) -> Success:
    """Right and wrong answers with a gold document among the first k passages, and without. A value of 1 is right."""
    table: Counter[tuple[bool, bool]] = Counter()
    ranks = _ranks_of(run, found)
    for question, rank in ranks.items():
        value = run.values.get(question)
        if value is not None:
            table[rank is not None and rank <= k, value == 1.0] += 1
    hit, miss = table[True, True] + table[True, False], table[False, True] + table[False, False]
    difference, low, high = _newcombe(table[True, True], hit, table[False, True], miss)
    return Success(
        run=run.run.id,
        scorer=run.scorer,
        k=k,
        found_right=table[True, True],
        found_wrong=table[True, False],
        missed_right=table[False, True],
        missed_wrong=table[False, False],
        accuracy_found=table[True, True] / hit if hit else None,
        accuracy_missed=table[False, True] / miss if miss else None,
        difference=difference,
        low=low,
        high=high,
        without_gold=len(run.questions) - hit - miss,
    )


def against_ndcg(
    runs: Sequence[tuple[ScoredRun, Mapping[str, FoundPassages]]], k: int = 10, seed: int = 0
) -> Qualities:
    """Answer accuracy against nDCG@k over runs, on the questions that have gold documents and were searched for."""
    points = []
    for run, found in runs:
        ids = [q.id for q in run.questions if run.golds[q.id].documents and q.id in found]
        if not ids:
            raise UserError(f"The run {run.run.id} has no searched question with gold documents.")
        quality = math.fsum(ndcg(found[id].passages, run.golds[id], k) for id in ids) / len(ids)
        points.append(RunQuality(run=run.run.id, ndcg=quality, figure=run.figure(ids, seed), questions=len(ids)))
    pairs = [(point.ndcg, point.figure.value) for point in points if point.figure.value is not None]
    return Qualities(scorer=runs[0][0].scorer, k=k, runs=tuple(points), correlation=_pearson(pairs))


def ndcg(passages: Sequence[Passage], gold: Gold, k: int) -> float:
    """nDCG@k with binary gains; a document counts at its first passage, and the ranks are those of documents."""
    wanted = set(gold.documents)
    ranking = list(dict.fromkeys(passage.document for passage in passages))[:k]
    gain = math.fsum(1 / math.log2(rank + 1) for rank, id in enumerate(ranking, start=1) if id in wanted)
    best = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(len(wanted), k) + 1))
    return gain / best if best else 0.0


def sources(
    run: ScoredRun,
    found: Mapping[str, FoundPassages],
    k: int,
    source: Callable[[Passage], str] = lambda passage: passage.corpus.partition("@")[0],
    sizes: Mapping[str, int] | None = None,
) -> Sources:
    """Shares of sources among the first k passages of each question's first search, by dataset.

    Args:
        run: whose questions are looked at.
        found: each question's first search.
        k: passages of each search.
        source: the source of a passage; by default its corpus.
        sizes: passages of each source in the corpus, for its own shares.
    """
    counts: dict[str, Counter[str]] = {}
    for question in run.questions:
        if question.id in found:
            counted = counts.setdefault(question.benchmark, Counter())
            counted.update(source(passage) for passage in found[question.id].passages[:k])
    total = sum((sizes or {}).values())
    return Sources(
        run=run.run.id,
        k=k,
        shares={name: _shares(counted) for name, counted in counts.items() if counted.total()},
        corpus={name: size / total for name, size in (sizes or {}).items()} if total else {},
    )


def _ranks_of(run: ScoredRun, found: Mapping[str, FoundPassages]) -> dict[str, int | None]:
    """The gold rank of every question that names gold documents and was searched for."""
    return {
        question.id: gold_rank(found[question.id].passages, run.golds[question.id])
        for question in run.questions
        if run.golds[question.id].documents and question.id in found
    }


def _ranks(start: int, end: int) -> str:
    if not end:
        return f"{start} and more"
    return str(start) if end == start + 1 else f"{start}–{end - 1}"


def _newcombe(right: int, n: int, other_right: int, other_n: int) -> tuple[float | None, float | None, float | None]:
    if not n or not other_n:
        return None, None, None
    one, other = right / n, other_right / other_n
    low1, high1 = wilson(right, n)
    low2, high2 = wilson(other_right, other_n)
    difference = one - other
    low = difference - math.sqrt((one - low1) ** 2 + (high2 - other) ** 2)
    high = difference + math.sqrt((high1 - one) ** 2 + (other - low2) ** 2)
    return difference, low, high


def _pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    if len(pairs) < 3:
        return None
    from statistics import StatisticsError, correlation

    try:
        return correlation([x for x, _ in pairs], [y for _, y in pairs])
    except StatisticsError:  # no spread
        return None


def _shares(counted: Counter[str]) -> dict[str, float]:
    return {name: count / counted.total() for name, count in counted.most_common()}
