"""The notes without any framework: `search` gives three of them as one text."""

import json
import re
from pathlib import Path

NOTES = [json.loads(line) for line in Path(__file__).with_name("notes.jsonl").read_text(encoding="utf-8").splitlines()]
ASKED = "Search the notes, then end with the letter of the option that you choose."


def search_notes(query: str) -> str:
    """Search short notes on clinical medicine.

    Args:
        query: what to look for.
    """
    asked = set(re.findall(r"\w{5,}", query.lower()))
    best = sorted(NOTES, key=lambda note: -len(asked & set(re.findall(r"\w{5,}", note["text"].lower()))))[:3]
    return "\n\n".join(note["text"] for note in best)
