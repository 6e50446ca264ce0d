"""A user's CSV file, with a mapping from its columns: ``csv[id=ID,question=Stem,options=A;B;C;D]:FILE``.

A parameter names the column of a field; a field without a parameter is looked up under its own name. For a choice,
`options` lists the columns of the options, separated by ``;``; each column's name is the option's label unless `labels`
gives others; with `first` the answer is an option's number, counted from it. Without an ``id`` column rows are numbered
from 1. Columns are separated by tabs if the file's name ends in ``.tsv``, else by commas or semicolons. `metadata`
lists columns to keep with the question, which graphs can see; others are left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from ragrounds.base.errors import nearest
from ragrounds.base.files import LONGEST_TEXT, broken, quote_value, read_text
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.families.jsonl import check_options_are_read, counted_from, from_records
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

_TEXT = ("id", "question", "answer", "group", "cluster", "language", "split")
_LISTS = ("options", "metadata")


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the rows as questions.

    Raises:
        UserError: a broken file, or a mapping that names a column the file does not have.
    """
    path = source.path
    stem = source.dataset or path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".tsv")
    text = read_text(path)
    heading = text.partition("\n")[0]
    delimiter = "\t" if path.name.removesuffix(".gz").endswith(".tsv") else max(",;", key=heading.count)
    if "\r" in text and "\n" not in text:
        raise broken(path, "its lines end as on old Macs (CR alone); save it with line ends of today", "line 1")
    csv.field_size_limit(100 * LONGEST_TEXT)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = list(reader.fieldnames or ())
        if len(set(columns)) != len(columns):
            twice = next(name for name in columns if columns.count(name) > 1)
            raise broken(path, f"two columns have the same name, {quote_value(twice)}", "line 1")
        mapping = _mapping(source, columns)
        rows = [(f"line {reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise broken(path, f"this is not CSV ({error})", f"line {reader.line_num}") from None
    records = [
        (location, _record(row, mapping, number, location, source)) for number, (location, row) in enumerate(rows, 1)
    ]
    return from_records(records, path, f"csv/{stem}", counted_from(source))


def _mapping(source: BenchmarkSource, columns: list[str]) -> dict[str, list[str]]:
    """Return columns by field; the options may have several."""
    mapping: dict[str, list[str]] = {}
    for field in (*_TEXT, *_LISTS):
        mapped = source.text(field)
        column_names = [name.strip() for name in mapped.split(";")] if field in _LISTS and mapped else [mapped or field]
        for column in column_names:
            if column not in columns and (mapped or field == "question"):
                header = ", ".join(quote_value(name) for name in columns[:20])
                problem = (
                    f"there is no column {quote_value(column)} for {field}.{nearest(column, columns)} It has {header}"
                )
                raise broken(source.path, problem, "line 1")
        mapping[field] = [column for column in column_names if column in columns]
    return mapping


def _record(
    row: dict[str | Any, str | Any], mapping: dict[str, list[str]], number: int, location: str, source: BenchmarkSource
) -> dict[str, Any]:
    if None in row or None in row.values():
        raise broken(source.path, "it and the heading have different numbers of fields", location)
    record: dict[str, Any] = {"id": number}
    for field in _TEXT:
        for column in mapping[field]:
            if row[column] or field in ("id", "question", "answer"):
                record[field] = row[column]
    options = mapping["options"]
    if options:
        labels = [label.strip() for label in source.text("labels").split(";")] if source.text("labels") else options
        if len(labels) != len(options):
            raise broken(source.path, f"{len(labels)} labels are given for {len(options)} options", "the mapping")
        # An empty option is one that this question does not have.
        record["options"] = {label: row[column] for label, column in zip(labels, options, strict=True) if row[column]}
    check_options_are_read(record, row, source, location)
    record["metadata"] = {column: row[column] for column in mapping["metadata"]}
    return record


FAMILY = Family(
    name="csv",
    items=items,
    file="a CSV or TSV file with a heading",
    parameters=(*_TEXT, *_LISTS, "labels", "first"),
    open=True,
)
