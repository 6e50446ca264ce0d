"""HealthBench (Arora et al. 2025, arXiv 2505.08775): conversations that end with a user's message, each with a rubric
by physicians, as the authors publish them. A custom file in this form is ``healthbench/NAME``.

The text of a conversation is its message; if there are several, each begins with its role. Tags of an example such as
``theme:context_seeking`` are fields of the question's metadata, for tables. A criterion is a fact of the gold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ragrounds.base.files import broken, convert, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import RUBRIC, Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

_ROLE = re.compile(r"^(?=[^\S\n]*(?:user|assistant|system|developer)\s*:)", re.IGNORECASE | re.MULTILINE)
_Tag = Annotated[str, Meta(pattern=r"^[^\n|,]*\w[^\n|,]*\Z")]


class _Turn(Struct):
    role: Literal["user", "assistant", "system", "developer"]
    content: str


class _Criterion(Struct):
    criterion: Annotated[str, Meta(pattern=r"\S")]
    points: Annotated[float, Meta(ge=-1e6, le=1e6)]
    tags: list[_Tag] = []


class _Line(Struct):
    prompt_id: str
    prompt: Annotated[list[_Turn], Meta(min_length=1)]
    rubrics: Annotated[list[_Criterion], Meta(min_length=1)]
    example_tags: list[_Tag] = []


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the conversations, by their own ids.

    Raises:
        UserError: a broken line; a conversation whose last message is not the user's.
    """
    name = source.dataset or source.path.name.removesuffix(".gz").removesuffix(".jsonl")
    for location, value in read_jsonl(source.path):
        line = convert(value, _Line, source.path, location)
        if (last := line.prompt[-1].role) != "user":
            raise broken(source.path, f"the last message has the role {last!r}, expected 'user'", location)
        tags: dict[str, list[str]] = {}
        for tag in line.example_tags:
            tags.setdefault(tag.partition(":")[0], []).append(tag.partition(":")[2])
        # No message can begin another: a line of it that looks like a role is indented.
        turns = [f"{turn.role.capitalize()}: {_ROLE.sub('  ', turn.content)}" for turn in line.prompt]
        question = Question(
            id=f"{name}/{line.prompt_id}",
            benchmark=f"healthbench/{name}",
            text="\n\n".join(turns) if len(turns) > 1 else line.prompt[0].content,
            kind="long",
            group=", ".join(tags.get("theme", [])),
            metadata={key: ", ".join(values) for key, values in tags.items()} | {"facts": RUBRIC},
        )
        facts = tuple((rubric.criterion, f"{rubric.points:+.10g}", *rubric.tags) for rubric in line.rubrics)
        yield Item(question, Gold(question_id=question.id, answer="", facts=facts))


FAMILY = Family(name="healthbench", items=items, file="a JSON Lines file of HealthBench", open=True)
