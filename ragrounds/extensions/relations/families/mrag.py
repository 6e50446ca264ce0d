"""MRAG-Bench (Li and Zhu 2026), thirteen datasets. The paper's own files are not public; each dataset is read from its
original's form, and its card lists the differences. ``mrag`` alone means all of them that are registered, under these
names or as their originals.

| dataset | read from |
|---|---|
| mmlu, medqa, medmcqa, pubmedqa, bioasq | MIRAGE's benchmark.json |
| tcm, multimedqa, clfqa | JSON Lines in this project's form |
| chemprot, ddi, cmeie | the organisers' files |
| adint, drkg | tab-separated triplets |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from ragrounds.base.errors import UserError
from ragrounds.base.specs import Value
from ragrounds.evals.benchmarks.benchmark import Item, lot
from ragrounds.evals.benchmarks.cards import family_cards
from ragrounds.evals.benchmarks.families import jsonl, mirage
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family
from ragrounds.extensions.relations.families import chemprot, cmeie, ddi, link

_READ: Mapping[str, Callable[[BenchmarkSource], Iterator[Item]]] = MappingProxyType(
    {
        **dict.fromkeys(("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq"), mirage.items),
        **dict.fromkeys(("tcm", "multimedqa", "clfqa"), jsonl.items),
        "chemprot": chemprot.items,
        "ddi": ddi.items,
        "cmeie": cmeie.items,
        "adint": link.items,
        "drkg": link.items,
    }
)
_SAMPLED = ("medmcqa", "cmeie")
"""Datasets of which the paper used a random sample. A sample of the same size is taken by `seed`."""
_LINKED: Mapping[str, Mapping[str, Value]] = MappingProxyType(
    {
        "adint": {"options": "all", "hints": "drop", "part": "last_tenth", "seed": "content"},
        "drkg": {
            "options": "all",
            "hints": "drop",
            "seed": "content",
            "between": "Compound,Disease",
            link.UNLESS_UNTYPED: True,
        },
    }
)
"""Default parameters of the two graphs.

All other relations are distractors (the paper, Section 3). Questions are drug and disease pairs of DRKG, and the newest
tenth of ADInt, which is its authors' test part.
"""


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the questions of one dataset under MRAG's name for it.

    Raises:
        UserError: no dataset is named, or its file is broken.
    """
    name = source.dataset
    if not name:
        raise UserError(f"Give a dataset of MRAG: `mrag/NAME:PATH`, where NAME is one of {', '.join(_READ)}.")
    card = next(card for card in family_cards("mrag") if card.name == f"mrag/{name}")
    all_items = list(_READ[name](_reader_source(source, card.size)))
    if name in _SAMPLED:
        seed = source.number("seed", 0)
        sample = sorted(all_items, key=lambda candidate: lot(seed, candidate.question.id))[: card.size]
        sampled_ids = {candidate.question.id for candidate in sample}
        all_items = [candidate for candidate in all_items if candidate.question.id in sampled_ids]
    for item in all_items:
        id = f"{name}/{item.question.id.partition('/')[2]}"
        question = msgspec.structs.replace(item.question, id=id, benchmark=card.name, language=card.language)
        yield Item(question, msgspec.structs.replace(item.gold, question_id=id))


def _reader_source(source: BenchmarkSource, size: int) -> BenchmarkSource:
    """Return the source that the dataset's own reader takes."""
    name = source.dataset
    if name in _LINKED:
        return BenchmarkSource(source.path, name, {"sample": size, **_LINKED[name], **source.parameters})
    dataset = name if _READ[name] in (mirage.items, jsonl.items) else ""
    return BenchmarkSource(source.path, dataset, {k: v for k, v in source.parameters.items() if k != "seed"})


FAMILY = Family(
    name="mrag",
    items=items,
    file="the dataset's own file or folder",
    needs=("*.json", "*.jsonl", "*.tsv", "*.tsv.gz", "*.txt"),
    parameters=("split", *link.PARAMETERS),
    suite=True,
    originals={
        **dict.fromkeys(("mmlu", "medqa", "medmcqa", "pubmedqa", "bioasq"), ("mirage",)),
        **{name: (name,) for name in ("chemprot", "ddi", "cmeie")},
        **{name: (f"link/{name}",) for name in _LINKED},
    },
)
