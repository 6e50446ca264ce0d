"""Learned sparse retrieval: a model weights the words of its vocabulary, in passages and in questions (SPLADE, Formal
et al. 2021 and 2022).

``sparse[model=PATH_OR_ID]`` or a card, through the class ``SparseEncoder`` of sentence-transformers. A passage's score
is the inner product of the two vectors, over all passages: exact. The weights lie on disk by word, memory-mapped."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.contracts import Searcher
from ragrounds.digests import code_digest
from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.cards import card_encoding, card_names, encoding_of
from ragrounds.tools.collection import Collection, CollectionSearcher, map_array
from ragrounds.tools.collection_builder import Count, whole_index
from ragrounds.tools.embedders import Encoding, check_embedder, joined
from ragrounds.tools.engine_files import IndexManifest
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora
from ragrounds.tools.row_files import Row, make_rows, row_ends
from ragrounds.tools.weights import load_weights

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

Weights = npt.NDArray[np.float32]
_BATCH = 32
_AT_ONCE = 1 << 22
"""Weights that are sorted by word at once."""


class SparseStatistics(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What whole sparse vectors say of themselves."""

    words: int
    """Of the model's vocabulary."""


class SparseModel:
    """Weights of words, by sentence-transformers."""

    def __init__(self, encoding: Encoding) -> None:
        numbers = {"dtype": encoding.dtype} if encoding.dtype else {}
        self._model: SparseEncoder = load_weights(
            "SparseEncoder", encoding.model, device=encoding.device or None, model_kwargs=numbers
        )
        if encoding.document_length:
            self._model.max_seq_length = encoding.document_length
        self._encoding = encoding
        self._now = threading.Lock()
        self.words = int(self._model.encode_document(["x"], show_progress_bar=False).shape[1])
        """Of the vocabulary; the model's own dimension is not it for every model."""

    def documents(self, documents: Sequence[tuple[str, str]]) -> list[Row]:
        """The words of documents given as (title, text), with their weights."""
        texts = [self._encoding.document_prefix + joined(*one, self._encoding.join) for one in documents]
        with self._now:
            return _rows(self._model.encode_document(texts, **self._settings()), len(texts))

    def queries(self, texts: Sequence[str]) -> list[Row]:
        """The words of questions, with their weights."""
        asked = [self._encoding.query_prefix + text for text in texts]
        with self._now:
            return _rows(self._model.encode_query(asked, **self._settings()), len(asked))

    def _settings(self) -> dict[str, object]:
        return {"batch_size": self._encoding.batch or _BATCH, "show_progress_bar": False, "save_to_cpu": True}


def _rows(made: object, count: int) -> list[Row]:
    """Rows of a sparse tensor of shape (texts, words)."""
    tensor = made.coalesce()  # type: ignore[attr-defined]
    (text, word), weight = tensor.indices().numpy(), tensor.values().float().numpy()
    if not np.isfinite(weight).all():
        raise UserError("The model gave weights that are not finite numbers.")
    ends = np.searchsorted(text, np.arange(count + 1))
    return [
        {"words.u32": word[a:b].astype(np.uint32), "weights.f32": weight[a:b].astype(np.float32)}
        for a, b in pairwise(ends.tolist())
    ]


def open_sparse(collection: Collection, spec: Spec, card: Encoding | None, progress: Count | None) -> SparseSearcher:
    """Open sparse retrieval over a collection; the weights are made where they are not there.

    Raises:
        UserError: the model cannot be had.
        StopRun: the disk is full.
    """
    encoding, _ = encoding_of(spec, card)
    model = SparseModel(encoding)
    decisive = {key: getattr(encoding, key) for key in ("model", "document_prefix", "document_length", "join", "dtype")}
    decisive["code"] = code_digest("ragrounds.tools.retrievers.sparse")
    described = msgspec.json.encode(decisive).decode()
    folder = collection.folder / f"sparse-{hashlib.blake2b(described.encode(), digest_size=6).hexdigest()}"

    def _make() -> SparseStatistics:
        make_rows(collection, folder, {"words.u32": 4, "weights.f32": 4}, model.documents, 8 * _BATCH, progress)
        _by_word(folder, len(collection.store), model.words)
        return SparseStatistics(
            format=1,
            index=described,
            version=collection.manifest.version,
            passages=len(collection.store),
            words=model.words,
        )

    whole_index(collection, folder, SparseStatistics, (1, described), _make)
    kept = {key: value for key, value in spec.parameters.items() if key not in ("device", "batch")}
    return SparseSearcher(collection, folder, str(Spec(spec.name, kept)), model)


def _by_word(folder: Path, passages: int, words: int) -> None:
    """Sort the weights by word, in parts that fit into memory."""
    ends = row_ends(folder, passages)
    word, weight = map_array(folder / "words.u32", np.uint32), map_array(folder / "weights.f32", np.float32)
    count = np.zeros(words + 1, dtype=np.int64)
    for start in range(0, len(word), _AT_ONCE):
        count[1:] += np.bincount(word[start : start + _AT_ONCE], minlength=words)
    starts = np.cumsum(count)
    if len(word):
        passage = np.memmap(folder / "passages.u32", dtype=np.uint32, mode="w+", shape=(len(word),))
        impact = np.memmap(folder / "impacts.f32", dtype=np.float32, mode="w+", shape=(len(word),))
        free = starts[:-1].copy()
        for start in range(0, len(word), _AT_ONCE):
            part = word[start : start + _AT_ONCE]
            order = np.argsort(part, kind="stable")
            ordered = part[order]
            first = np.searchsorted(ordered, ordered, side="left")
            place = free[ordered] + np.arange(len(ordered)) - first
            passage[place] = np.searchsorted(ends, start + order, side="right") - 1
            impact[place] = weight[start : start + _AT_ONCE][order]
            free += np.bincount(part, minlength=words)
        passage.flush()
        impact.flush()
    else:
        (folder / "passages.u32").touch()
        (folder / "impacts.f32").touch()
    starts.astype(np.uint64).tofile(folder / "starts.u64")
    for name in ("words.u32", "weights.f32", "ends.u64"):
        (folder / name).unlink()


class SparseSearcher(CollectionSearcher):
    """Searches one collection by weighted words: those that share none are not found."""

    def __init__(self, collection: Collection, folder: Path, spec: str, model: SparseModel) -> None:
        super().__init__(collection, spec)
        self._model = model
        self._starts = map_array(folder / "starts.u64", np.uint64).astype(np.int64)
        self._passages = map_array(folder / "passages.u32", np.uint32)
        self._impacts = map_array(folder / "impacts.f32", np.float32)

    def hits(self, queries: list[str], k: int) -> list[list[tuple[int, float]]]:
        """The passages with the greatest inner products."""
        return [self._best(row, k) for row in self._model.queries(queries)]

    def _best(self, row: Row, k: int) -> list[tuple[int, float]]:
        scores: Weights = np.zeros(len(self._collection.store), dtype=np.float32)
        for word, weight in zip(row["words.u32"].tolist(), row["weights.f32"].tolist(), strict=True):
            here = slice(self._starts[word], self._starts[word + 1])
            scores[self._passages[here]] += np.float32(weight) * self._impacts[here]
        return best_positions(scores, k)


def best_positions(scores: Weights, k: int) -> list[tuple[int, float]]:
    """The `k` greatest scores above 0 with their positions, ties to the earlier one."""
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= max(least, np.nextafter(np.float32(0), np.float32(1))))
    else:
        chosen = np.flatnonzero(scores > 0)
    order = chosen[np.lexsort((chosen, -scores[chosen]))][:k]
    return [(int(place), float(scores[place])) for place in order]


def _names() -> list[str]:
    return card_names("sparse")


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    SPARSE.check(spec)
    card = None if spec.name == SPARSE.name else card_encoding(spec)
    check_embedder(encoding_of(spec, card)[0])
    return corpora.each(lambda one: open_sparse(one, spec, card, corpora.counting("weighting words")))


SPARSE = Retriever(
    name="sparse",
    summary="learned weights of words (SPLADE): a Hugging Face id, a folder, or a card",
    example="sparse[model=PATH_OR_ID]",
    open=_open,
    parameters=(
        RetrieverParameter("model", "the encoder, of sentence-transformers' kind SparseEncoder"),
        RetrieverParameter("query_prefix", "text before every query"),
        RetrieverParameter("document_prefix", "text before every document"),
        RetrieverParameter("document_length", "tokens of a text; 0: the model's limit", 0),
        RetrieverParameter("join", "title and text as sentence, sep or line", "sentence"),
        RetrieverParameter("dtype", "what the weights compute in: float32, float16 or bfloat16; empty: as they are"),
        RetrieverParameter("device", "where they compute, as cuda:0; empty: torch chooses"),
        RetrieverParameter("batch", "texts at once; 0: 32", 0),
    ),
    index="the weights of all passages, by word",
    cost="the model once for each query",
    extra="local",
    library="sentence_transformers",
    further_names=_names,
)
