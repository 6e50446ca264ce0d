"""OGCaReBench: long-form questions from case reports, as CSV, JSON or JSON Lines with the columns Title, pmc_id,
Classification, question, answer. The gold document is the case report (its PMC id). A custom dataset in the same form
(`ragrounds build case-questions`) is ``ogcarebench/NAME``.

The significance of a case (``significance_type``: treatment, test or diagnosis; the paper's Fig. 4) becomes a
question's metadata if the file has it. It is only for tables: no prompt shows it.

A report's title is not kept with the question: titles of case reports name the diagnosis.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ragrounds.base.files import LONGEST_TEXT, convert, read_json, read_jsonl, read_text, shape
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

SIGNIFICANCE = "significance_type"
"""Key of a question's metadata for the significance of its case."""


class _Row(Struct):
    pmc_id: str | int
    question: str
    answer: str
    classification: str = field(default="", name="Classification")
    significance_type: str | None = None


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the questions, numbered from 1 in the file's order (several may come from one report). Questions of one
    report are one cluster.

    Raises:
        UserError: a broken file.
    """
    path = source.file("ogcarebench.csv", "ogcarebench.json", "ogcarebench.jsonl")
    name = source.dataset or "ogcarebench"
    for number, (location, value) in enumerate(_rows(path), start=1):
        row = convert(value, _Row, path, location)
        report = str(row.pmc_id)
        question = Question(
            id=f"{name}/{number}",
            benchmark=f"ogcarebench/{source.dataset}" if source.dataset else "ogcarebench",
            text=row.question,
            kind="long",
            group=row.classification,
            cluster=f"{name}/{report}",
            metadata={SIGNIFICANCE: kind} if (kind := (row.significance_type or "").strip().lower()) else {},
        )
        yield Item(question, Gold(question_id=question.id, answer=row.answer, documents=(report,)))


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".json"):
        for number, value in enumerate(shape(read_json(path), list[dict[str, Any]], path), start=1):
            yield f"record {number}", value
    elif name.endswith(".jsonl"):
        yield from read_jsonl(path)
    else:
        csv.field_size_limit(100 * LONGEST_TEXT)
        reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
        for row in reader:
            yield f"line {reader.line_num}", {key: value for key, value in row.items() if value is not None and key}


FAMILY = Family(
    name="ogcarebench",
    items=items,
    file="the authors' file of questions (csv, json or jsonl)",
    needs=("ogcarebench.csv", "ogcarebench.json", "ogcarebench.jsonl"),
    open=True,
)
