"""CMedTEB and CMedQA reranking: Chinese lines {query, pos: […], neg: […]} (CARE's and C-MTEB's form; ``positive`` and
``negative`` too), as multiple choice: which text goes with the query.

The options are the first positive and the negatives in an order that `seed` and the query give. The retrieval set in
BEIR's form is read by the ``beir`` family and scored by `ragrounds retrieve`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ragrounds.base.files import broken, convert, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item, lot
from ragrounds.evals.benchmarks.families.jsonl import labelled
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

_LONG = {"pos": "positive", "neg": "negative"}


class _Line(Struct):
    query: str
    pos: list[str] | None = None
    neg: list[str] | None = None
    positive: list[str] | None = None
    negative: list[str] | None = None
    type: str = ""


def items(source: BenchmarkSource) -> Iterator[Item]:
    """The lines, numbered from 1. A negative that repeats another or a positive is no option of its own.

    Raises:
        UserError: a broken line, or one without a positive or a negative text.
    """
    path, seed = source.path, source.number("seed", 0)
    name = source.dataset or path.name.removesuffix(".gz").removesuffix(".jsonl")
    for number, (place, value) in enumerate(read_jsonl(path), start=1):
        line = convert(value, _Line, path, place)
        right = _given(line.pos, line.positive, "pos", path, place)
        negatives = _given(line.neg, line.negative, "neg", path, place)
        wrong = [text for text in dict.fromkeys(negatives) if text not in right]
        if not wrong:
            raise broken(path, "every text of neg is one of pos too, so there is nothing to choose between", place)
        texts = sorted((right[0], *wrong), key=lambda text: lot(seed, line.query, text))
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


def _given(one: list[str] | None, other: list[str] | None, name: str, path: Path, place: str) -> list[str]:
    """The texts of a field that has two names; one or more, none of them blank."""
    texts = one if one is not None else other
    if texts is None:
        raise broken(path, f"it has no field `{name}` (or `{_LONG[name]}`)", place)
    if not texts:
        raise broken(path, f"{name} is empty; a choice needs a positive and a negative text", place)
    if not all(text.strip() for text in texts):
        raise broken(path, f"a text of {name} is blank", place)
    return texts


FAMILY = Family(
    name="cmedteb",
    items=items,
    file="a JSON Lines file with query, pos and neg",
    parameters=("seed",),
    needs=("*.jsonl",),
    open=True,
)
