"""ChemProt (BioCreative VI, Krallinger et al. 2017): relations of chemicals and proteins in abstracts.

The organisers' three tab-separated files of a split are in one folder: ``…_abstracts….tsv`` (PMID, title, abstract),
``…_entities….tsv`` (PMID, entity id, type, start, end, text) and ``…_gold_standard….tsv`` (PMID, group, Arg1:id,
Arg2:id). There is one question per abstract, over the five groups that the task evaluates.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragrounds.base.files import broken, read_text
from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.relations.extraction import Triplet, extraction

GROUPS = {
    "CPR:3": "upregulator",
    "CPR:4": "downregulator",
    "CPR:5": "agonist",
    "CPR:6": "antagonist",
    "CPR:9": "substrate",
}
"""Evaluated groups of relations; the first entity is the chemical."""
MEANINGS = {
    "upregulator": "the chemical activates the protein or raises its amount",
    "downregulator": "the chemical inhibits the protein or lowers its amount",
    "agonist": "the chemical binds to the protein and sets off its action",
    "antagonist": "the chemical binds to the protein and keeps it from acting",
    "substrate": "the chemical is what the protein acts on, or what it makes",
}
ENDS = ("chemical", "gene or protein")


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the abstracts of the split (parameter ``split``, by default ``test``).

    Raises:
        UserError: a file is missing or broken.
    """
    split = source.text("split", "test")
    names: dict[tuple[str, str], str] = {}
    for _, fields in _rows(source.path, split, "entities", 6):
        names[fields[0], fields[1]] = fields[5]
    triplets: dict[str, list[Triplet]] = {}
    gold = _file(source.path, split, "gold_standard")
    for location, (pmid, group, first, second, *_) in _rows(source.path, split, "gold_standard", 4):
        first_name, second_name = (names.get((pmid, argument.partition(":")[2])) for argument in (first, second))
        if first_name is None or second_name is None:
            raise broken(gold, "a relation has an entity that is not in the abstract", location)
        if group in GROUPS:
            triplets.setdefault(pmid, []).append((first_name, GROUPS[group], second_name))
    for _, (pmid, title, abstract, *_) in _rows(source.path, split, "abstracts", 3):
        text = f"{title}\n{abstract}"
        abstract_triplets = triplets.get(pmid, ())
        yield extraction(f"chemprot/{pmid}", "chemprot", text, MEANINGS, abstract_triplets, split=split, ends=ENDS)


def _file(folder: Path, split: str, kind: str) -> Path:
    split_names = {"train": ("training", "train"), "dev": ("development", "dev")}.get(split, (split,))
    paths = sorted(
        path for path in folder.glob(f"*_{kind}*.tsv") if any(f"_{name}_" in path.name for name in split_names)
    )
    if folder.is_file():
        raise broken(folder, f"this is a file, and {FAMILY.file} is expected")
    if not paths:
        raise broken(folder, f"the folder holds no file *_{split_names[0]}_{kind}*.tsv")
    return paths[0]


def _rows(folder: Path, split: str, kind: str, least: int) -> Iterator[tuple[str, list[str]]]:
    path = _file(folder, split, kind)
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        fields = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(fields) < least:
            raise broken(path, f"expected {least} fields between tabs, got {len(fields)}", f"line {number}")
        yield f"line {number}", fields


FAMILY = Family(
    name="chemprot",
    items=items,
    file="the folder of one split's three .tsv files",
    needs=("*.tsv",),
    parameters=("split",),
)
