"""Estimate of the relevant documents that a benchmark's labels miss, from the grades of all found documents.

Table 20 of CMedTEB takes a model's grades for the truth and reports means over queries, within the found documents:
labelled, relevant by the grades, labelled but not relevant (false positives), relevant but not labelled (false
negatives). The relevant ones are the labelled ones, less the false positives, plus the false negatives.

Each figure has an interval over whole queries (equal queries together), since the documents of one query are not
independent; a mean over too few queries has none. It applies to queries like these, with documents found to this depth
by this retriever and graded by this model. Deeper documents are not counted, so the number of missed documents is a
lower bound. Documents whose grade could not be read are represented by the graded documents of the same query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.stats import Estimate, stratified_mean

NO_GRADE = "no grade could be read"


class GradedQuery(Struct, frozen=True, kw_only=True):
    """A query with its found and graded documents."""

    query: str
    cluster: str
    candidates: tuple[str, ...]
    """Documents, best first."""
    grades: Mapping[str, str | None]
    """Grades of the candidates; ``None`` if the grade could not be read."""
    labelled: frozenset[str]
    """Documents that the benchmark calls relevant."""


class QueryCounts(Struct, frozen=True, kw_only=True):
    """A query's figures: counts, or estimates of them if not every grade could be read."""

    labelled: float
    relevant: float
    false_positives: float
    false_negatives: float


class MissingLabels(Struct, frozen=True, kw_only=True):
    """Estimates of what the labels miss. Figures are per query unless stated otherwise."""

    depth: int
    queries: int
    """Number of queries in the figures."""
    left_out: int
    """Number of sampled queries that are not in the figures."""
    left_out_why: dict[str, int]
    """Reason → number of queries; the sum is :attr:`left_out`."""
    pairs: int
    """Number of graded pairs."""
    unreadable: int
    """Number of pairs without a grade: the reply could not be read, or the grader refused."""
    labelled: Estimate
    relevant: Estimate
    false_positives: Estimate
    false_negatives: Estimate


def query_counts(graded: GradedQuery, relevant: Collection[str]) -> QueryCounts | None:
    """Return one query's figures; ``None`` if it has no grade."""
    readable = {document: grade for document, grade in graded.grades.items() if grade is not None}
    if not readable:
        return None
    weight = len(graded.candidates) / len(readable)
    relevant_documents = {document for document, grade in readable.items() if grade in relevant}
    labelled = sum(document in graded.labelled for document in graded.candidates)
    false_positives = weight * sum(document in graded.labelled for document in readable.keys() - relevant_documents)
    false_negatives = weight * len(relevant_documents - graded.labelled)
    return QueryCounts(
        labelled=labelled,
        relevant=labelled - false_positives + false_negatives,
        false_positives=false_positives,
        false_negatives=false_negatives,
    )


def estimate_missing(
    queries: Sequence[GradedQuery],
    relevant: Collection[str],
    *,
    depth: int,
    lost: Iterable[str] = (),
    seed: int = 0,
) -> MissingLabels:
    """Estimate all figures.

    `depth` is the number of documents that were requested; `lost` has a reason for each query without any graded
    document.

    Raises:
        ValueError: no query has a grade.
    """
    tallies = [(query, query_counts(query, relevant)) for query in queries]
    counted = [(query, counts) for query, counts in tallies if counts is not None]
    if not counted:
        raise ValueError("no query has a grade")
    reasons = Counter(lost) + Counter({NO_GRADE: len(tallies) - len(counted)})
    clusters = [query.cluster or query.query for query, _ in counted]

    def mean(values: Sequence[float]) -> Estimate:
        """Return the mean over queries, with its interval."""
        return stratified_mean(values, clusters=clusters, bounded=False, seed=seed)

    grades = [grade for query in queries for grade in query.grades.values()]
    return MissingLabels(
        depth=depth,
        queries=len(counted),
        left_out=reasons.total(),
        left_out_why=dict(reasons.most_common()),
        pairs=sum(grade is not None for grade in grades),
        unreadable=grades.count(None),
        labelled=mean([counts.labelled for _, counts in counted]),
        relevant=mean([counts.relevant for _, counts in counted]),
        false_positives=mean([counts.false_positives for _, counts in counted]),
        false_negatives=mean([counts.false_negatives for _, counts in counted]),
    )
