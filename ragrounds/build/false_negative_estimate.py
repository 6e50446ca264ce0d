"""How many relevant documents a benchmark's labels miss, from the grades of all found documents or of a sample of them.

Table 20 of CMedTEB takes a model's grades for the truth and gives means over queries, within the found documents:
labelled, relevant by the grades, labelled but not relevant (false positives), relevant but not labelled (false
negatives). The relevant ones are the labelled ones, less the false positives, plus the false negatives.

Each figure has an interval over whole queries (equal queries together), since the documents of one query are not
independent; a mean over too few queries has none. It speaks of queries like these, found to this depth by this
retriever and graded by this model. Documents that stand deeper are not counted, so the number missed is a lower bound.

A sample is stratified by bands of ranks: relevance falls with the rank, so that a sample of the same size says more
when each band has its share (Cochran 1977, Chapter 5). The labels play no part in the draw, because the graph must not
see them. A document of the band h then stands for N_h / n_h documents (found and graded in that band; the stratified
expansion estimator, same chapter). Drawing whole queries also carries the error of that sampling. A band without a
grade leaves its query out, and is counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.stats import Estimate, ratio_of_sums


def read_bands(text: str, depth: int) -> tuple[tuple[int, int], ...]:
    """Bands of ranks, first and last, from the last ranks of all but the deepest: ``10,25`` with depth 50 is 1–10,
    11–25, 26–50.

    Raises:
        UserError: no whole numbers, or none that rise.
    """
    try:
        ends = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        ends = [0]
    if any(end < 1 for end in ends) or ends != sorted(set(ends)):
        raise UserError(f"The bands {text!r} are none: expected rising ranks, such as 10,25.")
    ends = [end for end in ends if end < depth] + [depth]
    return tuple(zip([1, *(end + 1 for end in ends)], ends, strict=False))


def band_of(rank: int, bands: Sequence[tuple[int, int]]) -> int:
    """The number, from 0, of the band that holds a rank from 1."""
    return next(number for number, (first, last) in enumerate(bands) if first <= rank <= last)


def allocation(sizes: Sequence[int], sample: int) -> list[int]:
    """How many of each band are drawn: as equal as can be, the first ones more; what a small band cannot give is taken
    from the others."""
    many = [0] * len(sizes)
    left = min(sample, sum(sizes))
    while left:
        for number, size in enumerate(sizes):
            if left and many[number] < size:
                many[number] += 1
                left -= 1
    return many


def stratified_sample(documents: Sequence[str], bands: Sequence[tuple[int, int]], sample: int, seed: str) -> list[str]:
    """The documents to grade, best first; `documents` stand best first too. `sample` 0: all."""
    if not sample:
        return list(documents)
    within: Mapping[int, list[str]] = {number: [] for number in range(len(bands))}
    for rank, document in enumerate(documents, 1):
        within[band_of(rank, bands)].append(document)
    chosen: set[str] = set()
    for (_, inside), many in zip(
        within.items(), allocation([len(inside) for inside in within.values()], sample), strict=True
    ):
        lots = sorted(inside, key=lambda document: hashlib.sha256(f"{seed}\n{document}".encode()).digest())
        chosen |= set(lots[:many])
    return [document for document in documents if document in chosen]


Bands = Sequence[tuple[int, int]]
NO_GRADE = "no grade in one of its bands"


class GradedQuery(Struct, frozen=True, kw_only=True):
    """A query with what was found and graded."""

    query: str
    cluster: str
    candidates: tuple[str, ...]
    """Documents, best first."""
    grades: Mapping[str, str | None]
    """Of those that were drawn; ``None``: none that can be read."""
    labelled: frozenset[str]
    """Documents that the benchmark calls relevant."""


class QueryCounts(Struct, frozen=True, kw_only=True):
    """A query's figures: counts where all was graded, estimates of them where a sample was."""

    labelled: float
    relevant: float
    false_positives: float
    false_negatives: float
    unlabelled: float
    """Found documents without a label: what could be a false negative."""


class RankBand(Struct, frozen=True, kw_only=True):
    """What was found at some ranks."""

    first: int
    last: int
    graded: int
    """Documents without a label that have a grade."""
    share: Estimate | None
    """Of these, the share that is relevant; ``None``: there are none."""


class MissingLabels(Struct, frozen=True, kw_only=True):
    """What the labels miss. Figures are per query unless they say otherwise."""

    depth: int
    queries: int
    """Behind the figures."""
    left_out: int
    """Queries that were drawn and are not behind them."""
    left_out_why: dict[str, int]
    """Reason → queries; :attr:`left_out` in all."""
    pairs: int
    """Graded."""
    unreadable: int
    """Drawn, but without a grade: the reply could not be read, or the grader refused."""
    sampled: bool
    """Whether some found documents were not drawn."""
    labelled: Estimate
    relevant: Estimate
    false_positives: Estimate
    false_negatives: Estimate
    share: Estimate | None
    """Share of the found documents without a label that are relevant."""
    completeness: Estimate | None
    """Share of the relevant found documents that are labelled."""
    bands: tuple[RankBand, ...]
    grades: dict[str, int]


def query_counts(graded: GradedQuery, bands: Bands, relevant: Collection[str]) -> QueryCounts | None:
    """One query's figures; ``None``: a band has no grade."""
    rank = {document: number for number, document in enumerate(graded.candidates, 1)}
    band = {document: band_of(number, bands) for document, number in rank.items()}
    sizes = Counter(band.values())
    readable = {document: grade for document, grade in graded.grades.items() if grade is not None}
    numbers = Counter(band[document] for document in readable)
    if any(not numbers[number] for number in sizes):
        return None
    weight = {number: sizes[number] / numbers[number] for number in sizes}

    def total(documents: Iterable[str]) -> float:
        """How many found documents these stand for."""
        return sum(weight[band[document]] for document in documents)

    right = {document for document, grade in readable.items() if grade in relevant}
    labelled = sum(document in graded.labelled for document in graded.candidates)
    wrong = total(document for document in readable if document in graded.labelled and document not in right)
    missed = total(document for document in right if document not in graded.labelled)
    return QueryCounts(
        labelled=labelled,
        relevant=labelled - wrong + missed,
        false_positives=wrong,
        false_negatives=missed,
        unlabelled=len(graded.candidates) - labelled,
    )


def estimate_missing(
    queries: Sequence[GradedQuery],
    bands: Bands,
    relevant: Collection[str],
    *,
    lost: Iterable[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
) -> MissingLabels:
    """All figures. `lost` has a reason for each query of which nothing was graded.

    Raises:
        ValueError: no query has a grade in each band.
    """
    tallies = [(query, query_counts(query, bands, relevant)) for query in queries]
    counted = [(query, found) for query, found in tallies if found is not None]
    if not counted:
        raise ValueError("no query has a grade in each of its bands")
    why = Counter(lost) + Counter({NO_GRADE: len(tallies) - len(counted)})
    clusters = [query.cluster or query.query for query, _ in counted]

    def mean(values: Sequence[float]) -> Estimate:
        """Mean over queries, with its interval."""
        return ratio_of_sums(values, [1.0] * len(values), clusters, share=False, seed=seed, resamples=resamples)

    def share(part: Sequence[float], whole: Sequence[float]) -> Estimate | None:
        """Ratio of the sums over queries; ``None``: the whole is empty."""
        return ratio_of_sums(part, whole, clusters, share=True) if sum(whole) else None

    missed = [found.false_negatives for _, found in counted]
    all_relevant = [found.relevant for _, found in counted]
    readable = [grade for query, _ in counted for grade in query.grades.values() if grade is not None]
    return MissingLabels(
        depth=bands[-1][1],
        queries=len(counted),
        left_out=why.total(),
        left_out_why=dict(why.most_common()),
        pairs=len(readable),
        unreadable=sum(grade is None for query in queries for grade in query.grades.values()),
        sampled=any(len(query.grades) < len(query.candidates) for query in queries),
        labelled=mean([found.labelled for _, found in counted]),
        relevant=mean(all_relevant),
        false_positives=mean([found.false_positives for _, found in counted]),
        false_negatives=mean(missed),
        share=share(missed, [found.unlabelled for _, found in counted]),
        completeness=share([all_ - lost for all_, lost in zip(all_relevant, missed, strict=True)], all_relevant),
        bands=tuple(_band(number, counted, bands, relevant, clusters) for number in range(len(bands))),
        grades=dict(sorted(Counter(readable).items())),
    )


def _band(
    number: int,
    counted: Sequence[tuple[GradedQuery, QueryCounts]],
    bands: Bands,
    relevant: Collection[str],
    clusters: Sequence[str],
) -> RankBand:
    """One band: within it every graded document of a query has the same weight, so the share is of plain counts."""
    first, last = bands[number]
    good, all_ = [], []
    for query, _ in counted:
        grades = [
            grade
            for document in query.candidates[first - 1 : last]
            if document not in query.labelled and (grade := query.grades.get(document)) is not None
        ]
        good.append(float(sum(grade in relevant for grade in grades)))
        all_.append(float(len(grades)))
    return RankBand(
        first=first,
        last=last,
        graded=int(sum(all_)),
        share=ratio_of_sums(good, all_, clusters, share=True) if sum(all_) else None,
    )
