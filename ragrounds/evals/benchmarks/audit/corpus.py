"""Whether a corpus holds the questions themselves or the documents that they were made from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.records import Gold, Question

SHINGLE = 8
"""Words in a row that are looked for."""
COPIED = 0.5
"""Share of a question's shingles from which a document is a near copy of it."""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


class Copy(Struct, frozen=True, kw_only=True):
    """A document that holds most of a question's text."""

    question: str
    document: str
    share: float
    """Share of the question's shingles that stand in the document."""


class InCorpus(Struct, frozen=True, kw_only=True):
    """What a corpus holds of a benchmark."""

    documents: int
    sources: tuple[str, ...]
    """Questions of which a gold document stands in the corpus."""
    without_source: tuple[str, ...]
    """Questions that name gold documents, none of which is in the corpus: no retriever can find them."""
    copies: tuple[Copy, ...]
    """The document with the largest share for each question that is (nearly) copied."""
    short: int
    """Questions of fewer than eight words, which are not looked for."""


def in_corpus(
    questions: Sequence[Question], golds: Mapping[str, Gold], documents: Iterable[tuple[str, str]]
) -> InCorpus:
    """Look for questions in (document id, text) pairs, passages of one document one after the other or not.

    The corpus is read once and not held; a question's text counts as copied by a document, not by single passages.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, int] = {}
    for question in questions:
        found = shingles(question.text)
        sizes[question.id] = len(found)
        for shingle in found:
            wanted[shingle].append(question.id)
    seen: dict[tuple[str, str], set[str]] = defaultdict(set)
    present = set()
    for document, text in documents:
        present.add(document)
        for shingle in shingles(text):
            for id in wanted.get(shingle, ()):
                seen[id, document].add(shingle)
    best: dict[str, Copy] = {}
    for (id, document), found in seen.items():
        share = len(found) / sizes[id]
        if share >= COPIED and (id not in best or share > best[id].share):
            best[id] = Copy(question=id, document=document, share=share)
    named = [question.id for question in questions if golds[question.id].documents]
    sources = {id for id in named if present.intersection(golds[id].documents)}
    return InCorpus(
        documents=len(present),
        sources=tuple(id for id in named if id in sources),
        without_source=tuple(id for id in named if id not in sources),
        copies=tuple(best[question.id] for question in questions if question.id in best),
        short=sum(size == 0 for size in sizes.values()),
    )


def shingles(text: str) -> set[str]:
    """Every run of eight words, without case and punctuation."""
    words = _WORD.findall(text.casefold())
    return {" ".join(words[start : start + SHINGLE]) for start in range(len(words) - SHINGLE + 1)}
