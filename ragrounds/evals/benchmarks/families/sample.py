"""Sample benchmark that is shipped with the package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files

from ragrounds.base.files import read_jsonl
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.families.jsonl import from_records
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Return the questions of another file of the sample's form."""
    return from_records(read_jsonl(source.path), source.path, "sample")


def shipped() -> Iterator[Item]:
    """Yield the questions of the sample."""
    with as_file(files("ragrounds") / "sample" / "questions.jsonl") as path:
        yield from from_records(read_jsonl(path), path, "sample")


FAMILY = Family(name="sample", items=items, file="questions.jsonl", shipped=shipped)
