"""CMedTEB and CMedQA reranking: Chinese lines {query, pos: […], neg: […]} (CARE's and C-MTEB's form; ``positive`` and
``negative`` too), as multiple choice of the text that goes with the query.

The options are the first positive and the negatives in an order that depends on `seed` and the query. The retrieval set
in BEIR's form is read by the ``beir`` family and scored by `ragrounds retrieve`.
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
    """Yield the lines, numbered from 1. A negative that repeats another or a positive is not a separate option.

    Raises:
        UserError: a broken line, or one without a positive or a negative text.
    """
    path, seed = source.path, source.number("seed", 0)
    name = source.dataset or path.name.removesuffix(".gz").removesuffix(".jsonl")
    for number, (location, value) in enumerate(read_jsonl(path), start=1):
        line = convert(value, _Line, path, location)
        positives = _field_texts(line.pos, line.positive, "pos", path, location)
        negatives = _field_texts(line.neg, line.negative, "neg", path, location)
        distractors = [text for text in dict.fromkeys(negatives) if text not in positives]
        if not distractors:
            raise broken(path, "every text of neg is one of pos too, so there is nothing to choose between", location)
        texts = sorted((positives[0], *distractors), key=lambda text: lot(seed, line.query, text))
        options = labelled(texts)
        instruction = "下列哪一项与该问题意思相同？" if line.type == "symmetric_sts" else "下列哪一项回答了该问题？"
        question = Question(
            id=f"{name}/{number}",
            benchmark=f"cmedteb/{name}",
            text=f"{instruction}\n\n{line.query}",
            options=options,
            language="zh",
        )
        yield Item(question, Gold(question_id=question.id, answer=list(options)[texts.index(positives[0])]))


def _field_texts(
    short_field: list[str] | None, long_field: list[str] | None, name: str, path: Path, location: str
) -> list[str]:
    """Return the texts of a field that has two names; one or more, none of them blank."""
    texts = short_field if short_field is not None else long_field
    if texts is None:
        raise broken(path, f"it has no field `{name}` (or `{_LONG[name]}`)", location)
    if not texts:
        raise broken(path, f"{name} is empty; a choice needs a positive and a negative text", location)
    if not all(text.strip() for text in texts):
        raise broken(path, f"a text of {name} is blank", location)
    return texts


FAMILY = Family(
    name="cmedteb",
    items=items,
    file="a JSON Lines file with query, pos and neg",
    parameters=("seed",),
    needs=("*.jsonl",),
    open=True,
)
