"""Questions of 24 kB each, all different: words drawn by a seed, in the form of a jsonl benchmark."""

from __future__ import annotations

import json
import random
from pathlib import Path

SIZE = 24_000
WORDS = [
    "patient", "serum", "dose", "renal", "chronic", "therapy", "lesion", "trial", "acute", "plasma", "marker",
    "cardiac", "fever", "biopsy", "tumour", "insulin", "anaemia", "hepatic", "oxygen", "placebo", "risk", "onset",
]  # fmt: skip


def write(path: Path, count: int) -> None:
    """One question a line."""
    draw = random.Random(0)
    paragraphs = [" ".join(draw.choices(WORDS, k=120)) for _ in range(400)]
    with path.open("w", encoding="utf-8") as out:
        for number in range(count):
            text = f"Case {number}. "
            while len(text) < SIZE:
                text += draw.choice(paragraphs) + "\n"
            options = {"A": "first", "B": "second", "C": "third", "D": "fourth"}
            out.write(json.dumps({"id": f"q{number}", "question": text, "options": options, "answer": "A"}) + "\n")
