"""Items of `relevance-mining`: questions with their answers, and what is known of their documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.build.intake import INTAKE, Dropped
from ragrounds.build.retrieval.corpus import Corpus
from ragrounds.evals.benchmarks.benchmark import Benchmark, Item
from ragrounds.records import Gold, Passage, Question


class Reference(Struct, frozen=True):
    """What is right: the graph grades by it, so an item carries it with its question."""

    text: str
    label: str = ""
    """Of the right option."""


def reference_of(question: Question) -> Reference:
    """The answer that an item carries."""
    return Reference(question.metadata["answer"], question.metadata.get("label", ""))


def known_of(question: Question) -> list[Passage]:
    """The initial positives that an item carries: passages of the documents its benchmark names."""
    return msgspec.json.decode(question.metadata.get("known", "[]"), type=list[Passage])


def items_of(benchmark: Benchmark, corpus: Corpus) -> tuple[list[Item], list[Dropped]]:
    """Items from any benchmark that has answers, and what of it is none."""
    items: list[Item] = []
    dropped: list[Dropped] = []
    for question in benchmark.questions:
        gold = benchmark.golds[question.id]
        answer = _answer(question, gold)
        if question.kind == "extraction":
            dropped.append(_dropped(question, "it asks for no answer in words"))
        elif not answer.text.strip():
            dropped.append(_dropped(question, "it has no answer"))
        else:
            items.append(Item(_carrying(question, answer, _known(gold, corpus)), gold))
    return items, dropped


def _dropped(question: Question, reason: str) -> Dropped:
    return Dropped(id=question.id, stage=INTAKE, reason=reason, detail=question.text)


def _answer(question: Question, gold: Gold) -> Reference:
    if question.options:
        return Reference(question.options[gold.answer], gold.answer)
    # A question with required facts and no reference answer: the facts, each in its first wording.
    return Reference(gold.answer or "; ".join(wordings[0] for wordings in gold.facts if wordings))


def _known(gold: Gold, corpus: Corpus) -> list[Passage]:
    return [passage for document in gold.documents for passage in corpus.document(document)]


def _carrying(question: Question, answer: Reference, known: Iterable[Passage]) -> Question:
    carried: Mapping[str, str] = {
        "answer": answer.text,
        "label": answer.label,
        "known": msgspec.json.encode(list(known)).decode(),
    }
    return replace(question, metadata=dict(carried))
