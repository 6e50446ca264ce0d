"""TREC's text formats: runs (``query Q0 document rank score tag``) and judgements (``query 0 document grade``).

A run is read as trec_eval reads it: the rank column is ignored, documents are ordered by score, and equal scores by
document id, descending. Scores are written with nine digits, enough for every float32, so that a run that was written
and read again is ordered as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.files import broken, encoding_of, quote_value
from ragrounds.extensions.retrieval.qrels import read_grades

Run = Mapping[str, Mapping[str, float]]
"""Query id → document id → score."""
Judgements = Mapping[str, Mapping[str, int]]
"""Query id → document id → grade; above 0 is relevant."""


def read_run(path: Path) -> dict[str, dict[str, float]]:
    """Read a TREC run file.

    Raises:
        UserError: no such file, a line that is not of the format, or a document given twice for a query.
    """
    run: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        fields = line.split(None, 5)
        if len(fields) < 5:
            raise _wrong(path, number, "expected `query Q0 document rank score tag`")
        query, _, document, _, score = fields[:5]
        documents = run.setdefault(query, {})
        if document in documents:
            raise _wrong(path, number, f"document {document!r} is given twice for query {query!r}")
        documents[document] = _number(path, number, score)
    if not run:
        raise UserError(f"The run {str(path)!r} is empty: expected lines `query Q0 document rank score tag`.")
    return run


def read_judged_run(path: Path, judgements: Judgements, report: Callable[[str], None] | None = None) -> Run:
    """Read a run of judged queries; with `report`, by BEIR's rule (:func:`without_own`).

    Raises:
        UserError: as :func:`read_run`, or no query of the run is judged: every measure would be 0.
    """
    run = read_run(path)
    if not run.keys() & judgements.keys():
        raise UserError(
            f"No query of the run {str(path)!r} is judged: its first is {next(iter(run))!r}, and the first of the "
            f"judgements {next(iter(judgements), '')!r}. Expected the same ids in both."
        )
    return without_own(run, path.name, report) if report else run


def without_own(run: Run, source: str, report: Callable[[str], None]) -> Run:
    """Return a run without documents that have their query's id, as BEIR's evaluation does; report their number."""
    if count := sum(query in documents for query, documents in run.items()):
        report(
            f"{source}: {count:,} queries found the document with their own id; it is not scored, as in BEIR's "
            "evaluation."
        )
    return {
        query: {document: score for document, score in documents.items() if document != query}
        for query, documents in run.items()
    }


def read_tag(path: Path) -> str:
    """Return the tag of a TREC run, which names the system; empty if the run has none.

    Raises:
        UserError: no such file.
    """
    _, line = next(iter(_lines(path)), (0, ""))
    fields = line.split(None, 5)
    return fields[5].strip() if len(fields) == 6 else ""


def write_run(path: Path, run: Mapping[str, Sequence[tuple[str, float]]], tag: str) -> None:
    """Write a run. The documents of each query are ordered best first.

    Raises:
        UserError: an id with a blank in it, which the format cannot carry.
    """
    name = "_".join(tag.split()) or "run"
    lines = []
    for query, documents in run.items():
        for rank, (document, score) in enumerate(documents, 1):
            if len(f"{query} {document}".split()) != 2 or not query or not document:
                raise UserError(
                    f"A TREC run cannot carry the ids {query!r} and {document!r}: they have blanks or are empty."
                )
            lines.append(f"{query} Q0 {document} {rank} {score:.9g} {name}\n")
    path.write_text("".join(lines), encoding="utf-8")


def read_judgements(path: Path) -> dict[str, dict[str, int]]:
    """Read judgements whose grades are whole numbers, as trec_eval needs them.

    Raises:
        UserError: as :func:`~ragrounds.extensions.retrieval.qrels.read_grades`, no judgement, or another grade.
    """
    judgements: dict[str, dict[str, int]] = {}
    for query, grades in read_grades(path).items():
        for document, grade in grades.items():
            if grade != int(grade):
                problem = f"the grade {grade:g} of {quote_value(document)} is not a whole number"
                raise broken(path, problem, f"query {quote_value(query)}")
        judgements[query] = {document: int(grade) for document, grade in grades.items()}
    if not judgements:
        raise UserError(f"The judgements {str(path)!r} are empty: expected lines `query 0 document grade`.")
    return judgements


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as opened:
            encoding = encoding_of(opened.read(4))
        with path.open(encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"Cannot read {str(path)!r}: {problem}.") from None


def _number(path: Path, number: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _wrong(path, number, f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise _wrong(path, number, f"{text!r} is not a finite number")
    return value


def _wrong(path: Path, number: int, reason: str) -> UserError:
    return UserError(f"Cannot read line {number} of {path}: {reason}.")
