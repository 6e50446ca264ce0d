"""Sixty short notes on clinical medicine, and a search over them: what the systems in this folder look things up in."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

FILE = Path(__file__).with_name("notes.jsonl")


def documents() -> list[Document]:
    """The notes, as LangChain's documents."""
    notes = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
    return [Document(note["text"], id=note["id"], metadata={"title": note["title"]}) for note in notes]


class WordRetriever(BaseRetriever):
    """Finds the notes that share the most words with a query; it needs no model."""

    k: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        asked = Counter(words(query))
        notes = documents()
        shared = [sum((asked & Counter(words(f"{n.metadata['title']} {n.page_content}"))).values()) for n in notes]
        best = sorted(range(len(notes)), key=lambda i: -shared[i])[: self.k]
        return [notes[i] for i in best]


def words(text: str) -> list[str]:
    """The words of a text that carry meaning."""
    return [word for word in re.findall(r"\w+", text.lower()) if len(word) > 4]
