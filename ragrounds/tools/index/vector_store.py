"""Storage of the vectors of a collection's passages: one file, a row for each passage, in their order."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import numpy as np

from ragrounds.base.digests import code_digest
from ragrounds.base.errors import UserError
from ragrounds.tools.index.collection import Collection
from ragrounds.tools.index.embedders import Encoding, Vectors
from ragrounds.tools.index.engine_files import IndexManifest
from ragrounds.tools.index.vector_index import StoredVectors

FORMAT = 1
_QUERY_ONLY = {"query_prefix": "", "query_length": 0, "base_url": "", "alias": "", "device": "", "batch": 0}
_SELDOM = ("alias", "fingerprint", "dtype", "kept", "device", "batch")
"""Fields that are named only if they are set."""


class DenseStatistics(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Description of complete vectors."""

    dimensions: int


def vectors_file(folder: Path, encoding: Encoding) -> tuple[Path, type[np.float32] | type[np.float16]]:
    """Return the path of an encoding's vectors in its folder, and the type of their numbers."""
    if encoding.kept == "float16":
        return folder / "vectors.f16", np.float16
    return folder / "vectors.f32", np.float32


def vectors_place(collection: Collection, encoding: Encoding) -> tuple[str, Path]:
    """Return the settings that determine the vectors of a collection's passages, as text, and the folder of the
    vectors.
    """
    # Only settings that determine the documents' vectors: another query encoder of a pair searches the same vectors.
    model = encoding.document_model or encoding.model
    decisive = msgspec.structs.replace(encoding, model=model, document_model="", **_QUERY_ONLY)
    plain = {key: value for key, value in msgspec.structs.asdict(decisive).items() if value or key not in _SELDOM}
    # A server's vectors depend on the encoding alone. Vectors that are computed here also depend on the code.
    local = not model.startswith("openai:")
    built_by = code_digest("ragrounds.tools.index.embedders") if local else ""
    if not local and encoding.base_url:
        plain["server"] = encoding.alias or encoding.base_url.rstrip("/")
    documents = msgspec.json.encode(plain).decode()
    key = hashlib.blake2b((documents + built_by).encode(), digest_size=6).hexdigest()
    return documents, collection.folder / f"dense-{key}"


def stored_as(vectors: Vectors, kind: type[np.float32] | type[np.float16], model: str) -> StoredVectors:
    """Return vectors in the type in which they are stored.

    Raises:
        UserError: a number is beyond what float16 holds.
    """
    if kind is np.float32:
        return vectors
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    if not np.isfinite(half).all():
        raise UserError(f"{model!r} gives numbers beyond 65,504, which kept=float16 cannot hold: leave it out.")
    return half


def vectors_manifest(
    collection: Collection, documents: str, dimensions: int, *, imported: bool = False
) -> DenseStatistics:
    """Return the description of a collection's complete vectors."""
    return DenseStatistics(
        format=FORMAT,
        index=documents,
        version=collection.manifest.version,
        passages=len(collection.store),
        dimensions=dimensions,
        given=imported,
    )
