"""The sample benchmark that is shipped with the package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.families.jsonl import from_records
from ragrounds.evals.benchmarks.reading import read_jsonl


def items(path: Path | None = None, dataset: str = "") -> Iterator[Item]:
    """The questions of the sample; a `path` takes another file of the same form."""
    if path is not None:
        yield from from_records(read_jsonl(path), path, "sample")
        return
    with as_file(files("ragrounds") / "sample" / "questions.jsonl") as shipped:
        yield from from_records(read_jsonl(shipped), shipped, "sample")
