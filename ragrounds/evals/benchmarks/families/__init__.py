"""One loader file a family: the authors' own format in, questions and golds out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ragrounds.evals.benchmarks.families import jsonl, mirage, sample
from ragrounds.evals.benchmarks.source import Family

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "sample": sample.FAMILY,
        "mirage": mirage.FAMILY,
        "jsonl": jsonl.FAMILY,
    }
)
