"""Embedders: texts in, vectors out. Queries and documents may have different encoders, prefixes and lengths.

What a model is given as:

* a card's name (``medcpt``, ``bge-large-en``: `ragrounds retrievers`), which sets everything below;
* a Hugging Face id or a folder, for sentence-transformers (extra ``dense``);
* ``openai:MODEL``, any server with OpenAI's API (``base_url=…``; the key is OPENAI_API_KEY);
* ``import:package.module:name``, a LangChain ``Embeddings`` object or something that makes one when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.errors import UserError

Vectors = npt.NDArray[np.float32]
Metric = Literal["ip", "cosine", "l2"]
Pooling = Literal["mean", "cls", "last", "model"]


class Encoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How texts become vectors; with the model's revision this is an embedder's identity."""

    model: str
    document_model: str = ""
    """Empty: documents go through `model` too."""
    pooling: Pooling = "model"
    """``model``: as the weights' own configuration says."""
    metric: Metric = "cosine"
    """Inner product, cosine, or squared Euclidean distance, of which the smaller is the better."""
    normalise: bool = False
    query_prefix: str = ""
    document_prefix: str = ""
    query_length: int = 0
    """Tokens; 0: the model's own limit."""
    document_length: int = 0
    join: Literal["pair", "sentence", "sep", "line"] = "sentence"
    """A document's title and text: as a pair of inputs, as ``title. text`` (MedRAG), with ``[SEP]`` between, or on two
    lines."""
    dimensions: int = 0
    """Matryoshka: only so many of the first numbers are kept, and normalised anew; 0: all."""
    base_url: str = ""


class Embedder(Protocol):
    """Turns texts into vectors, one row a text, float32."""

    def queries(self, texts: Sequence[str]) -> Vectors: ...

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        """Of titles and texts."""


@runtime_checkable
class Metered(Protocol):
    """An embedder whose provider counts tokens."""

    def metered(self, texts: Sequence[str]) -> tuple[Vectors, int | None]:
        """The vectors of `texts` as queries, and the provider's count of tokens; ``None``: it gave none."""


@runtime_checkable
class Tokenwise(Protocol):
    """An embedder that also gives the vectors of a text's tokens, each in its context."""

    def tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """For each text as a query a row a token, without those that mark its beginning and end."""


def joined(title: str, text: str, how: str) -> str:
    """A document as one text."""
    if not title:
        return text
    if how == "sep":
        return f"{title} [SEP] {text}"
    if how == "line":
        return f"{title}\n{text}"
    return f"{title}{' ' if title.endswith(('.', '?', '!')) else '. '}{text}"


def finished(vectors: Any, encoding: Encoding) -> Vectors:
    """Vectors cut to their first dimensions and normalised, where the encoding says so.

    Raises:
        UserError: they have fewer dimensions than asked for, or are not numbers.
    """
    made: Vectors = np.ascontiguousarray(np.atleast_2d(np.asarray(vectors, dtype=np.float32)))
    if encoding.dimensions:
        if made.shape[1] < encoding.dimensions:
            raise UserError(
                f"{encoding.model!r} gives {made.shape[1]} dimensions: cannot keep {encoding.dimensions} of them."
            )
        made = np.ascontiguousarray(made[:, : encoding.dimensions])
    if not np.isfinite(made).all():
        raise UserError(f"{encoding.model!r} gave vectors with values that are not finite numbers.")
    if encoding.normalise or encoding.metric == "cosine":
        norms = np.linalg.norm(made, axis=1, keepdims=True)
        made /= np.where(norms > 0, norms, 1)
    return made


@lru_cache(maxsize=2)
def open_embedder(encoding: Encoding) -> Embedder:
    """Load what an encoding names; the last two stay loaded, for retrievers that share a model.

    Raises:
        UserError: what it needs is not installed, or the weights cannot be had.
    """
    if encoding.model.startswith("openai:"):
        from ragrounds.tools.embedding_remote import OpenAIEmbedder

        return OpenAIEmbedder(encoding)
    if encoding.model.startswith("import:"):
        from ragrounds.tools.embedding_remote import ImportedEmbedder

        return ImportedEmbedder(encoding)
    from ragrounds.tools.embedding_local import LocalEmbedder

    return LocalEmbedder(encoding)
