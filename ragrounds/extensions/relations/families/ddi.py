"""DDI 2013 (Herrero-Zazo et al. 2013): drug-drug interactions in DrugBank texts and Medline abstracts, as JSON Lines,
one document per line: {id, split, sentences: [{id, text, entities: [{id, text}], pairs: [{e1, e2, ddi, type}]}]}.

There is one question per document. An interaction has no direction. One pair of the training part is marked as an
interaction without a type; it is left out, as a triplet needs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from ragrounds.base.files import broken, convert, quote_value, read_jsonl
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.relations.extraction import Triplet, extraction

FILE = "ddi2013.jsonl"
TYPES = {
    "mechanism": "how one drug changes what the body does with the other (uptake, level, breakdown)",
    "effect": "what comes of taking both: a reaction, or a stronger or weaker action of one of them",
    "advise": "a recommendation or a warning about taking both",
    "int": "an interaction is stated, and nothing more is stated",
}
"""Types of interaction in the corpus, with their meaning."""


ENDS = ("drug", "other drug")


class _Entity(Struct):
    id: str
    text: str


class _Pair(Struct):
    e1: str
    e2: str
    ddi: Literal["true", "false"]
    type: str | None = None


class _Sentence(Struct):
    text: str
    entities: list[_Entity] = field(default_factory=list)
    pairs: list[_Pair] = field(default_factory=list)


class Document(Struct):
    """A document, one line of the file."""

    id: str
    split: str
    sentences: list[_Sentence]


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the documents of one part, or all.

    Parts are ``ddi/train``, ``ddi/test`` (the task's own test part) and ``ddi/ner`` (documents of the drug-name task,
    which have no positive pairs).

    Raises:
        UserError: a broken line.
    """
    path = source.file(FILE)
    for location, value in read_jsonl(path):
        document = convert(value, Document, path, location)
        split = document.split
        tested = "test" if "DDI Extraction" in split else "ner" if "DrugNER" in split else ""
        part = "train" if split.startswith("Train") else tested
        if not part:
            raise broken(path, f"the split {quote_value(document.split)} is not known", location)
        triplets = list(interactions(document, path, location))
        if source.dataset in ("", part):
            text = " ".join(sentence.text.strip() for sentence in document.sentences)
            # All documents together are one corpus with one figure; its parts are its splits.
            name = f"ddi/{part}" if source.dataset else "ddi"
            yield extraction(
                f"{part}/{document.id}", name, text, TYPES, triplets, split=part, symmetric=True, ends=ENDS
            )


def interactions(document: Document, path: Path, location: str) -> Iterator[Triplet]:
    """Yield the typed positive pairs of a document. The same two names may occur more than once.

    Raises:
        UserError: a pair names an entity that its sentence does not have.
    """
    for sentence in document.sentences:
        names = {entity.id: entity.text for entity in sentence.entities}
        for pair in sentence.pairs:
            if pair.e1 not in names or pair.e2 not in names:
                raise broken(path, "a pair has an entity that is not in its sentence", location)
            if pair.ddi == "true" and pair.type in TYPES:
                yield names[pair.e1], pair.type, names[pair.e2]


FAMILY = Family(name="ddi", items=items, file=FILE, needs=(FILE,))
