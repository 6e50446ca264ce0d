"""Extraction questions: a text, the relations to look for, and the triplets that it states."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ragrounds.evals.benchmarks.benchmark import Item
from ragrounds.records import Gold, Question

Triplet = tuple[str, str, str]
"""First entity, relation, second entity."""

SYMMETRIC = "symmetric"
"""Metadata of a question whose relations have no direction: ``true``."""
_ASK = {
    "en": "Which relations of these types does the text state: {relations}? Give all of them as a JSON list of "
    "[first entity, type, second entity], with entities worded as in the text; an empty list where there is none."
    "\n\nText: {text}",
    "zh": "下面的文本陈述了哪些以下类型的关系：{relations}？请以 JSON 列表给出全部 [主体, 关系, 客体]，"
    "实体用原文中的写法；没有则给出空列表。"
    "\n\n文本：{text}",
}


def extraction(
    id: str,
    benchmark: str,
    text: str,
    relations: Iterable[str],
    triplets: Iterable[Triplet],
    *,
    split: str = "test",
    language: str = "en",
    symmetric: bool = False,
) -> Item:
    """One extraction question; its gold answer is the list of triplets as JSON, in order and without repeats."""
    asked = _ASK[language]
    names = ("、" if language == "zh" else ", ").join(relations)
    question = Question(
        id=id,
        benchmark=benchmark,
        # Not str.format: a text may hold braces.
        text=asked.replace("{relations}", names).replace("{text}", text),
        kind="extraction",
        split=split,
        language=language,
        metadata={SYMMETRIC: "true"} if symmetric else {},
    )
    unique = list(dict.fromkeys(triplets))
    return Item(question, Gold(question_id=id, answer=json.dumps(unique, ensure_ascii=False)))
