"""Late interaction: a vector for every token, and for every token of the question its nearest one in the passage
(MaxSim; ColBERT, Khattab and Zaharia 2020; ColBERTv2, Santhanam et al. 2022).

``late[model=PATH_OR_ID,of=bm25,top=200]`` orders the first `top` of another retriever; with ``of=all`` every passage is
compared, which is exact and slow. The vectors of all passages are made once and kept as float16: 256 bytes a token of
ColBERT's 128 numbers. Through the class ``MultiVectorEncoder`` of sentence-transformers; PyLate wants an older
transformers than this package."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from ragrounds.contracts import Searcher
from ragrounds.digests import code_digest
from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.specs import Spec, Value
from ragrounds.tools.cards import card_encoding, card_names, encoding_of
from ragrounds.tools.collection import Collection, map_array
from ragrounds.tools.collection_builder import Count, whole_index
from ragrounds.tools.embedders import Encoding, Vectors, check_embedder, joined
from ragrounds.tools.engine_files import IndexManifest
from ragrounds.tools.retriever import Retriever, RetrieverParameter, SearchedCorpora, member_spec, value_of
from ragrounds.tools.row_files import Row, make_rows, row_ends
from ragrounds.tools.weights import load_weights

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder

_BATCH = 32
_OWN = ("of", "top")


class LateStatistics(IndexManifest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What whole vectors of tokens say of themselves."""

    dimensions: int


class LateModel:
    """Vectors of tokens, by sentence-transformers."""

    def __init__(self, encoding: Encoding) -> None:
        numbers = {"dtype": encoding.dtype} if encoding.dtype else {}
        self._model: MultiVectorEncoder = load_weights(
            "MultiVectorEncoder", encoding.model, device=encoding.device or None, model_kwargs=numbers
        )
        self._encoding = encoding
        self._now = threading.Lock()

    def documents(self, documents: Sequence[tuple[str, str]]) -> list[Vectors]:
        """For each document, given as (title, text), a row a token: shape (tokens, dimensions)."""
        texts = [self._encoding.document_prefix + joined(*one, self._encoding.join) for one in documents]
        with self._now:
            return _finite(self._model.encode_document(texts, **self._settings()))

    def queries(self, texts: Sequence[str]) -> list[Vectors]:
        """The same of questions."""
        asked = [self._encoding.query_prefix + text for text in texts]
        with self._now:
            return _finite(self._model.encode_query(asked, **self._settings()))

    def _settings(self) -> dict[str, object]:
        return {"batch_size": self._encoding.batch or _BATCH, "show_progress_bar": False}


def _finite(made: Sequence[object]) -> list[Vectors]:
    rows: list[Vectors] = [
        np.asarray(one if isinstance(one, np.ndarray) else one.cpu().float().numpy(), np.float32)  # type: ignore[attr-defined]
        for one in made
    ]
    if not all(np.isfinite(row).all() for row in rows):
        raise UserError("The model gave vectors with values that are not finite numbers.")
    return rows


class LateSearcher:
    """Orders candidates, or all passages, by MaxSim; see :class:`ragrounds.contracts.Searcher`."""

    def __init__(
        self, collection: Collection, folder: Path, spec: Spec, model: LateModel, first: Searcher | None, top: int
    ) -> None:
        self._collection, self._model, self._first, self._top = collection, model, first, top
        self.spec = str(spec)
        self.corpus = collection.corpus
        dimensions = msgspec.json.decode((folder / "engine.json").read_bytes(), type=LateStatistics).dimensions
        self._ends = row_ends(folder, len(collection.store)).astype(np.int64)
        self._tokens: npt.NDArray[np.float16] = map_array(folder / "tokens.f16", np.float16).reshape(-1, dimensions)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order."""
        return self._collection.document(id)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best of the candidates, best first, ties to the earlier passage. An empty query finds nothing.

        Raises:
            UserError: `k` is below 1.
        """
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        if not query.strip():
            return []
        places: Sequence[int] = range(len(self._collection.store))
        if self._first is not None:
            found = [self._collection.store.find(hit.id) for hit in await self._first.search(query, max(k, self._top))]
            places = sorted({place for place in found if place is not None})
        return await asyncio.to_thread(self._ordered, query, places, k)

    def _ordered(self, query: str, places: Sequence[int], k: int) -> list[Passage]:
        (asked,) = self._model.queries([query])
        scores = [(place, self._score(asked, place)) for place in places]
        return self._collection.passages(sorted(scores, key=lambda hit: (-hit[1], hit[0]))[:k], self.spec)

    def _score(self, asked: Vectors, place: int) -> float:
        tokens = self._tokens[self._ends[place] : self._ends[place + 1]]
        if not len(tokens):
            return 0.0
        return float((asked @ tokens.astype(np.float32).T).max(axis=1).sum())


def open_late(
    collection: Collection, spec: Spec, card: Encoding | None, first: Searcher | None, progress: Count | None
) -> LateSearcher:
    """Open late interaction over a collection; the vectors of its tokens are made where they are not there.

    Raises:
        UserError: the model cannot be had.
        StopRun: the disk is full.
    """
    encoding, _ = encoding_of(Spec(spec.name, _model_part(spec)), card)
    model = LateModel(encoding)
    decisive = {key: getattr(encoding, key) for key in ("model", "document_prefix", "join", "dtype")}
    decisive["code"] = code_digest("ragrounds.tools.retrievers.late")
    described = msgspec.json.encode(decisive).decode()
    folder = collection.folder / f"late-{hashlib.blake2b(described.encode(), digest_size=6).hexdigest()}"

    def _make() -> LateStatistics:
        dimensions = model.documents([("", "x")])[0].shape[1]

        def _encoded(texts: Sequence[tuple[str, str]]) -> list[Row]:
            return [{"tokens.f16": row.astype(np.float16)} for row in model.documents(texts)]

        make_rows(collection, folder, {"tokens.f16": 2 * dimensions}, _encoded, 4 * _BATCH, progress)
        return LateStatistics(
            format=1,
            index=described,
            version=collection.manifest.version,
            passages=len(collection.store),
            dimensions=dimensions,
        )

    whole_index(collection, folder, LateStatistics, (1, described), _make)
    top: int = LATE.given(spec)["top"]
    kept = {key: value for key, value in spec.parameters.items() if key not in ("device", "batch")}
    kept["of"] = value_of(first) if first is not None else "all"
    return LateSearcher(collection, folder, Spec(spec.name, kept), model, first, top)


def _model_part(spec: Spec) -> dict[str, Value]:
    return {key: value for key, value in spec.parameters.items() if key not in _OWN}


def _names() -> list[str]:
    return card_names("late")


def _open(spec: Spec, corpora: SearchedCorpora) -> Searcher:
    LATE.check(spec)
    card = None if spec.name == LATE.name else card_encoding(spec)
    check_embedder(encoding_of(Spec(spec.name, _model_part(spec)), card)[0])
    first = None if spec.parameters.get("of") == "all" else corpora.searcher(member_spec(spec))
    return corpora.each(lambda one: open_late(one, spec, card, first, corpora.counting("embedding tokens")))


LATE = Retriever(
    name="late",
    summary="a vector for every token (ColBERT): orders the first of another retriever, or all passages",
    example="late[model=PATH_OR_ID,of=bm25,top=200]",
    open=_open,
    parameters=(
        RetrieverParameter("model", "the encoder, of sentence-transformers' kind MultiVectorEncoder"),
        RetrieverParameter("of", "the retriever whose first are ordered; all: every passage", "bm25"),
        RetrieverParameter("top", "how many of them", 200, least=1),
        RetrieverParameter("query_prefix", "text before every query"),
        RetrieverParameter("document_prefix", "text before every document"),
        RetrieverParameter("join", "title and text as sentence, sep or line", "sentence"),
        RetrieverParameter("dtype", "what the weights compute in: float32, float16 or bfloat16; empty: as they are"),
        RetrieverParameter("device", "where they compute, as cuda:0; empty: torch chooses"),
        RetrieverParameter("batch", "texts at once; 0: 32", 0),
    ),
    index="vectors of all tokens, as float16",
    cost="the model once for each query, and the other retriever",
    extra="local",
    library="sentence_transformers",
    further_names=_names,
)
