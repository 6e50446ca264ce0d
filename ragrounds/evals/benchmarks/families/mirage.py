"""MIRAGE (Xiong et al. 2024, "Benchmarking Retrieval-Augmented Generation for Medicine"): the authors'
``benchmark.json``, ``{dataset: {id: {question, options, answer, PMID}}}``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ragrounds.base.errors import nearest
from ragrounds.base.files import broken, convert, quote_value, read_json, shape
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.cards import family_cards
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

FILE = "benchmark.json"


class _Entry(Struct):
    question: str
    options: dict[str, str]
    answer: str
    PMID: list[int | str] = field(default_factory=list)
    """PubMed ids of the abstracts that contain the answer; PubMedQA* and BioASQ-Y/N only."""


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the questions of one dataset, or of all that the file contains.

    Raises:
        UserError: the file is broken, or does not hold the dataset.
    """
    path, dataset = source.file(FILE), source.dataset
    splits = {card.name.partition("/")[2]: card.split for card in family_cards("mirage")}
    content = shape(read_json(path), dict[str, dict[str, Any]], path)
    for name in content:
        if name not in splits:
            raise broken(path, f"there is no dataset of this name in MIRAGE.{nearest(name, splits)}", quote_value(name))
    if dataset and dataset not in content:
        raise broken(path, f"the dataset is not in the file, which has {', '.join(content)}", quote_value(dataset))
    for name, entries in content.items():
        if not entries:
            raise broken(path, "the dataset contains no questions", name)
        for key, value in entries.items():
            item = _item(name, key, value, splits[name], path)
            if dataset in ("", name):
                yield item


def _item(dataset: str, key: str, value: Any, split: str, path: Path) -> Item:
    entry = convert(value, _Entry, path, f"record {quote_value(key)} of {dataset}")
    question = Question(
        id=f"{dataset}/{key}",
        benchmark=f"mirage/{dataset}",
        text=entry.question,
        split=split,
        options=entry.options,
        # The authors number the questions of each MMLU subject: anatomy-000.
        group=key.rpartition("-")[0] if dataset == "mmlu" else "",
    )
    documents = tuple(str(number) for number in entry.PMID)
    return Item(question, Gold(question_id=question.id, answer=entry.answer, documents=documents))


FAMILY = Family(name="mirage", items=items, file=FILE, needs=(FILE,))
