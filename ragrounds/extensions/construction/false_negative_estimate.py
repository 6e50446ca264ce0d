"""How many relevant documents a benchmark's labels miss, from the grades of all found documents.

Table 20 of CMedTEB takes a model's grades for the truth and gives means over queries, within the found documents:
labelled, relevant by the grades, labelled but not relevant (false positives), relevant but not labelled (false
negatives). The relevant ones are the labelled ones, less the false positives, plus the false negatives.

Each figure has an interval over whole queries (equal queries together), since the documents of one query are not
independent; a mean over too few queries has none. It speaks of queries like these, found to this depth by this
retriever and graded by this model. Documents that stand deeper are not counted, so the number missed is a lower bound.
For documents whose grade could not be read, those of the same query that have one stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.stats import Estimate, stratified_mean

NO_GRADE = "no grade could be read"


class GradedQuery(Struct, frozen=True, kw_only=True):
    """A query with what was found and graded."""

    query: str
    cluster: str
    candidates: tuple[str, ...]
    """Documents, best first."""
    grades: Mapping[str, str | None]
    """Of these; ``None``: none that can be read."""
    labelled: frozenset[str]
    """Documents that the benchmark calls relevant."""


class QueryCounts(Struct, frozen=True, kw_only=True):
    """A query's figures: counts, or estimates of them where not every grade could be read."""

    labelled: float
    relevant: float
    false_positives: float
    false_negatives: float


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
    """Without a grade: the reply could not be read, or the grader refused."""
    labelled: Estimate
    relevant: Estimate
    false_positives: Estimate
    false_negatives: Estimate


def query_counts(graded: GradedQuery, relevant: Collection[str]) -> QueryCounts | None:
    """One query's figures; ``None``: it has no grade."""
    readable = {document: grade for document, grade in graded.grades.items() if grade is not None}
    if not readable:
        return None
    weight = len(graded.candidates) / len(readable)
    right = {document for document, grade in readable.items() if grade in relevant}
    labelled = sum(document in graded.labelled for document in graded.candidates)
    wrong = weight * sum(document in graded.labelled for document in readable.keys() - right)
    missed = weight * len(right - graded.labelled)
    return QueryCounts(
        labelled=labelled,
        relevant=labelled - wrong + missed,
        false_positives=wrong,
        false_negatives=missed,
    )


def estimate_missing(
    queries: Sequence[GradedQuery],
    relevant: Collection[str],
    *,
    depth: int,
    lost: Iterable[str] = (),
    seed: int = 0,
    resamples: int = 10_000,
) -> MissingLabels:
    """All figures. `depth`: how many documents were asked for; `lost` has a reason for each query of which nothing was
    graded.

    Raises:
        ValueError: no query has a grade.
    """
    tallies = [(query, query_counts(query, relevant)) for query in queries]
    counted = [(query, found) for query, found in tallies if found is not None]
    if not counted:
        raise ValueError("no query has a grade")
    why = Counter(lost) + Counter({NO_GRADE: len(tallies) - len(counted)})
    clusters = [query.cluster or query.query for query, _ in counted]

    def mean(values: Sequence[float]) -> Estimate:
        """Mean over queries, with its interval."""
        return stratified_mean(values, clusters=clusters, bounded=False, seed=seed, resamples=resamples)

    grades = [grade for query in queries for grade in query.grades.values()]
    return MissingLabels(
        depth=depth,
        queries=len(counted),
        left_out=why.total(),
        left_out_why=dict(why.most_common()),
        pairs=sum(grade is not None for grade in grades),
        unreadable=grades.count(None),
        labelled=mean([found.labelled for _, found in counted]),
        relevant=mean([found.relevant for _, found in counted]),
        false_positives=mean([found.false_positives for _, found in counted]),
        false_negatives=mean([found.false_negatives for _, found in counted]),
    )
