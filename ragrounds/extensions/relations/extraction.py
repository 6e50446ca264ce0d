"""Extraction questions: a text, the relations to look for, and the triplets that it states.

A question states what is scored: the names of the relations as in the gold, their meaning, the order of the entities,
and the form of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import Item

Triplet = tuple[str, str, str]
"""First entity, relation, second entity."""

SYMMETRIC = "symmetric"
"""Key of a question's metadata that is ``true`` if its relations have no direction."""
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
    """Return one extraction question. Its gold answer is the list of triplets as JSON, in order and without repeats.

    Args:
        id: id of the question.
        benchmark: canonical name of the benchmark.
        text: text to extract from.
        relations: name, as in the gold → meaning; empty if the name is clear.
        triplets: triplets that the text states.
        split: split of the benchmark.
        language: ``en`` or ``zh``.
        symmetric: True if relations have no direction.
        ends: names of the first and the second entity.
    """
    relation_lines = (f"- {name}: {meaning}" if meaning else f"- {name}" for name, meaning in relations.items())
    first, second = ends or _ENDS[language]
    values = {
        "{order}": _ORDER[language, symmetric],
        "{first}": first,
        "{second}": second,
        "{relations}": "\n".join(relation_lines),
        "{text}": text,
    }
    prompt = _ASK[language]
    # Not str.format: a text may hold braces. The text comes last, so that nothing in it is taken for a placeholder.
    for placeholder, value in values.items():
        prompt = prompt.replace(placeholder, value)
    question = Question(
        id=id,
        benchmark=benchmark,
        text=prompt,
        kind="extraction",
        split=split,
        language=language,
        metadata={SYMMETRIC: "true"} if symmetric else {},
    )
    unique = list(dict.fromkeys(triplets))
    return Item(question, Gold(question_id=id, answer=json.dumps(unique, ensure_ascii=False)))
