"""Questions over documents: each prompt 24 kB long, 27 of 5,000 documents and a question, all different.

What is measured takes the questions as a jsonl benchmark and the documents from :func:`documents`, as an agent that
retrieves does; peers without retrieval get the whole prompts in a file.
"""

from __future__ import annotations

import functools
import json
import random
import zlib
from pathlib import Path

DOCUMENTS = 5_000
EACH = 27
"""Documents in a prompt."""
OPTIONS = {"A": "first", "B": "second", "C": "third", "D": "fourth"}
SYLLABLES = ["car", "di", "o", "ne", "phro", "he", "pa", "to", "my", "al", "gia", "sis", "ti", "tis", "in", "hy", "per"]


@functools.cache
def library() -> tuple[str, ...]:
    """5,000 documents of some 880 characters, of words as varied as a textbook's."""
    draw = random.Random(0)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(6_000)]
    shares = [1 / (rank + 1) for rank in range(len(words))]
    return tuple(" ".join(draw.choices(words, shares, k=150))[:880] for _ in range(DOCUMENTS))


def documents(question: str) -> list[int]:
    """The numbers of the documents for a question, by its text alone."""
    begin = zlib.crc32(question.encode())
    return [(begin + 179 * place) % DOCUMENTS for place in range(EACH)]


def written(numbers: list[int]) -> str:
    """The documents' part of a prompt."""
    return "\n".join(f"Document [{place}] {library()[number]}" for place, number in enumerate(numbers))


def write(folder: Path, count: int) -> tuple[Path, Path]:
    """`count` questions: alone as a benchmark, and with their documents as prompts."""
    alone, whole = folder / f"questions-{count}.jsonl", folder / f"prompts-{count}.jsonl"
    with alone.open("w", encoding="utf-8") as short, whole.open("w", encoding="utf-8") as long:
        for number in range(count):
            question = f"Case {number}: which of the four does the patient have?"
            item = {"id": f"q{number}", "question": question, "options": OPTIONS, "answer": "A"}
            short.write(json.dumps(item) + "\n")
            item["question"] = written(documents(question)) + "\n" + question
            long.write(json.dumps(item) + "\n")
    return alone, whole
