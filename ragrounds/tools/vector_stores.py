"""Where vectors are searched: FAISS, exactly, or Chroma, approximately (HNSW), in this process or on a server.

A score is always the greater the better: inner product, cosine, or the squared distance with a minus sign.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np

from ragrounds.errors import UserError
from ragrounds.tools.embedding import Metric, Vectors

Progress = Callable[[int], None]
_ADDED_AT_ONCE = 50_000


class VectorStore(Protocol):
    """Finds the vectors nearest to one."""

    def nearest(self, vector: Vectors, k: int) -> list[tuple[int, float]]:
        """Positions and scores of the `k` best, best first."""


class Flat:
    """FAISS' exhaustive search: exact."""

    def __init__(self, vectors: Vectors, metric: Metric) -> None:
        try:
            import faiss
        except ImportError:
            raise UserError("store=faiss needs faiss-cpu: install ragrounds[dense].") from None
        self._sign = -1.0 if metric == "l2" else 1.0
        dimensions = vectors.shape[1]
        self._index: Any = faiss.IndexFlatL2(dimensions) if metric == "l2" else faiss.IndexFlatIP(dimensions)
        for start in range(0, len(vectors), _ADDED_AT_ONCE):
            self._index.add(np.ascontiguousarray(vectors[start : start + _ADDED_AT_ONCE]))

    def nearest(self, vector: Vectors, k: int) -> list[tuple[int, float]]:
        scores, positions = self._index.search(vector.reshape(1, -1), min(k, self._index.ntotal))
        found = [
            (int(position), self._sign * float(score)) for position, score in zip(positions[0], scores[0], strict=True)
        ]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))


class Chroma:
    """A collection of Chroma's, filled where it is not yet."""

    def __init__(self, client: Any, name: str, vectors: Vectors, metric: Metric, progress: Progress | None) -> None:
        self._metric = metric
        self._count = len(vectors)
        try:
            # Without `embedding_function=None` Chroma downloads a model of its own, here and in get_collection.
            self._collection = client.get_or_create_collection(
                name,
                embedding_function=None,
                configuration={
                    "hnsw": {"space": metric, "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}
                },
            )
            held = self._collection.count()
            if held > self._count:
                raise UserError(
                    f"Chroma's collection {name!r} holds {held} vectors, expected {self._count}: remove it."
                )
            step = min(client.get_max_batch_size(), 5_000)
            for start in range(held, self._count, step):  # vectors go in by position: what is there is the beginning
                end = min(start + step, self._count)
                self._collection.upsert(
                    ids=[str(position) for position in range(start, end)], embeddings=np.asarray(vectors[start:end])
                )
                if progress:
                    progress(end)
        except UserError:
            raise
        except Exception as problem:  # the client has many kinds of errors, and the server's come as text
            raise UserError(f"Chroma's collection {name!r} cannot be used: {problem}.") from None

    def nearest(self, vector: Vectors, k: int) -> list[tuple[int, float]]:
        found = self._collection.query(
            query_embeddings=vector.reshape(1, -1), n_results=min(k, self._count), include=["distances"]
        )
        one = 0.0 if self._metric == "l2" else 1.0  # Chroma's distances are 1 - product, or squared distances
        hits = [
            (int(position), one - float(distance))
            for position, distance in zip(found["ids"][0], found["distances"][0], strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))


def embedded(folder: Path) -> Any:
    """Chroma in this process, kept in a folder."""
    chromadb = _chromadb()
    folder.mkdir(exist_ok=True)
    return chromadb.PersistentClient(str(folder), settings=_quiet())


def served(url: str) -> Any:
    """A Chroma server, as ``chroma run`` starts it.

    Raises:
        UserError: no server answers there.
    """
    chromadb = _chromadb()
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{url!r} is no Chroma server: expected http://HOST:PORT.")
    secure = parts.scheme == "https"
    try:
        return chromadb.HttpClient(
            host=parts.hostname, port=parts.port or (443 if secure else 8000), ssl=secure, settings=_quiet()
        )
    except Exception as problem:  # whatever the client makes of a server that is not there
        raise UserError(f"No Chroma server answers at {url}: {problem}. Start one with `chroma run`.") from None


def _chromadb() -> Any:
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import chromadb
    except ImportError:
        raise UserError("store=chroma needs chromadb: install ragrounds[dense], or take store=faiss.") from None
    return chromadb


def _quiet() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)
