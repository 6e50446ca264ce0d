"""Questions written in Python, saved as JSON lines, and asked."""

import json
import tempfile
from pathlib import Path

import ragrounds as rr

QUESTIONS = [
    {"id": "q1", "question": "Which vitamin prevents scurvy?", "options": ["vitamin C", "vitamin D"], "answer": "A"},
    {"id": "q2", "question": "Which vitamin prevents rickets?", "options": ["vitamin C", "vitamin D"], "answer": "B"},
]
NOTES = [
    {"_id": "n1", "title": "Scurvy", "text": "Scurvy is prevented by vitamin C."},
    {"_id": "n2", "title": "Rickets", "text": "Rickets is prevented by vitamin D."},
]


def lines(path: Path, rows: list[dict[str, object]]) -> None:
    """Write one JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    lines(folder / "questions.jsonl", QUESTIONS)
    lines(folder / "corpus.jsonl", NOTES)
    result = rr.run(
        f"jsonl:{folder / 'questions.jsonl'}",
        "vanilla_rag[top_k=1]",
        corpus=f"beir:{folder}",
        model="baseline:extractive",
        progress=False,
    )
    for answer in result.to_pandas("attempts").itertuples():
        print(f"{answer.question_id}: right is {answer.gold}, chosen {answer.text[-3]}")
