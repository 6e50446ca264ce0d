"""CMedTEB and CMedQA reranking: Chinese lines {query, pos: […], neg: […]} (CARE's and C-MTEB's form; ``positive`` and
``negative`` too), as multiple choice: which text goes with the query.

The options are the first positive and the negatives in an order that `seed` and the query give. The retrieval set in
BEIR's form is read by the ``beir`` family and scored by `ragrounds retrieve`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec import Struct, field

from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.evals.benchmarks.families.jsonl import labelled
from ragrounds.evals.benchmarks.reading import broken, convert, read_jsonl
from ragrounds.evals.benchmarks.source import Family, Source
from ragrounds.records import Gold, Question


class _Line(Struct):
    query: str
    pos: list[str] = field(default_factory=list)
    neg: list[str] = field(default_factory=list)
    positive: list[str] = field(default_factory=list)
    negative: list[str] = field(default_factory=list)
    type: str = ""


def items(source: Source) -> Iterator[Item]:
    """The lines that have a positive and a negative, numbered from 1.

    Raises:
        UserError: a broken line, or no line with both.
    """
    path, seed = source.path, source.number("seed", 0)
    name = source.dataset or path.name.removesuffix(".gz").removesuffix(".jsonl")
    none = True
    for number, (place, value) in enumerate(read_jsonl(path), start=1):
        line = convert(value, _Line, path, place)
        right = line.pos or line.positive
        wrong = [text for text in dict.fromkeys(line.neg or line.negative) if text.strip() and text not in right]
        if not right or not wrong:
            continue
        none = False
        texts = sorted((right[0], *wrong), key=lambda text: _lot(seed, line.query, text))
        options = labelled(texts)
        ask = "下列哪一项与该问题意思相同？" if line.type == "symmetric_sts" else "下列哪一项回答了该问题？"
        question = Question(
            id=f"{name}/{number}",
            benchmark=f"cmedteb/{name}",
            text=f"{ask}\n\n{line.query}",
            options=options,
            language="zh",
        )
        yield Item(question, Gold(question_id=question.id, answer=list(options)[texts.index(right[0])]))
    if none:
        raise broken(path, "no line has both a positive and a negative text")


def _lot(seed: int, *texts: str) -> bytes:
    return hashlib.sha256("\n".join((str(seed), *texts)).encode()).digest()


FAMILY = Family(
    items=items, file="a JSON Lines file with query, pos and neg", parameters=("seed",), needs=("*.jsonl",), open=True
)
