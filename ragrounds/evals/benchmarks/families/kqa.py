"""K-QA (Manes et al. 2024): 201 patients' questions with physicians' answers, each split into statements that a good
answer must have and statements that are nice to have.

The statements are for a judge: entailed or contradicted by an answer, never searched for as words.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from ragrounds.base.files import broken, convert, read_jsonl
from ragrounds.base.records import Gold, Question
from ragrounds.evals.benchmarks.benchmark import NICE, STATEMENTS, Item
from ragrounds.evals.benchmarks.family import BenchmarkSource, Family

FILE = "questions_w_answers.jsonl"


class _Line(Struct):
    Question: str
    Free_form_answer: str
    Must_have: list[str]
    Nice_to_have: list[str]
    ICD_10_diag: str | None = None


def items(source: BenchmarkSource) -> Iterator[Item]:
    """Yield the questions with answers, numbered from 0 in the file's order (they have no ids).

    Raises:
        UserError: a broken line.
    """
    path = source.file(FILE, f"dataset/{FILE}")
    for number, (location, value) in enumerate(read_jsonl(path)):
        line = convert(value, _Line, path, location)
        if not line.Must_have:
            raise broken(path, "it has no must-have statement", location)
        question = Question(
            id=f"kqa/{number}",
            benchmark="kqa",
            text=line.Question,
            kind="long",
            group=line.ICD_10_diag or "",
            metadata={"facts": STATEMENTS},
        )
        facts: list[tuple[str, ...]] = [(statement,) for statement in line.Must_have]
        facts += [(statement, NICE) for statement in line.Nice_to_have]
        yield Item(question, Gold(question_id=question.id, answer=line.Free_form_answer, facts=tuple(facts)))


FAMILY = Family(name="kqa", items=items, file=FILE, needs=(FILE,))
