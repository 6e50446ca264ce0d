"""Reranking: ``rerank[of=bm25,model=monobert,top=100]`` puts the first `top` passages into a model's order.

The passages behind the first `top` follow in the order they had. `model` is a card, a Hugging Face id, or a folder: a
cross-encoder, or with ``late=true``, and for ``colbertv2``, an encoder of tokens, by whose vectors a passage scores for
every token of the query its nearest one (MaxSim; ColBERT, Khattab and Zaharia 2020).
"""

from __future__ import annotations

import asyncio
import threading
from typing import Protocol

import msgspec
import numpy as np

from ragrounds.base.contracts import Searcher
from ragrounds.base.errors import UserError
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec, Value
from ragrounds.tools.index.cards import cards
from ragrounds.tools.index.embedders import joined
from ragrounds.tools.index.weights import load_weights
from ragrounds.tools.merged import passages_of
from ragrounds.tools.retriever import (
    Retriever,
    RetrieverParameter,
    SearchedCorpora,
    member_spec,
    value_of,
)

_BATCH = 32


class PairScorer(Protocol):
    """Scorer of texts by their relevance to a query. A higher score is better."""

    def __call__(self, query: str, texts: list[str]) -> list[float]: ...


class RerankedSearcher:
    """Searcher whose first passages are put into a model's order."""

    def __init__(self, spec: Spec, searcher: Searcher, scorer: PairScorer) -> None:
        self._searcher = searcher
        self._scorer = scorer
        self._top: int = RERANK.values_in(spec)["top"]
        parameters: dict[str, Value] = {**spec.parameters, "of": value_of(searcher), "top": self._top}
        self.corpus = searcher.corpus
        self.spec = str(Spec("rerank", parameters))
        self._lock = threading.Lock()

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, if the inner retriever can return them."""
        return passages_of(id, [self._searcher])

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages with the model's scores.

        The passages behind the first `top`, which the model did not score, follow in their order with scores below its
        lowest.
        """
        passages = await self._searcher.search(query, max(k, self._top))
        first, rest = passages[: self._top], passages[self._top :]
        if not first:
            return []

        def score_first() -> list[float]:
            with self._lock:
                return self._scorer(query, [joined(passage.title, passage.text, "sentence") for passage in first])

        scores = await asyncio.to_thread(score_first)
        ordered = sorted(zip(first, scores, strict=True), key=lambda hit: (-hit[1], hit[0].rank))
        lowest = ordered[-1][1]
        hits = ordered + [(passage, lowest - number) for number, passage in enumerate(rest, 1)]
        return [
            msgspec.structs.replace(passage, score=score, rank=rank, retriever=self.spec)
            for rank, (passage, score) in enumerate(hits[:k], 1)
        ]


class CrossEncoderScorer:
    """Scorer by a cross-encoder of sentence-transformers.

    If a model has two outputs (MonoBERT), the second, relevant, counts.
    """

    def __init__(self, model: str, length: int) -> None:
        self._model = load_weights("CrossEncoder", model, max_length=length or None)

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        pairs = [(query, text) for text in texts]
        scores = np.asarray(self._model.predict(pairs, batch_size=_BATCH, show_progress_bar=False), dtype=np.float64)
        if scores.ndim == 2:
            scores = scores[:, -1] - scores[:, 0] if scores.shape[1] > 1 else scores[:, 0]
        return [float(score) for score in scores]


class LateScorer:
    """Scorer by MaxSim over a token encoder of sentence-transformers."""

    def __init__(self, model: str) -> None:
        self._model = load_weights("MultiVectorEncoder", model)

    def __call__(self, query: str, texts: list[str]) -> list[float]:
        query_rows, *rows = (
            np.asarray(row.cpu().float() if hasattr(row, "cpu") else row, np.float32)  # of whatever precision
            for encode, batch in ((self._model.encode_query, [query]), (self._model.encode_document, texts))
            for row in encode(batch, batch_size=_BATCH, show_progress_bar=False)
        )
        scores = [float((query_rows @ row.T).max(axis=1).sum()) if len(row) else 0.0 for row in rows]
        if not np.isfinite(scores).all():
            raise UserError("The model gave vectors with values that are not finite numbers.")
        return scores


def scorer_of(spec: Spec) -> PairScorer:
    """Load the model that a ``rerank[…]`` spec names.

    Raises:
        UserError: the spec names no model, or the model is not available.
    """
    parameters = RERANK.values_in(spec)
    model = parameters["model"]
    if not isinstance(model, str):
        raise UserError(f"{str(spec)!r} names no model: rerank[of=bm25,model=monobert], say, or a folder.")
    card = cards().get(model)
    if card is not None and card.kind not in ("reranker", "late"):
        raise UserError(f"{model!r} is no reranker: see `ragrounds list retrievers`.")
    weights = card.encoding.model if card is not None else model
    late = parameters["late"] or (card is not None and card.kind == "late")
    return LateScorer(weights) if late else CrossEncoderScorer(weights, parameters["length"])


def _open(spec: Spec, corpora: SearchedCorpora) -> RerankedSearcher:
    RERANK.values_in(spec)  # an error in the spec is raised before anything is built or loaded
    scorer = scorer_of(spec)
    return RerankedSearcher(spec, corpora.searcher(member_spec(spec)), scorer)


RERANK = Retriever(
    name="rerank",
    summary="a cross-encoder, or ColBERT, over the first passages of another retriever",
    example="rerank[of=bm25,model=monobert,top=100]",
    open=_open,
    parameters=(
        RetrieverParameter("of", "the retriever inside", "bm25"),
        RetrieverParameter("model", "a reranker's card, a Hugging Face id, or a folder"),
        RetrieverParameter("top", "passages that are reranked", 100, least=1),
        RetrieverParameter("length", "tokens of query and passage together", 512, least=0),
        RetrieverParameter("late", "the model gives a vector for every token (ColBERT)", False),
    ),
    cost="a search by the retriever inside, and the model once for each of the first passages",
    extra="local",
    library="sentence_transformers",
)
