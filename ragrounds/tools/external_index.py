"""The shared ground of retrievers over an index that somebody else keeps: pgvector, Chroma, LanceDB, OpenSearch …

An adapter is one :class:`ExternalEngine`: it reaches the server by its official client, with plain blocking calls.
:class:`ExternalSearcher` does the rest for all of them: queries become vectors by an embedder of ours (``embed=…``),
fields become passages (:class:`~ragrounds.tools.external_parameters.FieldMap`), calls run in a few threads over the
client's pooled connections, faults that pass are met with a bounded number of tries, and every other error becomes one
line without keys.

**Addresses and keys.** A spec is an identity: it stands in tables, stores and reports, so no key stands in it.
``url=…`` may name a user, never a password. ``url_env=NAME`` names the environment variable that holds the whole
address, ``key_env=NAME`` the one that holds the key.

**Corpus.** An index of somebody else's has no content hash that could be had without reading all of it. The version is
a digest of the number of its passages and of a sample of their ids and texts, in the order of the ids: all of them up
to :data:`SAMPLED` passages, beyond that as many as the engine can give in a stable order. It is read whenever the
searcher is opened, so also when a run resumes. A change that leaves the number and every sampled passage as they were
is not seen: ``version=…`` names the version in place of the digest, and then a replay needs no server.

**Scores** are the engine's own, the greater the better: cosine, inner product, or the squared distance with a minus
sign for vectors; what the engine gives for text; ``mode=hybrid`` fuses both rankings by reciprocal rank where the
engine has no way of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
import numpy as np

from ragrounds.errors import GaveUp, UserError
from ragrounds.http import own_traffic, root_cause
from ragrounds.records import Passage
from ragrounds.redaction import Redactor
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Embedder, Vectors, check_embedder, open_embedder
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    FieldMap,
    Record,
    check_fields,
    query_encoding,
    text_of,
)

SAMPLED = 1_000
"""Passages whose ids and texts the version is made of."""
TRIES = 3
"""Tries of a call that meets a fault that passes."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the second try, twice as long before each further one."""
OUTAGE = 30.0
"""Seconds for which a server that cannot be reached is tried again: long enough for one that is restarted."""
FUSED = 60
"""The constant of reciprocal rank fusion."""
FUSED_DEPTH = 100
"""Passages of each ranking that are fused, or `k` where that is more."""

R = TypeVar("R")


class EngineHit(msgspec.Struct, frozen=True):
    """What an engine found: `score` is the greater the better."""

    id: str
    """Empty: it stands in the record, under the field map's `id`."""
    score: float
    record: Record

    def passage(self, fields: FieldMap, rank: int, corpus: str, retriever: str) -> Passage:
        """The passage that was found. One without a document is a document of its own; one without an id is called by
        a hash of its text."""
        text = text_of(self.record, fields.text)
        identity = self.id or text_of(self.record, fields.id)
        identity = identity or hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return Passage(
            id=identity,
            document=text_of(self.record, fields.document) or identity,
            title=text_of(self.record, fields.title),
            text=text,
            corpus=corpus,
            score=self.score,
            rank=rank,
            retriever=retriever,
        )


class EngineSample(msgspec.Struct, frozen=True):
    """What an engine knows of its content."""

    count: int
    """Passages that can be found, under the filter where there is one."""
    rows: tuple[tuple[str, str], ...]
    """Ids and texts: all, or at most :data:`SAMPLED` that the engine gives again as long as they are unchanged."""
    mark: str = ""
    """What the engine itself counts of its changes, where it does and `rows` are not all."""

    @property
    def version(self) -> str:
        """Twelve hexadecimal digits of the number of passages and of the sampled ids and texts, by id."""
        digest = hashlib.blake2b(f"{self.count}{self.mark and f' {self.mark}'}".encode(), digest_size=6)
        for identity, text in sorted(self.rows):
            digest.update(hashlib.blake2b(f"{identity}\0{text}".encode("utf-8", "replace"), digest_size=16).digest())
        return digest.hexdigest()


class EngineFault(Exception):
    """What an engine's client met, in our words: adapters raise it where its own errors do not say enough.

    Args:
        kind: ``connection``, ``timeout``, ``server``, ``rate_limit``: passes, and is tried again; ``auth``,
            ``bad_request``, ``missing``, ``malformed``: does not.
        message: One line; keys are taken out when it is shown.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


PASSING = frozenset({"connection", "timeout", "server", "rate_limit"})


class ExternalEngine(ABC):
    """One engine behind its official client, with blocking calls that several threads make at a time.

    Every call may raise the client's own errors: :meth:`fault` says which of them pass.
    """

    @abstractmethod
    def fields(self) -> Sequence[str]:
        """Names of the fields that records have, for errors; empty: not known."""

    @abstractmethod
    def sample(self, most: int) -> EngineSample:
        """The number of passages, and ids and texts of at most `most` of them."""

    @abstractmethod
    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector, shape (queries, dimensions), the `k` nearest passages, best first."""

    @abstractmethod
    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best passages by their words, best first.

        Raises:
            UserError: the engine does not search by words.
        """

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best passages by words and vectors: by reciprocal rank, where the engine has no way of
        its own."""
        depth = max(k, FUSED_DEPTH)
        texts, nearest_ones = self.by_texts(queries, depth), self.by_vectors(vectors, depth)
        return [fused_hits(pair, k) for pair in zip(texts, nearest_ones, strict=True)]

    def records(self, document: str) -> list[Record]:
        """The records of a document, in their order; empty: the engine cannot tell."""
        return []

    @abstractmethod
    def fault(self, error: Exception) -> str:
        """The kind of a client's error, as :class:`EngineFault` names them; empty: not known, it does not pass."""

    @abstractmethod
    def close(self) -> None:
        """Give back the connections."""


def fused_hits(rankings: Sequence[Sequence[EngineHit]], k: int) -> list[EngineHit]:
    """Rankings fused by reciprocal rank (constant :data:`FUSED`): the `k` best, ties to the first ranking's order."""
    scores: dict[str, float] = {}
    hits: dict[str, EngineHit] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, 1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (FUSED + rank)
            hits.setdefault(hit.id, hit)
    best = sorted(scores.items(), key=lambda item: -item[1])[:k]
    return [msgspec.structs.replace(hits[identity], score=score) for identity, score in best]


class ExternalSearcher:
    """Searches an index that somebody else keeps: see :class:`ragrounds.contracts.Searcher`."""

    def __init__(
        self,
        spec: Spec,
        name: str,
        given: ExternalParameters,
        engine: ExternalEngine,
        *,
        secrets: Sequence[str] = (),
    ) -> None:
        """Look at the engine: its fields and its version. With a `version` of the spec nothing is asked before the
        first search: a replay needs no server.

        Args:
            spec: The retriever, as the user gave it.
            name: What the corpus is called.
            given: The parameters.
            engine: What is searched. It connects when it is first asked, so that errors are told in one line.
            secrets: What no error may show.

        Raises:
            UserError: the embedder cannot be had, a field is not there, or the server gives no answer.
        """
        self.spec = str(spec)
        self._name = spec.name
        self._given = given
        self._redact = Redactor(*secrets)
        self._threads = ThreadPoolExecutor(given.connections, thread_name_prefix=f"ragrounds-{spec.name}")
        self._away = False
        self._encoding_now = threading.Lock()
        self._looking = threading.Lock()
        self._looked = False
        self._engine = engine
        self._closing = weakref.finalize(self, _closed, self._engine, self._threads)
        try:
            self._embedder = self._opened_embedder()
            if not given.version:
                self._blocking(self._look)
            self.corpus = f"{name}@{given.version or self._blocking(lambda: self._engine.sample(SAMPLED)).version}"
        except BaseException:
            self._closing()
            raise

    def _look(self) -> None:
        """Check the field map, once."""
        with self._looking:
            if not self._looked:
                vector = self._given.mode != "text"
                check_fields(self._given.fields, self._engine.fields(), self._name, vector=vector)
                self._looked = True

    def _opened_embedder(self) -> Embedder | None:
        if self._given.mode == "text":
            return None
        encoding = query_encoding(self._given)
        check_embedder(encoding)
        return open_embedder(encoding)

    async def search(self, query: str, k: int) -> list[Passage]:
        """The `k` best passages, best first. An empty query finds nothing.

        Raises:
            GaveUp: the engine gives no answer, also when asked again, or refuses the query.
            UserError: `k` is below 1.
        """
        return (await self.search_many([query], k))[0]

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """:meth:`search` of several queries in one call of the embedder and of the engine."""
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        asked = [query for query in queries if query.strip()]
        if not asked:
            return [[] for _ in queries]
        vectors = await self._in_thread(lambda: self._vectors(asked))
        mode, engine = self._given.mode, self._engine

        def find() -> list[list[EngineHit]]:
            """Ask the engine in the spec's mode."""
            self._look()
            if vectors is None:
                return engine.by_texts(asked, k)
            return engine.by_vectors(vectors, k) if mode == "vector" else engine.by_both(asked, vectors, k)

        found = iter(await self._tried(find))
        return [self._passages(next(found), k) if query.strip() else [] for query in queries]

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """The passages nearest to the mean of the vectors of several texts, each embedded as a query (HyDE). Of no text
        nothing is found.

        Raises:
            UserError: the retriever searches by words.
        """
        if not texts:
            return []
        vectors = await self._in_thread(lambda: self._vectors(texts))
        if vectors is None:
            raise UserError(f"{self._name}[mode=text] has no vectors whose mean could be searched for.")
        mean = np.ascontiguousarray(vectors.mean(axis=0, keepdims=True))

        def find() -> list[list[EngineHit]]:
            """Ask the engine for the mean's neighbours."""
            self._look()
            return self._engine.by_vectors(mean, k)

        return self._passages((await self._tried(find))[0], k)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, in its own order; empty where the engine holds none, or cannot tell."""

        def find() -> list[Record]:
            """Ask the engine for the document."""
            self._look()
            return self._engine.records(id)

        records = self._blocking(find)
        fields = self._given.fields
        return [EngineHit("", 0.0, record).passage(fields, 0, self.corpus, "") for record in records]

    def close(self) -> None:
        """Give back the connections and threads."""
        self._closing()

    def _vectors(self, texts: Sequence[str]) -> Vectors | None:
        if self._embedder is None:
            return None
        with self._encoding_now:  # encoders use all the cores they are given
            return self._embedder.queries(texts)

    def _passages(self, hits: Iterable[EngineHit], k: int) -> list[Passage]:
        fields = self._given.fields
        # A vector of zeros has no cosine.
        sound = [hit if np.isfinite(hit.score) else msgspec.structs.replace(hit, score=0.0) for hit in hits]
        ordered = sorted(sound, key=lambda hit: -hit.score)[:k]
        return [hit.passage(fields, rank, self.corpus, self.spec) for rank, hit in enumerate(ordered, 1)]

    async def _in_thread(self, work: Callable[[], R]) -> R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))

    async def _tried(self, work: Callable[[], R]) -> R:
        """Have `work` done, and again after faults that pass.

        Raises:
            GaveUp: it failed for good, or too often.
        """
        import tenacity

        begun = time.monotonic()
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self._passes),
            wait=tenacity.wait_exponential(FIRST_WAIT, LONGEST_WAIT) + tenacity.wait_random(0, FIRST_WAIT),
            stop=lambda state: self._over(state.attempt_number, time.monotonic() - begun, _error(state)),
            reraise=True,
        )
        try:
            done: R = await retrying(self._in_thread, lambda: _own(work))
        except Exception as problem:
            raise self._gave_up(problem, time.monotonic() - begun) from None
        self._away = False
        return done

    def _blocking(self, work: Callable[[], R]) -> R:
        """:meth:`_tried` for plain functions; a server that is not there is not waited for."""
        begun = time.monotonic()
        try:
            return tried_again(lambda: _own(work), self._kind)
        except Exception as problem:
            raise self._gave_up(problem, time.monotonic() - begun) from None

    def _kind(self, error: BaseException) -> str:
        return kind_of(error, self._engine.fault)

    def _passes(self, error: BaseException) -> bool:
        return self._kind(error) in PASSING

    def _over(self, tries: int, seconds: float, error: BaseException) -> bool:
        if self._kind(error) != "connection":
            return tries >= TRIES
        if self._away:  # another search has waited for it already
            return True
        self._away = seconds >= OUTAGE
        return self._away

    def _gave_up(self, error: Exception, seconds: float) -> UserError:
        return gave_up(error, self._kind(error), self._name, self._redact, seconds)


def kind_of(error: BaseException, fault: Callable[[Exception], str]) -> str:
    """The kind of what a call met, as :class:`EngineFault` names them; ``fault`` knows the client's own errors. Empty:
    not known, it does not pass. So it is of what gave up after its own tries."""
    if isinstance(error, EngineFault):
        return error.kind
    if isinstance(error, UserError) or not isinstance(error, Exception):
        return ""
    if found := fault(error):
        return found
    return "timeout" if isinstance(error, TimeoutError) else "connection" if isinstance(error, ConnectionError) else ""


def tried_again(work: Callable[[], R], kind: Callable[[BaseException], str], outage: float = 0.0) -> R:
    """Do a plain function's work, and again after faults that pass: at most :data:`TRIES` times, or, where there is no
    connection, for `outage` seconds.

    Raises:
        Exception: the last error, as it was.
    """
    import tenacity

    begun = time.monotonic()

    def over(state: tenacity.RetryCallState) -> bool:
        """Whether it was tried enough."""
        away = kind(_error(state)) == "connection" and outage > 0
        return time.monotonic() - begun >= outage if away else state.attempt_number >= TRIES

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: kind(error) in PASSING),
        wait=tenacity.wait_exponential(FIRST_WAIT, LONGEST_WAIT) + tenacity.wait_random(0, FIRST_WAIT),
        stop=over,
        reraise=True,
    )
    return retrying(work)


def gave_up(error: Exception, kind: str, name: str, redact: Redactor, seconds: float) -> UserError:
    """The error of one line that a call ends with; what is one already stays as it is.

    Args:
        error: What was met.
        kind: As :func:`kind_of` gives it.
        name: The adapter's.
        redact: Takes keys out.
        seconds: For which it was tried.
    """
    if isinstance(error, UserError):
        return error
    said = " ".join(redact(safe(root_cause(error), 400)).split()).rstrip(".")
    what = f"gave no answer within {seconds:.0f} s" if kind in PASSING else "refused"
    return GaveUp(kind or "search", f"{name} {what} ({kind or type(error).__name__}): {said}.")


def _own(work: Callable[[], R]) -> R:
    with own_traffic():
        return work()


def _error(state: object) -> BaseException:
    outcome = getattr(state, "outcome", None)
    error = outcome.exception() if outcome is not None else None
    return error if isinstance(error, BaseException) else EngineFault("server", "no answer")


def _closed(engine: ExternalEngine, threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False)
    engine.close()


def status_fault(status: int) -> str:
    """The kind of an HTTP status, as :class:`EngineFault` names them; empty: none."""
    if status == 429:
        return "rate_limit"
    if status in (401, 403):
        return "auth"
    if status == 404:
        return "missing"
    if status == 408:
        return "timeout"
    return "server" if status >= 500 else "bad_request" if status >= 400 else ""
