"""Vectors without weights: counts of a text's words and pairs of characters, in places that a hash gives.

They stand in for an encoder where none is installed and BM25 cannot take its place: similarity of sentences."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise

from langchain_core.embeddings import Embeddings

DIMENSIONS = 256


class HashedEmbeddings(Embeddings):
    """A text's words, and every two characters that follow each other, counted."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector of `DIMENSIONS` numbers for each text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """A vector of `DIMENSIONS` numbers; that of an empty text is not zero."""
        vector = [1.0] + [0.0] * (DIMENSIONS - 1)
        for part in (*re.findall(r"\w+", text.casefold()), *map("".join, pairwise(text))):
            vector[1 + zlib.crc32(part.encode()) % (DIMENSIONS - 1)] += 1.0
        return vector


embeddings = HashedEmbeddings()
"""For ``dense[model="import:…hashed_vectors:embeddings"]``."""
