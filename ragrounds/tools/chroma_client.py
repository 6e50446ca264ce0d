"""Chroma's client, for the store of vectors of ours and for collections of others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragrounds.errors import UserError


def chroma_client(
    *,
    path: Path | None = None,
    url: str = "",
    headers: dict[str, str] | None = None,
    tenant: str = "default_tenant",
    database: str = "default_database",
) -> Any:
    """Chroma's client for a folder in this process, or for a server as ``chroma run`` starts it.

    Raises:
        UserError: chromadb is not installed, or the address is none.
        Exception: what the client makes of a server that does not answer.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError:
        raise UserError("Chroma needs its client: install ragrounds[dense], or take store=faiss.") from None
    quiet = Settings(anonymized_telemetry=False)
    if path is not None:
        return chromadb.PersistentClient(str(path), settings=quiet, tenant=tenant, database=database)
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("The address of Chroma's server is none: expected http://HOST:PORT.")
    secure = parts.scheme == "https"
    return chromadb.HttpClient(
        host=parts.hostname, port=parts.port or (443 if secure else 8000), ssl=secure, headers=headers, settings=quiet,
        tenant=tenant, database=database,
    )  # fmt: skip


def graph(metric: str) -> dict[str, dict[str, Any]]:
    """The configuration of a collection whose graph compares by a metric."""
    return {"hnsw": {"space": metric, "ef_construction": 200, "ef_search": 200, "max_neighbors": 32}}
