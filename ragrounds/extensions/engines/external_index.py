"""Shared code of retrievers over external indexes: pgvector, Chroma, LanceDB, Qdrant.

An adapter is one :class:`~ragrounds.extensions.engines.external_engine.ExternalEngine`: how a vendor's client connects,
describes its contents and searches it, with plain blocking calls. :func:`external_retriever` makes a retriever of it,
and :class:`ExternalSearcher` does the rest for all of them: queries become vectors by an embedder of ours
(``embed=…``), fields become passages (:mod:`ragrounds.extensions.engines.external_parameters`), calls run in a few
threads over the client's pooled connections, temporary faults are retried a bounded number of times, and every other
error becomes one line without keys.

**Addresses and keys.** A spec is an identity: it is shown in tables, stores and reports, so it has no key.
``url=…`` may name a user, never a password. ``url_env=NAME`` names the environment variable that holds the whole
address, ``key_env=NAME`` the one that holds the key.

**Corpus.** An external index has no content hash that is available without reading all of it. The version is
a digest of the number of its passages and of a sample of their ids and texts, in the order of the ids: all of them up
to :data:`SAMPLED` passages, beyond that as many as the engine can give in a stable order. It is read whenever the
searcher is opened, so also when a run resumes. A change that leaves the number and every sampled passage as they were
is not seen: ``version=…`` names the version in place of the digest, and then a replay needs no server.

**Scores** are those of the engine, and greater is better: cosine, inner product, or the squared distance with a minus
sign for vectors; the engine's score for text; ``mode=hybrid`` fuses both rankings by reciprocal rank whatever the
engine could do itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.http import own_traffic, root_cause
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_engine import EngineFault, ExternalEngine, ScoredRecord
from ragrounds.extensions.engines.external_parameters import query_encoding, read_parameters
from ragrounds.recorder.redaction import Redactor
from ragrounds.tools.index.embedders import Vectors, check_embedder, open_embedder
from ragrounds.tools.retriever import Retriever, SearchedCorpora, parameters_of

SAMPLED = 1_000
"""Largest number of passages whose ids and texts the version is made of."""
TRIES = 3
"""Number of tries of a call after temporary faults."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the second try; the wait doubles before each further try, up to the longest."""
OUTAGE = 30.0
"""Seconds during which an unreachable server is tried again: enough for a restart."""
PASSING = frozenset({"connection", "timeout", "server", "rate_limit"})
R = TypeVar("R")


class Calls:
    """Caller of an engine's blocking functions, which retries temporary faults and redacts errors to one line.

    Args:
        engine: Classifies its client's errors.
        ended: Event that ends the waiting between tries.
    """

    def __init__(self, engine: ExternalEngine, ended: threading.Event | None = None) -> None:
        self._name, self._fault = engine.name, engine.fault
        self._redact = Redactor(*engine.secrets)
        self._ended = ended or threading.Event()
        self._away = False

    def __call__(self, work: Callable[[], R], outage: float = 0.0) -> R:
        """Call a function with :data:`TRIES` tries.

        Without a connection it is tried for `outage` seconds, unless another call has already waited for the server in
        vain.

        Raises:
            UserError: raised by the function, or :class:`~ragrounds.base.errors.GaveUp`: it failed for good, or too
                often.
        """
        from tenacity import Retrying, sleep_using_event

        started = time.monotonic()

        def is_over(tries: int, error: BaseException) -> bool:
            """Return True if no further try is allowed."""
            if not outage or fault_kind(error, self._fault) != "connection":
                return self._ended.is_set() or tries >= TRIES
            self._away = self._away or self._ended.is_set() or time.monotonic() - started >= outage
            return self._away

        retrying = Retrying(
            sleep=sleep_using_event(self._ended),
            **retry_arguments(lambda error: fault_kind(error, self._fault), is_over),
        )
        try:
            with own_traffic():
                result_of_work: R = retrying(work)
        except Exception as problem:
            seconds = time.monotonic() - started
            raise one_line_error(problem, fault_kind(problem, self._fault), self._name, self._redact, seconds) from None
        self._away = False
        return result_of_work


class ExternalSearcher:
    """Searcher of an external index: see :class:`ragrounds.base.contracts.Searcher`."""

    def __init__(self, name: str, engine: ExternalEngine) -> None:
        """Read the engine's fields and version.

        With a `version` in the spec nothing is asked before the first search, so that a replay needs no server.

        Args:
            name: Name of the corpus; empty: that of the table, collection or index.
            engine: Engine to search. It connects at its first call, so that errors are reported in one line.

        Raises:
            UserError: the embedder is not available, a field does not exist, or the server gives no answer.
        """
        self.spec, self._engine, parameters = engine.spec, engine, engine.options
        ended = threading.Event()
        self._calls = Calls(engine, ended)
        self._threads = ThreadPoolExecutor(parameters.connections, thread_name_prefix=f"ragrounds-{engine.name}")
        self._encoding_now = threading.Lock()
        self._closing = weakref.finalize(self, _close_all, engine, self._threads, ended)
        try:
            self._embedder = None
            if parameters.mode != "text":
                encoding = query_encoding(parameters)
                check_embedder(encoding)
                self._embedder = open_embedder(encoding)
            self.corpus = (
                f"{name or engine.collection_name}@{parameters.version or self._calls(lambda: engine.version(SAMPLED))}"
            )
        except BaseException:
            self._closing()
            raise

    async def search(self, query: str, k: int) -> list[Passage]:
        """Return the `k` best passages, best first; an empty query has no results.

        Raises:
            GaveUp: the engine gives no answer, also when asked again, or refuses the query.
            UserError: `k` is below 1.
        """
        return (await self.search_many([query], k))[0]

    async def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Run :meth:`search` for several queries in one call of the embedder and of the engine."""
        if k < 1:
            raise UserError(f"Cannot search for {k} passages: expected 1 or more.")
        nonempty = [query for query in queries if query.strip()]
        if not nonempty:
            return [[] for _ in queries]
        vectors = await self._in_thread(lambda: self._vectors(nonempty))
        rankings = iter(await self._call_in_thread(lambda: self._engine.ranked(nonempty, vectors, k)))
        return [self._passages(next(rankings), k) if query.strip() else [] for query in queries]

    async def search_mean(self, texts: Sequence[str], k: int) -> list[Passage]:
        """Return the passages nearest to the mean vector of several texts, each embedded as a query (HyDE).

        Without texts there are no results.

        Raises:
            UserError: the retriever searches by words.
        """
        if not texts:
            return []
        vectors = await self._in_thread(lambda: self._vectors(texts))
        if vectors is None:
            raise UserError(f"{self._engine.name}[mode=text] has no vectors whose mean could be searched for.")
        mean = np.ascontiguousarray(vectors.mean(axis=0, keepdims=True))
        rankings = await self._call_in_thread(lambda: self._engine.ranked([""], mean, k, mode="vector"))
        return self._passages(rankings[0], k)

    def document(self, id: str) -> list[Passage]:
        """Return the passages of a document, by id, shorter ids first; empty if the engine has none, or cannot tell."""
        records = self._calls(lambda: self._engine.records(id))
        passages = [self._engine.passage(record, 0.0, 0, self.corpus, "") for record in records]
        return sorted(passages, key=lambda passage: (len(passage.id), passage.id))

    def close(self) -> None:
        """Release the connections and threads."""
        self._closing()

    def _vectors(self, texts: Sequence[str]) -> Vectors | None:
        if self._embedder is None:
            return None
        with self._encoding_now:  # one at a time, because an encoder uses all cores
            return self._embedder.queries(texts)

    def _passages(self, ranking: Sequence[ScoredRecord], k: int) -> list[Passage]:
        ranked = enumerate(ranking[:k], 1)
        return [self._engine.passage(record, score, rank, self.corpus, self.spec) for rank, (record, score) in ranked]

    async def _in_thread(self, work: Callable[[], R]) -> R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))

    async def _call_in_thread(self, work: Callable[[], R]) -> R:
        return await self._in_thread(lambda: self._calls(work, OUTAGE))


def fault_kind(error: BaseException, fault: Callable[[Exception], str]) -> str:
    """Return the kind of an error, in the terms of :class:`EngineFault`; `fault` classifies the client's errors.

    The kind is empty for an unknown error, which is not retried, and for an error after a call's own retries.
    """
    if isinstance(error, EngineFault):
        return error.kind
    return "" if isinstance(error, UserError) or not isinstance(error, Exception) else fault(error)


def retry_arguments(
    kind: Callable[[BaseException], str],
    over: Callable[[int, BaseException], bool] = lambda tries, error: tries >= TRIES,
) -> dict[str, Any]:
    """Return tenacity's arguments to retry temporary faults until `over`; the last error is raised."""
    import tenacity

    def stop(state: tenacity.RetryCallState) -> bool:
        """Return True if the tries made, or the last error, end the retries."""
        outcome = state.outcome
        error = outcome.exception() if outcome is not None else None
        return over(state.attempt_number, error or EngineFault("server", "no answer"))

    return {
        "retry": tenacity.retry_if_exception(lambda error: kind(error) in PASSING),
        "wait": tenacity.wait_exponential(FIRST_WAIT, LONGEST_WAIT) + tenacity.wait_random(0, FIRST_WAIT),
        "stop": stop,
        "reraise": True,
    }


def one_line_error(error: Exception, kind: str, name: str, redact: Redactor, seconds: float) -> UserError:
    """Return the one-line error of a failed call; an error that is one already is returned unchanged.

    Args:
        error: Error of the last try.
        kind: As :func:`fault_kind` gives it.
        name: Name of the engine.
        redact: Removes keys.
        seconds: Seconds for which it was tried.
    """
    if isinstance(error, UserError):
        return error
    message = " ".join(safe(redact(root_cause(error)), 400).split()).rstrip(".")
    outcome = f"gave no answer within {seconds:.0f} s" if kind in PASSING else "refused"
    return GaveUp(kind or "search", f"{name} {outcome} ({kind or type(error).__name__}): {message}.")


def _close_all(engine: ExternalEngine, threads: ThreadPoolExecutor, ended: threading.Event) -> None:
    ended.set()
    threads.shutdown(wait=False)
    engine.close()


def external_retriever(
    engine: type[ExternalEngine],
    *,
    name: str,
    summary: str,
    example: str,
    library: str,
    cost: str = "a request to the server; with vectors, the model once for each query",
    caution: str = "",
) -> Retriever:
    """Make the retriever of an adapter: see :class:`~ragrounds.tools.retriever.Retriever`."""

    def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
        parameters = read_parameters(spec, engine.parameters, words=engine.by_words)
        return ExternalSearcher(corpora.names, engine(parameters, spec))

    return Retriever(
        name=name, summary=summary, example=example, open=_open, cost=cost, extra=engine.extra, library=library,
        parameters=parameters_of(engine.parameters), caution=caution, own_corpus=True,
    )  # fmt: skip
