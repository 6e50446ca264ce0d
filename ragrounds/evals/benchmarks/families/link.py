"""Link prediction as multiple choice: two entities of a knowledge graph are given, the relation is chosen (MRAG,
Section 3: distractors are the other relation types of the graph).

``link[options=4,seed=0,sample=1500]:FOLDER`` reads ``train.txt``, ``valid.txt`` and ``test.txt``, or one file:
head, relation and tail between tabs. A relation that also holds between the two entities, in any part of the graph, is
never a distractor: there is one right answer. Triplets with the same two entities are one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragrounds.errors import UserError
from ragrounds.evals.benchmarks.benchmark import Item, lot
from ragrounds.evals.benchmarks.extraction import Triplet
from ragrounds.evals.benchmarks.families.jsonl import labelled
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.files import broken, read_text
from ragrounds.records import Gold, Question

_PARTS = ("train.txt", "valid.txt", "test.txt")


def items(source: BenchmarkSource) -> Iterator[Item]:
    """The test triplets (all, of a single file) as questions; `sample` of them drawn by `seed`.

    Raises:
        UserError: a broken file, or fewer than two options.
    """
    path, seed, options = source.path, source.number("seed", 0), source.number("options", 4)
    sample = source.number("sample", 0)
    if options < 2:
        raise UserError(f"A link prediction question needs 2 options or more, got {options}.")
    if path.is_dir():
        parts = [_triplets(path / name) for name in _PARTS]
        graph, asked = [triplet for part in parts for triplet in part], parts[-1]
    else:
        graph = asked = _triplets(path)
    name = source.dataset or (path.name if path.is_dir() else path.name.partition(".")[0])
    holding: dict[tuple[str, str], set[str]] = {}
    for head, relation, tail in graph:
        holding.setdefault((head, tail), set()).add(relation)
    relations = sorted({relation for _, relation, _ in graph})
    numbered = list(dict.fromkeys(asked))
    if sample:
        drawn = sorted(numbered, key=lambda triplet: lot(seed, *triplet))[:sample]
        numbered = [triplet for triplet in numbered if triplet in set(drawn)]
    for triplet in numbered:
        yield link_question(triplet, relations, holding[triplet[0], triplet[2]], f"link/{name}", options, seed)


def link_question(
    triplet: Triplet, relations: list[str], holding: set[str], benchmark: str, options: int, seed: int
) -> Item:
    """One triplet as a question with up to `options` relations to choose from; `holding` are all relations between its
    entities. Which distractors, and their order, follow from `seed` and the triplet alone."""
    head, relation, tail = triplet  # the relation is the answer: it may not stand in group or metadata
    others = [other for other in relations if other not in holding]
    distractors = sorted(others, key=lambda other: lot(seed, *triplet, other))[: options - 1]
    order = sorted([relation, *distractors], key=lambda other: lot(seed, "order", *triplet, other))
    labels = labelled([worded(other) for other in order])
    dataset = benchmark.rpartition("/")[2]
    question = Question(
        id=f"{dataset}/{lot(0, *triplet).hex()[:16]}",
        benchmark=benchmark,
        text=f"In a medical knowledge graph, how is “{worded(head)}” related to “{worded(tail)}”?",
        options=labels,
        cluster=f"{dataset}/{lot(0, *sorted((head, tail))).hex()[:16]}",
    )
    return Item(question, Gold(question_id=question.id, answer=list(labels)[order.index(relation)]))


def worded(name: str) -> str:
    """A graph's name as words."""
    return name.replace("_", " ").strip()


def _triplets(path: Path) -> list[Triplet]:
    found = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        fields = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(fields) != 3 or not all(field.strip() for field in fields):
            raise broken(path, "expected head, relation and tail between tabs", f"line {number}")
        found.append((fields[0], fields[1], fields[2]))
    return found


FAMILY = Family(
    name="link",
    items=items,
    file="a folder with train.txt, valid.txt and test.txt, or one file of triplets",
    needs=_PARTS,
    parameters=("options", "seed", "sample"),
    open=True,
)
