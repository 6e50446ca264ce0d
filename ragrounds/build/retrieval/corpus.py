"""The corpus of a benchmark that is being made: its passages, which become the benchmark's documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.tools.retriever import Progress, corpora_of, open_collection


class Corpus:
    """The passages of one corpus in their order. A corpus that is cut into chunks gives its chunks."""

    def __init__(self, name: str, home: Path, *, progress: Progress | None = None) -> None:
        """Open it, storing it first where it is not yet.

        Raises:
            UserError: there is none of that name, it cannot be read, or it is several.
        """
        if len(corpora_of(name)) > 1:
            raise UserError(
                f"{name!r} is several corpora, whose ids may meet: join them first with `ragrounds index build`."
            )
        self._collection = open_collection(name, home, progress=progress)
        self.version = self._collection.corpus

    def __iter__(self) -> Iterator[Passage]:
        for id, document, title, text in self._collection.store.each():
            yield Passage(id=id, document=document, title=title, text=text, corpus=self.version)

    def __len__(self) -> int:
        return len(self._collection.store)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document; empty where there is none."""
        return self._collection.document(id)

    def some(self, ids: Collection[str]) -> dict[str, Passage]:
        """Passages by id; those that the corpus does not hold are left out."""
        store = self._collection.store
        places = {id: store.find(id) for id in ids}
        return {id: store.passage(place, self.version) for id, place in places.items() if place is not None}
