"""Embedders of sentence-transformers: weights by Hugging Face id or from a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragrounds.errors import UserError
from ragrounds.tools.embedding import Encoding, Vectors, finished, joined

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_POOLING = {"mean": "mean", "cls": "cls", "last": "lasttoken"}
_BATCH = 32


class LocalEmbedder:
    """One encoder, or one for queries and one for documents."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        one = not encoding.document_model or encoding.document_model == encoding.model
        same = one and encoding.query_length == encoding.document_length
        self._queries = load(encoding.model, encoding.pooling, encoding.query_length)
        self._documents = (
            self._queries
            if same
            else load(encoding.document_model or encoding.model, encoding.pooling, encoding.document_length)
        )

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(self._queries, [self._encoding.query_prefix + text for text in texts])

    def documents(self, documents: Sequence[tuple[str, str]]) -> Vectors:
        prefix = self._encoding.document_prefix
        if self._encoding.join == "pair":
            return self._vectors(self._documents, [[prefix + title, text] for title, text in documents])
        how = self._encoding.join
        return self._vectors(self._documents, [prefix + joined(title, text, how) for title, text in documents])

    def tokens(self, texts: Sequence[str]) -> list[Vectors]:
        model, prefix = self._queries, self._encoding.query_prefix
        found = model.encode(
            [prefix + text for text in texts],
            batch_size=_BATCH,
            show_progress_bar=False,
            output_value="token_embeddings",
            convert_to_numpy=False,
        )
        marks: list[list[int]] = model.tokenizer(
            [prefix + text for text in texts],
            truncation=True,
            max_length=model.max_seq_length,
            return_special_tokens_mask=True,
        )["special_tokens_mask"]
        rows: list[Any] = [each.cpu().float().numpy() for each in found]
        return [row[: len(mark)][[not special for special in mark]] for row, mark in zip(rows, marks, strict=True)]

    def _vectors(self, model: SentenceTransformer, texts: list[Any]) -> Vectors:
        vectors = model.encode(texts, batch_size=_BATCH, show_progress_bar=False, convert_to_numpy=True)
        return finished(vectors, self._encoding)


def load(model: str, pooling: str, length: int) -> SentenceTransformer:
    """Load weights by id or from a folder.

    Raises:
        UserError: sentence-transformers is not installed, or the weights are neither here nor to be had.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:
        raise UserError(f"The model {model!r} needs sentence-transformers: install ragrounds[local].") from None
    where = str(Path(model).expanduser()) if Path(model).expanduser().exists() else model
    try:
        if pooling == "model":
            made = SentenceTransformer(where)
            if length:
                made.max_seq_length = length
            return made
        transformer = Transformer(where, max_seq_length=length or None)
        return SentenceTransformer(
            modules=[transformer, Pooling(transformer.get_embedding_dimension(), pooling_mode=_POOLING[pooling])]
        )
    except Exception as problem:  # the hub, the network and the file formats each have errors of their own
        raise weights_missing(model, problem) from None


def weights_missing(model: str, problem: Exception) -> UserError:
    """What to say when weights cannot be loaded."""
    reason = " ".join(str(problem).split())[:200]
    return UserError(
        f"The weights {model!r} cannot be loaded ({type(problem).__name__}: {reason}). Where they cannot be "
        "downloaded, copy the folder of that Hugging Face id here and give its path in place of the id: "
        "NAME[model=/path/to/copy], and document_model=… where documents have an encoder of their own."
    )
