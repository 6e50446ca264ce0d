"""CMeIE (CBLUE, Zhang et al. 2022): relations in Chinese medical texts, as JSON Lines {text, spo_list: [{subject,
predicate, object: {"@value": …}}]}. There is one question per text; the relations are all predicates of the file."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ragrounds.base.files import convert, read_jsonl
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.relations.extraction import extraction


class _Object(Struct):
    value: str = msgspec.field(name="@value")


class _Relation(Struct):
    subject: str
    predicate: str
    object: _Object


class _Line(Struct):
    text: str
    spo_list: list[_Relation]


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the texts, numbered from 1.

    Raises:
        UserError: a broken line.
    """
    path = source.file("CMeIE_dev.jsonl", "CMeIE_dev.json", "CMeIE-V2_dev.jsonl", "CMeIE_test.jsonl")
    lines = [convert(value, _Line, path, location) for location, value in read_jsonl(path)]
    relations = dict.fromkeys((relation.predicate for line in lines for relation in line.spo_list), "")
    for number, line in enumerate(lines, start=1):
        triplets = [(relation.subject, relation.predicate, relation.object.value) for relation in line.spo_list]
        yield extraction(f"cmeie/{number}", "cmeie", line.text, relations, triplets, language="zh")


FAMILY = Family(name="cmeie", items=items, file="a JSON Lines file with text and spo_list", needs=("CMeIE*.json*",))
