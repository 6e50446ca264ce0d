"""Grow a corpus: passages made of sentences of the shared corpora, recombined.

    python perf/retrieval_grown.py DATA OUT.jsonl 1000000

The sentences are real, so terms are as common or rare as in medical text; which stand together is drawn, with a seed.
"""

import gzip
import json
import random
import re
import sys
from pathlib import Path

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z(])")


def sentences(data: Path) -> list[str]:
    """All sentences of 30 to 400 characters of the shared English corpora."""
    found: list[str] = []
    for name in ("scifact", "pubmedqa_1k", "medline_med1033", "vaswani"):
        with (data / "beir" / name / "corpus.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                found += _END.split(f"{row['title']}. {row['text']}")
    with gzip.open(data / "openstax/openstax_passages.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found += _END.split(json.loads(line)["text"])
    with gzip.open(data / "medquad/medquad_with_answers.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            found += _END.split(json.loads(line)["answer"])
    return sorted({text for text in found if 30 <= len(text) <= 400})


def grow(data: Path, out: Path, count: int, seed: int = 0) -> None:
    """Write `count` passages of three to nine sentences, the first of which is the title."""
    draw = random.Random(seed)
    pool = sentences(data)
    with out.open("w", encoding="utf-8") as file:
        for number in range(count):
            title, *rest = draw.choices(pool, k=draw.randint(4, 10))
            row = {"_id": f"g{number}", "title": title, "text": " ".join(rest)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    grow(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
