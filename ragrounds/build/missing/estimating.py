"""From grades to how many relevant documents the labels miss.

Table 20 of CMedTEB takes a model's grades for the truth and gives means over queries, within the found documents:
labelled, relevant by the grades, labelled but not relevant (false positives), relevant but not labelled (false
negatives). What is relevant is what is labelled, less the false positives, and the false negatives.

Each mean has an interval: a percentile bootstrap that draws whole queries (equal queries together), since the documents
of one query are not independent. It speaks of queries like these, found to this depth by this retriever and graded by
this model; what stands deeper is not counted, so the number missed is a lower one.

Where only a sample of a query's documents was graded, a document of the band h stands for N_h / n_h documents (found
and graded in that band; the stratified expansion estimator, Cochran 1977, Chapter 5). Drawing whole queries also
carries the error of that sampling. A band without a grade leaves its query out, and is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.build.missing.drawing import band_of
from ragrounds.evals.stats import Estimate, ratio_of_sums

Bands = Sequence[tuple[int, int]]
NO_GRADE = "no grade in one of its bands"


class Graded(Struct, frozen=True, kw_only=True):
    """A query with what was found and graded."""

    query: str
    cluster: str
    candidates: tuple[str, ...]
    """Documents, best first."""
    grades: Mapping[str, str | None]
    """Of those that were drawn; ``None``: none that can be read."""
    labelled: frozenset[str]
    """Documents that the benchmark calls relevant."""


class Tally(Struct, frozen=True, kw_only=True):
    """A query's figures: counts where all was graded, estimates of them where a sample was."""

    labelled: float
    relevant: float
    false_positives: float
    false_negatives: float
    unlabelled: float
    """Found documents without a label: what could be a false negative."""


class Band(Struct, frozen=True, kw_only=True):
    """What was found at some ranks."""

    first: int
    last: int
    graded: int
    """Documents without a label that have a grade."""
    share: Estimate | None
    """Of these, the share that is relevant; ``None``: there are none."""


class Missing(Struct, frozen=True, kw_only=True):
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
    bands: tuple[Band, ...]
    grades: dict[str, int]


def tally(graded: Graded, bands: Bands, relevant: Collection[str]) -> Tally | None:
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
        return sum(weight[band[document]] for document in documents)

    right = {document for document, grade in readable.items() if grade in relevant}
    labelled = sum(document in graded.labelled for document in graded.candidates)
    wrong = total(document for document in readable if document in graded.labelled and document not in right)
    missed = total(document for document in right if document not in graded.labelled)
    return Tally(
        labelled=labelled,
        relevant=labelled - wrong + missed,
        false_positives=wrong,
        false_negatives=missed,
        unlabelled=len(graded.candidates) - labelled,
    )


def estimate(
    queries: Sequence[Graded],
    bands: Bands,
    relevant: Collection[str],
    *,
    lost: Iterable[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
) -> Missing:
    """All figures. `lost` has a reason for each query of which nothing was graded.

    Raises:
        ValueError: no query has a grade in each band.
    """
    tallies = [(query, tally(query, bands, relevant)) for query in queries]
    counted = [(query, found) for query, found in tallies if found is not None]
    if not counted:
        raise ValueError("no query has a grade in each of its bands")
    why = Counter(lost) + Counter({NO_GRADE: len(tallies) - len(counted)})
    clusters = [query.cluster or query.query for query, _ in counted]

    def mean(values: Sequence[float]) -> Estimate:
        return ratio_of_sums(values, [1.0] * len(values), clusters, seed=seed, resamples=resamples)

    def share(part: Sequence[float], whole: Sequence[float]) -> Estimate | None:
        return ratio_of_sums(part, whole, clusters, seed=seed, resamples=resamples) if sum(whole) else None

    missed = [found.false_negatives for _, found in counted]
    all_relevant = [found.relevant for _, found in counted]
    readable = [grade for query, _ in counted for grade in query.grades.values() if grade is not None]
    return Missing(
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
        bands=tuple(_band(number, counted, bands, relevant, clusters, seed, resamples) for number in range(len(bands))),
        grades=dict(sorted(Counter(readable).items())),
    )


def _band(
    number: int,
    counted: Sequence[tuple[Graded, Tally]],
    bands: Bands,
    relevant: Collection[str],
    clusters: Sequence[str],
    seed: int,
    resamples: int,
) -> Band:
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
    return Band(
        first=first,
        last=last,
        graded=int(sum(all_)),
        share=ratio_of_sums(good, all_, clusters, seed=seed, resamples=resamples) if sum(all_) else None,
    )
