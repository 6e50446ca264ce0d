"""Passages, and vectors of hashed words, that the tests of external engines share."""

import hashlib

import numpy as np
from langchain_core.embeddings import Embeddings

from ragrounds.tools.retriever import open_searcher
from tests.extensions.engines.filled_engines import Row, fill

DIMENSIONS = 32
EMBED = "import:tests.extensions.engines.hashed_words:Hashed"
TEXTS = {
    "gout-1": ("Gout", "uric acid crystals swell the joint of the big toe"),
    "gout-2": ("Gout", "allopurinol lowers uric acid"),
    "asthma-1": ("Asthma", "wheezing and short breath at night"),
    "asthma-2": ("Asthma", "an inhaler opens the airways"),
    "heart-1": ("Heart", "swollen ankles when the heart is weak"),
    "heart-2": ("Heart", "diuretics take water from the body, and the ankles get thin"),
    "flu-1": ("Influenza", "fever and cough in winter"),
    "o'neil-1": ("O'Neil", 'a "quoted" name \\ with a stroke'),
}


def hashed(text):
    """A bag of hashed words, of length 1."""
    vector = np.full(DIMENSIONS, 0.001, dtype=np.float32)
    for word in text.lower().replace(".", " ").split():
        vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % DIMENSIONS] += 1
    return vector / np.linalg.norm(vector)


class Hashed(Embeddings):
    """Texts with the same words have the same vector."""

    def embed_documents(self, texts):
        return [hashed(text).tolist() for text in texts]

    def embed_query(self, text):
        return hashed(text).tolist()


def rows(texts=None, vectors=True):
    """Passages on their way: documents are what stands before the stroke."""
    return [
        Row(id, id.split("-")[0], title, text, hashed(text) if vectors else None)
        for id, (title, text) in (texts or TEXTS).items()
    ]


def exact(query, k, texts=None):
    """Ids and cosines of the `k` nearest, by a comparison with all."""
    held = {id: float(hashed(query) @ hashed(text)) for id, (_, text) in (texts or TEXTS).items()}
    return sorted(held.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


class Short(Hashed):
    """Vectors of another model."""

    def embed_query(self, text):
        return [1.0, 2.0, 3.0]


def push(target, texts=None, *, vectors=True, metric="cosine"):
    """Fill a table or collection; gives the spec that searches it by vectors."""
    fill(target, rows(texts, vectors), metric)
    return target.having(embed=EMBED)


async def found(spec, query, k=3, *, home, corpus=""):
    """What a retriever finds that is opened for this query alone."""
    searcher = open_searcher(spec, corpus, home)
    try:
        return await searcher.search(query, k)
    finally:
        getattr(searcher, "close", lambda: None)()
