"""Check that a corpus holds any document that the questions name as their source.

If it holds none, its ids are not those of the questions, and no search will ever count as found.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ragrounds.base.errors import UserError
from ragrounds.base.records import Gold
from ragrounds.base.text import safe
from ragrounds.tools.index.collection import open_named


def absent_words(golds: Iterable[Gold], benchmark: str, corpus: str, home: Path) -> str:
    """Return a sentence that reports that none of the gold documents is in the searched corpus.

    The text is empty if one is, if none is named, or if the corpus is not stored here.

    Args:
        golds: gold documents of the run's questions.
        benchmark: the questions, as the user names them.
        corpus: versions as a searcher has them, ``one@version+two@version``.
        home: folder of ragrounds' files.
    """
    gold_ids = [document for gold in golds for document in gold.documents]
    if not gold_ids:
        return ""
    try:
        collections = [open_named(part, home) for part in corpus.split("+")]
    except UserError:  # a search engine's, or one that is searched elsewhere
        return ""
    if any(
        collection.store.of_document(document) for collection in collections for document in dict.fromkeys(gold_ids)
    ):
        return ""
    first = next((record[1] for collection in collections for record in collection.store.iterate()), "")
    return (
        f"None of the {len(set(gold_ids)):,} gold documents of {safe(benchmark, 200)} is in the corpus {corpus}: no "
        f"search will count as found. The questions name {safe(repr(gold_ids[0]), 60)}, the corpus has "
        f"{safe(repr(first), 60)}."
    )
