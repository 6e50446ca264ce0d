"""Engines of others filled by their official clients, as their users fill them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ragrounds.base.specs import Spec
from ragrounds.extensions.engines.retrievers.chroma import ChromaEngine, ChromaParameters
from ragrounds.extensions.engines.retrievers.qdrant import QdrantEngine, QdrantParameters

FIELDS = ("id", "document", "title", "text")


class Row(NamedTuple):
    """A passage on its way."""

    id: str
    document: str
    title: str
    text: str
    vector: np.ndarray | None
    """Shape (dimensions,), float32; None: it has none."""


def fill(spec: Spec, rows: Sequence[Row], metric: str = "cosine") -> Spec:
    """Insert passages, in place of those with the same id; what is not there is made."""
    _FILLERS[spec.name](spec, rows, metric)
    return spec


def _texts(row: Row) -> dict[str, str]:
    return {name: getattr(row, name) for name in FIELDS}


def _chroma(spec: Spec, rows: Sequence[Row], metric: str) -> None:
    given = ChromaParameters(**{key: str(value) for key, value in spec.parameters.items() if key != "embed"})
    client = ChromaEngine(given, spec).connect() if given.url else _chroma_folder(given.path)
    held = client.get_or_create_collection(
        given.collection, embedding_function=None, configuration={"hnsw": {"space": metric}}
    )
    held.upsert(
        ids=[row.id for row in rows],
        documents=[row.text for row in rows],
        metadatas=[{"title": row.title, "document": row.document} for row in rows],
        embeddings=np.asarray([row.vector for row in rows], dtype=np.float32),
    )


def _chroma_folder(path: str) -> Any:
    import chromadb
    from chromadb.config import Settings

    return chromadb.PersistentClient(path, settings=Settings(anonymized_telemetry=False))


def _lancedb(spec: Spec, rows: Sequence[Row], metric: str) -> None:
    import lancedb
    import pyarrow as pa
    from lancedb.index import FTS

    columns = {name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in FIELDS}
    vectors = [row.vector for row in rows if row.vector is not None]
    if vectors:
        columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(np.concatenate(vectors)), len(vectors[0]))
    made, database = pa.table(columns), lancedb.connect(str(spec.parameters["path"]))
    name = str(spec.parameters.get("table", "passages"))
    if name in database.list_tables(limit=1_000).tables:
        table = database.open_table(name)
    else:
        table = database.create_table(name, schema=made.schema)
    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(made)
    table.optimize()
    table.create_index("text", config=FTS(), replace=True)


def _qdrant(spec: Spec, rows: Sequence[Row], metric: str) -> None:
    from qdrant_client import models

    given = QdrantParameters(**{key: str(value) for key, value in spec.parameters.items() if key != "embed"})
    client, size = QdrantEngine(given, spec).connect(), len(np.asarray(rows[0].vector))
    distance = {"cosine": "Cosine", "ip": "Dot", "l2": "Euclid"}[metric]
    if given.collection not in [one.name for one in client.get_collections().collections]:
        form = models.VectorParams(size=size, distance=models.Distance(distance))
        client.create_collection(given.collection, vectors_config={"vector": form})
    points = [
        # Qdrant's ids are numbers or UUIDs: the same id is the same point.
        models.PointStruct(
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, row.id)),
            vector={"vector": np.asarray(row.vector).tolist()},
            payload=_texts(row),
        )
        for row in rows
    ]
    client.upsert(given.collection, points=points, wait=True)


def _pgvector(spec: Spec, rows: Sequence[Row], metric: str) -> None:
    """A table with a column of words that PostgreSQL makes by itself, called ``words``."""
    import psycopg
    from pgvector.psycopg import register_vector

    names = [*FIELDS, *(["vector"] if rows[0].vector is not None else [])]
    table = ".".join(f'"{part}"' for part in str(spec.parameters["table"]).split("."))
    vector = f", vector vector({len(rows[0].vector)})" if rows[0].vector is not None else ""
    replaced = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    with psycopg.connect(str(spec.parameters["url"]), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id text PRIMARY KEY, document text, title text, text text NOT NULL, "
            "words tsvector GENERATED ALWAYS AS "
            f"(to_tsvector('english'::regconfig, coalesce(title, '') || ' ' || text)) STORED{vector})"
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))}) "
                f"ON CONFLICT (id) DO UPDATE SET {replaced}",
                [row[: len(names)] for row in rows],
            )


_FILLERS: dict[str, Callable[[Spec, Sequence[Row], str], None]] = {
    "chroma": _chroma,
    "lancedb": _lancedb,
    "qdrant": _qdrant,
    "pgvector": _pgvector,
}
