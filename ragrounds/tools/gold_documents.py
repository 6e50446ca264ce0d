"""Whether a corpus holds any document that the questions name as their source: where it holds none, its ids are not
those of the questions, and no search will ever count as found."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold
from ragrounds.base.text import safe
from ragrounds.tools.index.collection import open_named


def absent_words(golds: Iterable[Gold], corpus: str, home: Path) -> str:
    """A sentence that says that none of the gold documents is in what a run searches; empty: one is, none is named, or
    the corpus is not one that is kept here.

    Args:
        golds: of the run's questions.
        corpus: versions as a searcher has them, ``one@version+two@version``.
        home: where ragrounds keeps its files.
    """
    named = [document for gold in golds for document in gold.documents]
    if not named:
        return ""
    try:
        held = [open_named(part, home) for part in corpus.split("+")]
    except UserError:  # a search engine's, or one that is searched elsewhere
        return ""
    if any(one.store.of_document(document) for one in held for document in dict.fromkeys(named)):
        return ""
    first = next((record[1] for one in held for record in one.store.each()), "")
    return (
        f"None of the {len(set(named)):,} gold documents of the questions is in the corpus {corpus}: no search will "
        f"count as found. The questions name {safe(repr(named[0]), 60)}, the corpus has "
        f"{safe(repr(first), 60)}."
    )
