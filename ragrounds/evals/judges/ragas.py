"""Calls of ragas' metrics (:mod:`ragrounds.evals.scorers.ragas`): ragas' own objects with ragas' own prompts (English)
over the project's judge and embedder, its journal, its retries, its bill.

ragas takes any object of its two abstract classes, ``InstructorBaseRagasLLM`` and ``BaseRagasEmbedding``. Its own
implementation goes through Instructor, which sends a schema a second time and asks again by itself, with the error in
the prompt: such calls would be in no journal, and retried in two places. Here each prompt is ragas' own, unchanged; the
reply is read and checked, and an unusable one is requested again as a new occurrence. Values that ragas cannot compute
are missing with a reason: its NaN never enters a mean.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from pydantic import BaseModel, ValidationError

from ragrounds.base.contracts import Entry, Journal, Model, Prompts, Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import (
    DECLINED,
    Attempt,
    Call,
    Gold,
    Message,
    Passage,
    Question,
    Reply,
    Score,
    Usage,
    Verdict,
    blank,
)
from ragrounds.base.replies import json_objects
from ragrounds.evals.judges.attempts import JudgedAnswer, judge_code
from ragrounds.evals.judges.methods import JudgeResources, judge_methods
from ragrounds.evals.judges.verdict import CUT, EMPTY, FAILED, REFUSED, TRIES, call, spoken
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.ragas import ALL_METRICS, RAGAS, RagasMethod, RagasScorer
from ragrounds.evals.trace.traces import FoundPassages, searches_by
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price, embedding_price
from ragrounds.tools.index.cards import NamedEmbedder
from ragrounds.tools.index.embedders import MeteredEmbedder, joined

M = TypeVar("M", bound=BaseModel)
_FLAGS = ("verdict", "attributed", "noncommittal")
"""Fields that ragas sums or tests as 0 or 1 without checking them."""


_EMBEDDING_LOCK = threading.Lock()
"""Lock that lets a local model embed for one thread at a time."""


class Unusable(Exception):
    """Error after all tries without a usable reply; its text says what was wrong with the last one."""


class AskedJudge:
    """Judge in the form that ragas' metrics take, for one metric on one answer.

    Equal prompts are samples, each a new occurrence.
    """

    def __init__(self, judge: Model, journal: Journal, node: str, tries: int = TRIES) -> None:
        self._judge, self._journal, self._node, self._tries = judge, journal, node, tries
        self._occurrences: Counter[str] = Counter()
        self.calls: list[Call] = []
        self.split: list[int] = []
        """Number of statements that each text was split into, in order."""

    async def agenerate(self, prompt: str, response_model: type[M]) -> M:
        """Return a reply of the requested form.

        Raises:
            Unusable: no reply was usable after all tries.
            CallFailed: a call gave no reply.
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        reason = EMPTY
        for _ in range(self._tries):
            request = Request(messages=(Message("user", prompt),), occurrence=self._occurrences[prompt])
            self._occurrences[prompt] += 1
            reply = await call(self._judge, self._journal, request, self._node, self.calls)
            if reply.finish in DECLINED:
                reason = REFUSED
                continue
            parsed, reason = read(reply, response_model, self.split[-1] if self.split else None)
            if parsed is not None:
                statement_count = _statement_count(parsed)
                if statement_count is not None:
                    self.split.append(statement_count)
                return parsed
        raise Unusable(reason)

    def generate(self, prompt: str, response_model: type[M]) -> M:
        """Raise NotImplementedError. ragas' abstract class has this method, but its metrics do not use it."""
        raise NotImplementedError("only agenerate")


def read(reply: Reply, form: type[M], statements: int | None) -> tuple[M | None, str]:
    """Return the last JSON object of a reply that has the form, or the reason why no object has it.

    The check is stricter than ragas, which computes with any reply: a flag is 0 or 1, a question is not empty, and
    there is one verdict for each of the `statements` that the judge was shown.
    """
    text = spoken(reply.text)
    reason = CUT if reply.finish == "length" else "no JSON object in the reply" if text.strip() else EMPTY
    for candidate, _, _ in reversed(list(json_objects(text))):
        try:
            parsed = form.model_validate(candidate)
        except ValidationError as error:
            first = error.errors()[0]
            if reply.finish == "length":  # the readable part belongs to an object that was cut off
                continue
            reason = f"not of the form: {'.'.join(map(str, first['loc']))[:60]}: {first['msg'][:80]}"
            continue
        reason = _form_fault(parsed.model_dump(), statements)
        if not reason:
            return parsed, ""
    return None, reason


def _statement_count(parsed: BaseModel) -> int | None:
    """Return the number of statements that a text was split into, if the reply is such a split."""
    statements: Any = getattr(parsed, "statements", getattr(parsed, "claims", None))
    return (
        len(statements)
        if isinstance(statements, list) and all(isinstance(statement, str) for statement in statements)
        else None
    )


def _form_fault(fields: dict[str, Any], statements: int | None) -> str:
    if not str(fields.get("question", "?")).strip():
        return "the question is empty"
    rows = [row for value in fields.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    for row in (fields, *rows):
        for name in _FLAGS:
            if row.get(name, 0) not in (0, 1):
                return f"{name} is {row[name]}: expected 0 or 1"
    verdicts = fields.get("statements")
    if isinstance(verdicts, list) and len(rows) == len(verdicts) and statements not in (None, len(rows)):
        return f"verdicts on {len(rows)} of {statements} statements"
    return ""


class EmbeddingRequest(Struct, frozen=True):
    """Texts to embed, as the journal records them."""

    texts: tuple[str, ...]


class Embedded(Struct, frozen=True):
    """Vectors of texts, and the provider's count of tokens if it gave one."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class AskedEmbedder:
    """Embedder in the form that ragas' metrics take."""

    def __init__(self, named_embedder: NamedEmbedder, journal: Journal, node: str, prices: Mapping[str, Price]) -> None:
        self._embedder, self._journal, self._node, self._prices = named_embedder, journal, node, prices
        self.calls: list[Call] = []

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
        self.calls.append(
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


class RagasJudge(Struct, frozen=True, kw_only=True):
    """Judge of answers by ragas' metrics, one score for each metric.

    Contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`.
    """

    passages: Callable[[Attempt], Sequence[Passage]]
    """Function that returns the passages an attempt retrieved, best first."""
    metrics: tuple[RagasScorer, ...] = RAGAS
    embedder: NamedEmbedder | None = None
    prices: Mapping[str, Price] = {}
    """User's own prices for the embedder."""
    tries: int = TRIES

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the metrics' scorers."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def code(self) -> str:
        """Digest of the metrics' descriptions and of their computation here."""
        return judge_code(ALL_METRICS)

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Compute every metric that the attempt has the parts for.

        Raises:
            UserError: ragas is not installed.
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        contexts = [joined(passage.title, passage.text, "sentence") for passage in self.passages(attempt)]
        parts = {
            "user_input": question.text,
            "response": answer_text(attempt, question),
            "reference": gold.answer,
            "retrieved_contexts": contexts,
        }
        scores: list[Score] = []
        verdicts: list[Verdict] = []
        calls: list[Call] = []
        failed = False
        for metric in self.metrics:
            value, reason = self._value_without_judge(metric, attempt, gold, contexts)
            if value is None and not reason:
                asked_judge = AskedJudge(judge, journal, f"ragas/{metric.metric}", self.tries)
                asked_embedder = None
                if metric.embedder and self.embedder:
                    asked_embedder = AskedEmbedder(self.embedder, journal, f"ragas/{metric.metric}", self.prices)
                try:
                    value, reason = await _compute(metric, asked_judge, asked_embedder, parts)
                except CallFailed:
                    reason, failed = FAILED, True
                calls += asked_judge.calls + (asked_embedder.calls if asked_embedder else [])
                verdicts.append(
                    Verdict(
                        question_id=question.id,
                        judge=judge.spec,
                        axis=metric.metric,
                        first=attempt.run,
                        outcome="" if value is None else f"{value:.4f}",
                        reason=reason,
                    )
                )
                reason = f"ragas: {reason}" if reason else ""
            scores.append(metric.scored(attempt, value, read_long(attempt), reason=reason))
        return JudgedAnswer(scores=tuple(scores), verdicts=tuple(verdicts), calls=tuple(calls), failed=failed)

    def _value_without_judge(
        self, metric: RagasScorer, attempt: Attempt, gold: Gold, contexts: Sequence[str]
    ) -> tuple[float | None, str]:
        """Return the value, or the reason why it is missing, if the judge need not be asked; neither if it must be."""
        reading = read_long(attempt)
        if attempt.status == "not_run":
            return None, reading.reason or "not run"
        if "reference" in metric.takes and not gold.answer.strip():
            return None, "the question has no reference answer"
        if "retrieved_contexts" in metric.takes and not contexts:
            return None, "the attempt retrieved no passages, or the journal does not hold them"
        if "response" in metric.takes and blank(answer_text(attempt)):
            return metric.silent, reading.reason or "there is no answer"
        if metric.embedder and self.embedder is None:
            return None, "no embedder was named"
        return None, ""


def open_judge(method: RagasMethod, means: JudgeResources) -> RagasJudge:
    """Return the judge of attempts by the metrics of this method.

    Raises:
        UserError: ragas is not installed; a metric that compares vectors has no embedder.
    """
    installed_ragas()
    needy = [metric.name for metric in method.metrics if metric.embedder]
    if needy and means.embedder is None:
        alternatives = sorted(
            candidate.scorers[0].name
            for candidate in judge_methods().values()
            if isinstance(candidate, RagasMethod) and len(candidate.scorers) == 1 and not candidate.scorers[0].embedder
        )
        raise UserError(
            f"{needy[0]} compares questions by their vectors: name an embedder, --embedder 'dense[model=…]' or a "
            f"card of `ragrounds list retrievers`, or one of {', '.join(alternatives)} as --kind."
        )
    read_passages: dict[str, FoundPassages] = {}

    def passages(attempt: Attempt) -> list[Passage]:
        """Return the passages that an attempt retrieved, each once."""
        retrieved = (
            passage for search in searches_by(means.store, attempt, read_passages) for passage in search.passages
        )
        return list({passage.id: passage for passage in retrieved}.values())

    return RagasJudge(passages=passages, metrics=method.metrics, embedder=means.embedder, prices=means.prices)


async def _compute(
    metric: RagasScorer, asked_judge: AskedJudge, vectors: AskedEmbedder | None, parts: Mapping[str, Any]
) -> tuple[float | None, str]:
    """Return ragas' value, or the reason why it is missing.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    metric_class = getattr(installed_ragas(), metric.ragas_class)
    ragas_metric = (
        metric_class(llm=asked_judge, embeddings=vectors) if metric.embedder else metric_class(llm=asked_judge)
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a division by length 0 gives NaN, which is missing below
            value = float((await ragas_metric.ascore(**{name: parts[name] for name in metric.takes})).value)
    except Unusable as error:
        return None, str(error)
    except ValueError as error:
        return None, f"{' '.join(str(error).split())[:200]}"
    if not math.isfinite(value):
        return None, "no value, since nothing was found to judge"
    if metric.metric == "factual_correctness" and asked_judge.split[-1:] == [0]:
        return None, "no claims were found in the reference"
    return value, ""


def installed_ragas() -> Any:
    """Return ragas' metrics, with ragas' usage tracking switched off.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read once, at ragas' first event
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of the libraries that ragas imports
            from ragas.embeddings.base import BaseRagasEmbedding
            from ragas.llms.base import InstructorBaseRagasLLM
            from ragas.metrics import collections
    except ImportError as error:
        raise UserError(
            f"ragas' figures need ragas ({error}): install ragrounds[ragas], best in an environment of its own, since "
            "it holds other packages back."
        ) from None
    InstructorBaseRagasLLM.register(AskedJudge)
    BaseRagasEmbedding.register(AskedEmbedder)
    return collections
