"""Judgements of a retrieval set, and the check that its queries, judgements and corpus belong together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import broken, convert, quote_value, read_jsonl, read_text
from ragrounds.tools.corpora import BadLine, corpus_source, passages

Grades = Mapping[str, Mapping[str, float]]
"""Query → document → score."""


_HEADINGS = ("query-id", "query_id", "qid", "query")
"""First words of the first line, by which BEIR's columns are named."""


class _Judgement(Struct):
    q_id: str | int
    p_id: str | int
    score: float = 1


def read_grades(path: Path) -> dict[str, dict[str, float]]:
    """Read judgements: TREC's four columns, BEIR's three with or without a heading, or R2MED's JSON Lines.

    A repeated line is one judgement.

    Raises:
        UserError: a broken line, or a document that is judged twice for a query, with different scores.
    """
    grades: dict[str, dict[str, float]] = {}
    for location, query, document, score in (_json_rows if path.suffix == ".jsonl" else _column_rows)(path):
        earlier = grades.setdefault(query, {}).setdefault(document, score)
        if earlier != score:
            problem = (
                f"the document {quote_value(document)} is judged {earlier:g} and {score:g} for the query "
                f"{quote_value(query)}"
            )
            raise broken(path, f"{problem}; one of the two is wrong", location)
    return grades


def _json_rows(path: Path) -> Iterator[tuple[str, str, str, float]]:
    for location, value in read_jsonl(path):
        judgement = convert(value, _Judgement, path, location)
        yield location, str(judgement.q_id), str(judgement.p_id), judgement.score


def _column_rows(path: Path) -> Iterator[tuple[str, str, str, float]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        # Ids may have blanks between tabs.
        fields = line.split("\t") if line.count("\t") == 2 else line.split()
        if number == 1 and fields[0] in _HEADINGS and not fields[-1][-1:].isdigit():
            continue
        if len(fields) == 4:
            del fields[1]  # TREC's second column, always 0
        try:
            query, document, text = fields
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            problem = "expected query, document and score, or TREC's `query 0 document grade`"
            raise broken(path, problem, f"line {number}")
        yield f"line {number}", query, document, score


def query_ids(rows: Iterable[tuple[str, str]], path: Path) -> set[str]:
    """Return the ids of queries, given with their locations in the file.

    Raises:
        UserError: a duplicate id.
    """
    ids: set[str] = set()
    for location, query in rows:
        if query in ids:
            raise broken(path, f"the id {quote_value(query)} is not unique", location)
        ids.add(query)
    return ids


def relevant(grades: Grades) -> dict[str, tuple[str, ...]]:
    """Return the documents with a score above 0, of the queries that have one."""
    relevant_documents = {
        query: tuple(name for name, score in scores.items() if score > 0) for query, scores in grades.items()
    }
    return {query: documents for query, documents in relevant_documents.items() if documents}


def check_set(folder: Path, queries: Collection[str], queries_file: str, judged_grades: Mapping[Path, Grades]) -> Path:
    """Read a folder's whole corpus, and check that all judged queries and documents are in it. Only ids are kept in
    memory.

    Returns:
        The path of the corpus.

    Raises:
        UserError: a broken line of the corpus, a duplicate id, a judgement of a missing query, or a missing relevant
            document, which no retriever could find. Other documents do not count and may be missing.
    """
    corpus, documents = _documents(folder)
    for path, grades in judged_grades.items():
        for query, scores in grades.items():
            if query not in queries:
                raise broken(path, f"{queries_file} has no such query", f"query {quote_value(query)}")
            missing_document = next(
                (document for document, score in scores.items() if score > 0 and document not in documents), None
            )
            if missing_document is not None:
                raise broken(
                    path,
                    f"{corpus.name} has no document {quote_value(missing_document)}, which is judged relevant",
                    f"query {quote_value(query)}",
                )
    return corpus


def _documents(folder: Path) -> tuple[Path, set[str]]:
    """Return the path of the corpus and its documents' ids."""
    origin = corpus_source(f"beir:{folder}")
    (path,) = origin.files
    ids: set[str] = set()
    documents: set[str] = set()
    bad_lines: list[BadLine] = []
    for passage, (_, line) in passages(origin, bad=bad_lines):
        _refuse(bad_lines, path)
        if passage.id in ids:
            raise broken(path, f"the id {quote_value(passage.id)} is not unique", f"line {line}")
        ids.add(passage.id)
        # Use one string for both if they are equal: a corpus may have millions.
        documents.add(passage.id if passage.document == passage.id else passage.document)
    _refuse(bad_lines, path)
    if not ids:
        raise broken(path, "the corpus contains no documents")
    return path, documents


def _refuse(bad_lines: list[BadLine], path: Path) -> None:
    if bad_lines:
        raise broken(path, bad_lines[0].reason, f"line {bad_lines[0].line}")
