"""Judging of attempts by measures: the texts that each needs, the judge and embedder that it asks, and its score.

:mod:`ragrounds.evals.judges.grounding` and :mod:`ragrounds.evals.judges.ragas` compute the measures. A value that
cannot be computed is missing with a reason.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import Struct

from ragrounds.base.contracts import Entry, Journal, Model, Prompts
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Attempt, Call, Gold, Passage, Question, Score, Usage, Verdict, blank
from ragrounds.evals.judges.attempts import JudgedAnswer, judge_code
from ragrounds.evals.judges.claims import imported_passages, reference_of
from ragrounds.evals.judges.methods import JudgeResources
from ragrounds.evals.judges.verdict import FAILED
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.measures import MeasureMethod, MeasureScorer
from ragrounds.evals.trace.traces import FoundPassages, searches_by
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price, embedding_price
from ragrounds.tools.index.cards import NamedEmbedder
from ragrounds.tools.index.embedders import MeteredEmbedder, joined

_EMBEDDING_LOCK = threading.Lock()
"""Lock that lets a local model embed for one thread at a time."""


class EmbeddingRequest(Struct, frozen=True):
    """Texts to embed, as the journal records them."""

    texts: tuple[str, ...]


class Embedded(Struct, frozen=True):
    """Vectors of texts, and the provider's count of tokens if it gave one."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class AskedEmbedder:
    """Embedder whose calls are journaled, in the form that ragas' metrics take."""

    def __init__(
        self,
        named_embedder: NamedEmbedder,
        journal: Journal,
        node: str,
        prices: Mapping[str, Price],
        calls: list[Call],
    ) -> None:
        self._embedder, self._journal, self._node, self._prices = named_embedder, journal, node, prices
        self._calls = calls

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """Return the vector of one text (:meth:`aembed_texts`)."""
        return (await self.aembed_texts([text]))[0]

    async def aembed_texts(self, texts: Sequence[str], **_: Any) -> list[list[float]]:
        """Return one vector for each text.

        Raises:
            CallFailed: the embedder returned no vectors.
        """
        request = EmbeddingRequest(tuple(texts))
        key = hashlib.sha256(msgspec.msgpack.encode(("embed", self._embedder.spec, request))).hexdigest()
        entry = Entry(key=key, kind="tool", actor=self._embedder.spec, request=request)
        started_at, start = time.time(), time.perf_counter()
        try:
            embedded, cached = await self._journal.once(
                entry, lambda: asyncio.to_thread(self._embed, request), Embedded
            )
        except StopRun:
            raise
        except UserError as error:
            self._record(key, started_at, start, error=str(error))
            raise CallFailed("embedding", str(error)) from None
        self._record(key, started_at, start, embedded, cached)
        return [list(vector) for vector in embedded.vectors]

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """Raise NotImplementedError. ragas' abstract class has this method, but its metrics do not use it."""
        raise NotImplementedError("only aembed_text")

    def _embed(self, request: EmbeddingRequest) -> Embedded:
        embedder = self._embedder.embedder
        if isinstance(embedder, MeteredEmbedder):
            vectors, tokens = embedder.metered(request.texts)
        else:
            with _EMBEDDING_LOCK:
                vectors, tokens = embedder.queries(request.texts), 0
        return Embedded(tuple(tuple(row) for row in vectors.tolist()), tokens)

    def _record(
        self,
        key: str,
        started_at: float,
        start: float,
        embedded: Embedded | None = None,
        cached: bool = False,
        error: str = "",
    ) -> None:
        usage = Usage() if embedded is None else None if embedded.tokens is None else Usage(input=embedded.tokens)
        self._calls.append(
            Call(
                key=key,
                kind="tool",
                role="judging",
                node=self._node,
                actor=self._embedder.spec,
                at=round(started_at, 3),
                seconds=round(time.perf_counter() - start, 4),
                cached=cached,
                usage=usage,
                cost_uncached=self._price(embedded.tokens) if embedded else 0.0,
                error=error,
            )
        )

    def _price(self, tokens: int | None) -> float | None:
        """Return dollars: 0 for a local model, ``None`` for a model behind an unknown server."""
        remote = self._embedder.remote
        if not remote:
            return 0.0
        return embedding_price(remote, tokens, self._prices, hosted=not self._embedder.encoding.base_url)


class MeasureInputs(TypedDict):
    """Texts of one attempt that measures are computed from, by ragas' names."""

    user_input: str
    response: str
    reference: str
    retrieved_contexts: Sequence[str]


class MeasureContext(Struct, frozen=True, kw_only=True):
    """Judge and embedder that one measure of one attempt asks, and the calls that it has made."""

    question: Question
    gold: Gold
    judge: Model
    journal: Journal
    prompts: Prompts
    node: str
    embedder: AskedEmbedder | None
    calls: list[Call]


class MeasureValue(Struct, frozen=True):
    """Value of a measure, or the reason why it is missing."""

    value: float | None
    reason: str = ""
    record: str = ""
    """Verdicts that it was computed from, as JSON."""


class MeasureJudge(Struct, frozen=True, kw_only=True):
    """Judge of answers by measures, one score for each.

    Contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`.
    """

    method: MeasureMethod
    passages: Callable[[Attempt], Sequence[Passage]]
    """Function that returns the passages an attempt retrieved, best first."""
    embedder: NamedEmbedder | None = None
    prices: Mapping[str, Price] = {}
    """User's own prices for the embedder."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the measures' scorers."""
        return tuple(scorer.name for scorer in self.method.scorers)

    @property
    def code(self) -> str:
        """Digest of the measures' descriptions, of their prompts and of their computation."""
        return judge_code(self.method)

    async def compute(self, scorer: MeasureScorer, inputs: MeasureInputs, context: MeasureContext) -> MeasureValue:
        """Return the value of one measure; its reason is :data:`FAILED` if a call gave no reply.

        Raises:
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        raise NotImplementedError

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Compute every measure that the attempt has the parts for.

        Raises:
            UserError: a package that computes a measure is not installed.
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        inputs: MeasureInputs = {
            "user_input": question.text,
            "response": answer_text(attempt, question),
            "reference": reference_of(question, gold)[0],
            "retrieved_contexts": [
                joined(passage.title, passage.text, "sentence") for passage in self.passages(attempt)
            ],
        }
        scores: list[Score] = []
        verdicts: list[Verdict] = []
        calls: list[Call] = []
        for scorer in self.method.scorers:
            measured = self._measured_without_judge(scorer, attempt, inputs)
            if measured is None:
                node, embedder = f"{scorer.judging}/{scorer.name}", None
                if scorer.embedder and self.embedder:
                    embedder = AskedEmbedder(self.embedder, journal, node, self.prices, calls)
                measured = await self.compute(
                    scorer,
                    inputs,
                    MeasureContext(
                        question=question,
                        gold=gold,
                        judge=judge,
                        journal=journal,
                        prompts=prompts,
                        node=node,
                        embedder=embedder,
                        calls=calls,
                    ),
                )
                verdicts.append(
                    Verdict(
                        question_id=question.id,
                        judge=judge.spec,
                        axis=scorer.name,
                        first=attempt.run,
                        outcome="" if measured.value is None else f"{measured.value:.4f}",
                        reason="" if measured.value is not None else measured.reason,
                    )
                )
            scores.append(scorer.scored(attempt, measured.value, read_long(attempt), measured.record, measured.reason))
        failed = any(verdict.reason == FAILED for verdict in verdicts)
        return JudgedAnswer(scores=tuple(scores), verdicts=tuple(verdicts), calls=tuple(calls), failed=failed)

    def _measured_without_judge(
        self, scorer: MeasureScorer, attempt: Attempt, inputs: MeasureInputs
    ) -> MeasureValue | None:
        """Return the value, or the reason why it is missing, if the judge need not be asked; ``None`` if it must be."""
        reading = read_long(attempt)
        if attempt.status == "not_run":
            return MeasureValue(None, reading.reason or "not run")
        if "reference" in scorer.takes and not inputs["reference"].strip():
            return MeasureValue(None, "the question has no reference answer")
        if "retrieved_contexts" in scorer.takes and not inputs["retrieved_contexts"]:
            return MeasureValue(None, "the attempt retrieved no passages, or the journal does not hold them")
        if "response" in scorer.takes and blank(answer_text(attempt)):
            return MeasureValue(scorer.silent, reading.reason or "there is no answer")
        return None


def measure_resources(method: MeasureMethod, means: JudgeResources) -> dict[str, Any]:
    """Return the arguments of a :class:`MeasureJudge` by this method.

    Raises:
        UserError: a measure that compares vectors has no embedder.
    """
    needy = [scorer.name for scorer in method.scorers if scorer.embedder]
    if needy and means.embedder is None:
        raise UserError(
            f"{needy[0]} compares questions by their vectors: name an embedder, --embedder 'dense[model=…]' or a "
            "card of `ragrounds list retrievers`, or judge by another --kind."
        )
    read_passages: dict[str, FoundPassages] = {}

    def passages(attempt: Attempt) -> list[Passage]:
        """Return the passages that an attempt retrieved, each once."""
        retrieved = (
            passage for search in searches_by(means.store, attempt, read_passages) for passage in search.passages
        )
        return list({passage.id: passage for passage in retrieved}.values()) or imported_passages(attempt)

    return {"method": method, "passages": passages, "embedder": means.embedder, "prices": means.prices}
