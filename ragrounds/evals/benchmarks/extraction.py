"""Extraction questions: a text, the relations to look for, and the triplets that it states.

A question asks for what is scored: it names the relations as the gold has them, says what each means and which entity
comes first, and gives the form of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item

Triplet = tuple[str, str, str]
"""First entity, relation, second entity."""

SYMMETRIC = "symmetric"
"""Metadata of a question whose relations have no direction: ``true``."""
_ASK = {
    "en": "Which of the relations below does the text state? Give every one as [{first}, relation, {second}], all of "
    "them in one JSON list; [] where it states none. Write each relation exactly as it is listed, and each entity "
    "exactly as the text words it. {order} The same triplet is given once."
    "\n\nRelations:\n{relations}\n\nText: {text}",
    "zh": "下面的文本陈述了所列关系中的哪些？请将每一条写成 [{first}, 关系, {second}]，"
    "全部放在一个 JSON 列表中；没有则给出 []。"
    "关系名称须与所列完全一致，实体须与原文写法完全一致。{order}相同的三元组只写一次。"
    "\n\n关系：\n{relations}\n\n文本：{text}",
}
_ORDER = {
    ("en", False): "The order matters: the {first} comes first, the {second} last.",
    ("en", True): "The order of the two entities does not matter.",
    ("zh", False): "顺序有意义：{first}在前，{second}在后。",
    ("zh", True): "两个实体的先后没有关系。",
}
_ENDS = {"en": ("first entity", "second entity"), "zh": ("主体", "客体")}


def extraction(
    id: str,
    benchmark: str,
    text: str,
    relations: Mapping[str, str],
    triplets: Iterable[Triplet],
    *,
    split: str = "test",
    language: str = "en",
    symmetric: bool = False,
    ends: tuple[str, str] | None = None,
) -> Item:
    """One extraction question; its gold answer is the list of triplets as JSON, in order and without repeats.

    Args:
        id: of the question.
        benchmark: canonical name.
        text: to extract from.
        relations: name, as the gold has it → what it means; empty: the name says it.
        triplets: what the text states.
        split: of the benchmark.
        language: ``en`` or ``zh``.
        symmetric: relations have no direction.
        ends: what the first and the second entity are.
    """
    listed = (f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in relations.items())
    first, second = ends or _ENDS[language]
    values = {
        "{order}": _ORDER[language, symmetric],
        "{first}": first,
        "{second}": second,
        "{relations}": "\n".join(listed),
        "{text}": text,
    }
    asked = _ASK[language]
    # Not str.format: a text may hold braces. It comes last, so that nothing in it is taken for a place.
    for place, value in values.items():
        asked = asked.replace(place, value)
    question = Question(
        id=id,
        benchmark=benchmark,
        text=asked,
        kind="extraction",
        split=split,
        language=language,
        metadata={SYMMETRIC: "true"} if symmetric else {},
    )
    unique = list(dict.fromkeys(triplets))
    return Item(question, Gold(question_id=id, answer=json.dumps(unique, ensure_ascii=False)))
