"""How ragas' metrics are asked for (:mod:`ragrounds.evals.scorers.ragas`): ragas' own objects with ragas' own prompts
(English) over the project's judge and embedder, its journal, its retries, its bill.

ragas takes any object of its two abstract classes, ``InstructorBaseRagasLLM`` and ``BaseRagasEmbedding``. Its own
implementation goes through Instructor, which sends a schema a second time and asks again by itself, with the error in
the prompt: such calls would be in no journal, and retried in two places. Here each prompt is ragas' own, unchanged;
the reply is read and checked, and an unusable one is asked for again as a new occurrence. Whatever ragas cannot give a
number for is missing with a reason: its NaN never meets a mean.
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
from ragrounds.base.records import Attempt, Call, Gold, Message, Passage, Question, Reply, Score, Usage, Verdict, blank
from ragrounds.evals.judges.attempts import JudgedAnswer, judge_code
from ragrounds.evals.judges.methods import JudgeMeans, judge_methods
from ragrounds.evals.judges.verdict import CUT, EMPTY, FAILED, REFUSED, TRIES, call, objects, spoken
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.ragas import ALL_METRICS, RAGAS, RagasMethod, RagasScorer
from ragrounds.evals.trace.traces import FoundPassages, searches_by
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price, embedding_price
from ragrounds.tools.index.cards import NamedEmbedder
from ragrounds.tools.index.embedders import MeteredEmbedder, joined

M = TypeVar("M", bound=BaseModel)
_FLAGS = ("verdict", "attributed", "noncommittal")
"""Fields that ragas sums or tests as 0 or 1 without looking whether they are."""


_ONE = threading.Lock()
"""A model in this process embeds for one thread at a time."""


class Unusable(Exception):
    """No usable reply after all tries; its text says what was wrong with the last one."""


class AskedJudge:
    """A judge in the form that ragas' metrics take. One metric on one answer: equal prompts are samples, each a new
    occurrence."""

    def __init__(self, judge: Model, journal: Journal, node: str, tries: int = TRIES) -> None:
        self._judge, self._journal, self._node, self._tries = judge, journal, node, tries
        self._asked: Counter[str] = Counter()
        self.calls: list[Call] = []
        self.split: list[int] = []
        """How many statements each text was broken into, in order."""

    async def agenerate(self, prompt: str, response_model: type[M]) -> M:
        """A reply of the form that is asked for.

        Raises:
            Unusable: none after all tries.
            CallFailed: a call gave no reply.
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        why = EMPTY
        for _ in range(self._tries):
            request = Request(messages=(Message("user", prompt),), occurrence=self._asked[prompt])
            self._asked[prompt] += 1
            reply = await call(self._judge, self._journal, request, self._node, self.calls)
            if reply.finish == "content_filter":
                why = REFUSED
                continue
            made, why = read(reply, response_model, self.split[-1] if self.split else None)
            if made is not None:
                parts = _parts(made)
                if parts is not None:
                    self.split.append(parts)
                return made
        raise Unusable(why)

    def generate(self, prompt: str, response_model: type[M]) -> M:
        """ragas' metrics do not use it; its abstract class has it."""
        raise NotImplementedError("only agenerate")


def read(reply: Reply, form: type[M], statements: int | None) -> tuple[M | None, str]:
    """The last JSON object of a reply that has the form, or why there is none.

    Stricter than ragas, which computes with what comes: a flag is 0 or 1, a question is not empty, and there is one
    verdict for each of the `statements` that were put to the judge.
    """
    text = spoken(reply.text)
    why = CUT if reply.finish == "length" else "no JSON object in the reply" if text.strip() else EMPTY
    for found, _ in reversed(list(objects(text))):
        try:
            made = form.model_validate(found)
        except ValidationError as error:
            first = error.errors()[0]
            if reply.finish == "length":  # what could be read is a part of an object that has no end
                continue
            why = f"not of the form: {'.'.join(map(str, first['loc']))[:60]}: {first['msg'][:80]}"
            continue
        why = _fault(made.model_dump(), statements)
        if not why:
            return made, ""
    return None, why


def _parts(made: BaseModel) -> int | None:
    """How many statements a text was broken into, where the reply is that."""
    listed: Any = getattr(made, "statements", getattr(made, "claims", None))
    return len(listed) if isinstance(listed, list) and all(isinstance(each, str) for each in listed) else None


def _fault(said: dict[str, Any], statements: int | None) -> str:
    if not str(said.get("question", "?")).strip():
        return "the question is empty"
    rows = [each for value in said.values() if isinstance(value, list) for each in value if isinstance(each, dict)]
    for row in (said, *rows):
        for name in _FLAGS:
            if row.get(name, 0) not in (0, 1):
                return f"{name} is {row[name]}: expected 0 or 1"
    verdicts = said.get("statements")
    if isinstance(verdicts, list) and len(rows) == len(verdicts) and statements not in (None, len(rows)):
        return f"verdicts on {len(rows)} of {statements} statements"
    return ""


class EmbeddingRequest(Struct, frozen=True):
    """Texts to embed, as the journal records them."""

    texts: tuple[str, ...]


class Embedded(Struct, frozen=True):
    """Their vectors, and the provider's count of tokens where it gave one."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int | None


class AskedEmbedder:
    """An embedder in the form that ragas' metrics take."""

    def __init__(self, named: NamedEmbedder, journal: Journal, node: str, prices: Mapping[str, Price]) -> None:
        self._named, self._journal, self._node, self._prices = named, journal, node, prices
        self.calls: list[Call] = []

    async def aembed_text(self, text: str, **_: Any) -> list[float]:
        """The vector of one text (:meth:`aembed_texts`)."""
        return (await self.aembed_texts([text]))[0]

    async def aembed_texts(self, texts: Sequence[str], **_: Any) -> list[list[float]]:
        """One vector a text.

        Raises:
            CallFailed: the embedder gave none.
        """
        request = EmbeddingRequest(tuple(texts))
        key = hashlib.sha256(msgspec.msgpack.encode(("embed", self._named.spec, request))).hexdigest()
        entry = Entry(key=key, kind="tool", actor=self._named.spec, request=request)
        at, start = time.time(), time.perf_counter()
        try:
            made, cached = await self._journal.once(entry, lambda: asyncio.to_thread(self._embed, request), Embedded)
        except StopRun:
            raise
        except UserError as error:
            self._record(key, at, start, error=str(error))
            raise CallFailed("embedding", str(error)) from None
        self._record(key, at, start, made, cached)
        return [list(vector) for vector in made.vectors]

    def embed_text(self, text: str, **_: Any) -> list[float]:
        """ragas' metrics do not use it; its abstract class has it."""
        raise NotImplementedError("only aembed_text")

    def _embed(self, request: EmbeddingRequest) -> Embedded:
        embedder = self._named.embedder
        if isinstance(embedder, MeteredEmbedder):
            vectors, tokens = embedder.metered(request.texts)
        else:
            with _ONE:
                vectors, tokens = embedder.queries(request.texts), 0
        return Embedded(tuple(tuple(row) for row in vectors.tolist()), tokens)

    def _record(
        self, key: str, at: float, start: float, made: Embedded | None = None, cached: bool = False, error: str = ""
    ) -> None:
        usage = Usage() if made is None else None if made.tokens is None else Usage(input=made.tokens)
        self.calls.append(
            Call(
                key=key,
                kind="tool",
                role="judging",
                node=self._node,
                actor=self._named.spec,
                at=round(at, 3),
                seconds=round(time.perf_counter() - start, 4),
                cached=cached,
                usage=usage,
                cost_uncached=self._price(made.tokens) if made else 0.0,
                error=error,
            )
        )

    def _price(self, tokens: int | None) -> float | None:
        """Dollars; a model in this process has no bill, one behind an unknown server an unknown one."""
        remote = self._named.remote
        if not remote:
            return 0.0
        return embedding_price(remote, tokens, self._prices, hosted=not self._named.encoding.base_url)


class RagasJudge(Struct, frozen=True, kw_only=True):
    """Judges answers by ragas' metrics, one score each.

    Contract: :class:`ragrounds.evals.judges.attempts.AttemptJudge`.
    """

    passages: Callable[[Attempt], Sequence[Passage]]
    """What an attempt retrieved, best first."""
    metrics: tuple[RagasScorer, ...] = RAGAS
    embedder: NamedEmbedder | None = None
    prices: Mapping[str, Price] = {}
    """The user's own, for the embedder."""
    tries: int = TRIES

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the metrics' scorers."""
        return tuple(metric.name for metric in self.metrics)

    @property
    def code(self) -> str:
        """The digest of the metrics' descriptions and of how they are computed here."""
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
            "response": attempt.text,
            "reference": gold.answer,
            "retrieved_contexts": contexts,
        }
        scores: list[Score] = []
        verdicts: list[Verdict] = []
        calls: list[Call] = []
        failed = False
        for metric in self.metrics:
            value, why = self._without(metric, attempt, gold, contexts)
            if value is None and not why:
                asked = AskedJudge(judge, journal, f"ragas/{metric.metric}", self.tries)
                vectors = None
                if metric.embedder and self.embedder:
                    vectors = AskedEmbedder(self.embedder, journal, f"ragas/{metric.metric}", self.prices)
                try:
                    value, why = await _computed(metric, asked, vectors, parts)
                except CallFailed:
                    why, failed = FAILED, True
                calls += asked.calls + (vectors.calls if vectors else [])
                verdicts.append(
                    Verdict(
                        question_id=question.id,
                        judge=judge.spec,
                        axis=metric.metric,
                        first=attempt.run,
                        outcome="" if value is None else f"{value:.4f}",
                        reason=why,
                    )
                )
                why = f"ragas: {why}" if why else ""
            scores.append(metric.scored(attempt, value, read_long(attempt), reason=why))
        return JudgedAnswer(scores=tuple(scores), verdicts=tuple(verdicts), calls=tuple(calls), failed=failed)

    def _without(
        self, metric: RagasScorer, attempt: Attempt, gold: Gold, contexts: Sequence[str]
    ) -> tuple[float | None, str]:
        """The value, or why there is none, where nobody needs to be asked; neither: somebody does."""
        read = read_long(attempt)
        if attempt.status == "not_run":
            return None, read.reason or "not run"
        if "reference" in metric.takes and not gold.answer.strip():
            return None, "the question has no reference answer"
        if "retrieved_contexts" in metric.takes and not contexts:
            return None, "the attempt retrieved no passages, or the journal does not hold them"
        if "response" in metric.takes and blank(attempt.text):
            return metric.silent, read.reason or "there is no answer"
        if metric.embedder and self.embedder is None:
            return None, "no embedder was named"
        return None, ""


def open_judge(method: RagasMethod, means: JudgeMeans) -> RagasJudge:
    """What judges attempts by the metrics of this method.

    Raises:
        UserError: ragas is not installed; no embedder for a metric that compares vectors.
    """
    installed_ragas()
    needy = [metric.name for metric in method.metrics if metric.embedder]
    if needy and means.embedder is None:
        others = sorted(
            one.scorers[0].name
            for one in judge_methods().values()
            if isinstance(one, RagasMethod) and len(one.scorers) == 1 and not one.scorers[0].embedder
        )
        raise UserError(
            f"{needy[0]} compares questions by their vectors: name an embedder, --embedder 'dense[model=…]' or a "
            f"card of `ragrounds list retrievers`, or one of {', '.join(others)} as --kind."
        )
    read: dict[str, FoundPassages] = {}

    def passages(attempt: Attempt) -> list[Passage]:
        """What an attempt retrieved, each passage once."""
        found = (passage for search in searches_by(means.store, attempt, read) for passage in search.passages)
        return list({passage.id: passage for passage in found}.values())

    return RagasJudge(passages=passages, metrics=method.metrics, embedder=means.embedder, prices=means.prices)


async def _computed(
    metric: RagasScorer, asked: AskedJudge, vectors: AskedEmbedder | None, parts: Mapping[str, Any]
) -> tuple[float | None, str]:
    """ragas' value, or why there is none.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    by = getattr(installed_ragas(), metric.ragas_class)
    made = by(llm=asked, embeddings=vectors) if metric.embedder else by(llm=asked)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a division by no length gives NaN, which is missing below
            value = float((await made.ascore(**{name: parts[name] for name in metric.takes})).value)
    except Unusable as error:
        return None, str(error)
    except ValueError as error:
        return None, f"{' '.join(str(error).split())[:200]}"
    if not math.isfinite(value):
        return None, "no value, since nothing was found to judge"
    if metric.metric == "factual_correctness" and asked.split[-1:] == [0]:
        return None, "no claims were found in the reference"
    return value, ""


def installed_ragas() -> Any:
    """ragas' metrics; nothing of ragas reports home.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read once, at ragas' first event
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that it imports
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
