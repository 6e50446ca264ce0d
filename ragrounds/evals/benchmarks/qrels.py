"""Judgements of a retrieval set, and whether its queries, judgements and corpus are those of one set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ragrounds.base.files import broken, shown
from ragrounds.tools.corpora import BadLine, corpus_source, passages

Row = tuple[str, str, str, float]
"""Place in the file, query, document, score."""
Grades = Mapping[str, Mapping[str, float]]
"""Query → document → score."""


def graded(rows: Iterable[Row], path: Path) -> dict[str, dict[str, float]]:
    """The judgements of one file; a line that stands twice is one judgement.

    Raises:
        UserError: a document is judged twice for a query, with different scores.
    """
    grades: dict[str, dict[str, float]] = {}
    for place, query, document, score in rows:
        before = grades.setdefault(query, {}).setdefault(document, score)
        if before != score:
            what = f"the document {shown(document)} is judged {before:g} and {score:g} for the query {shown(query)}"
            raise broken(path, f"{what}; one of the two is wrong", place)
    return grades


def query_ids(rows: Iterable[tuple[str, str]], path: Path) -> set[str]:
    """The ids of queries, given with their places in the file.

    Raises:
        UserError: one stands twice.
    """
    ids: set[str] = set()
    for place, query in rows:
        if query in ids:
            raise broken(path, f"the id {shown(query)} is not unique", place)
        ids.add(query)
    return ids


def relevant(grades: Grades) -> dict[str, tuple[str, ...]]:
    """The documents with a score above 0, of the queries that have one."""
    found = {query: tuple(name for name, score in judged.items() if score > 0) for query, judged in grades.items()}
    return {query: documents for query, documents in found.items() if documents}


def check_set(folder: Path, queries: Collection[str], queries_file: str, judged: Mapping[Path, Grades]) -> Path:
    """Read a folder's corpus through, and see that all judged queries and documents are there. Ids alone are kept.

    Returns:
        The corpus's file.

    Raises:
        UserError: a broken line of the corpus, an id that stands twice, a judgement of a query that is not there, or a
            relevant document that is not there: nothing can find it. Others count for nothing and may be missing.
    """
    corpus, documents = _documents(folder)
    for path, grades in judged.items():
        for query, scores in grades.items():
            if query not in queries:
                raise broken(path, f"{queries_file} has no such query", f"query {shown(query)}")
            lost = next(
                (document for document, score in scores.items() if score > 0 and document not in documents), None
            )
            if lost is not None:
                raise broken(path, f"{corpus.name} has no document {shown(lost)}, which is judged relevant", _of(query))
    return corpus


def _of(query: str) -> str:
    return f"query {shown(query)}"


def _documents(folder: Path) -> tuple[Path, set[str]]:
    """The corpus's file and its documents' ids."""
    origin = corpus_source(f"beir:{folder}")
    (path,) = origin.files
    ids: set[str] = set()
    documents: set[str] = set()
    bad: list[BadLine] = []
    for passage, (_, line) in passages(origin, bad=bad):
        _refuse(bad, path)
        if passage.id in ids:
            raise broken(path, f"the id {shown(passage.id)} is not unique", f"line {line}")
        ids.add(passage.id)
        # One string for both, where they are equal: a corpus may have millions.
        documents.add(passage.id if passage.document == passage.id else passage.document)
    _refuse(bad, path)
    if not ids:
        raise broken(path, "the corpus contains no documents")
    return path, documents


def _refuse(bad: list[BadLine], path: Path) -> None:
    if bad:
        raise broken(path, bad[0].reason, f"line {bad[0].line}")
