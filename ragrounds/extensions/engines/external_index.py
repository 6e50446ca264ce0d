"""The shared ground of retrievers over an index that somebody else keeps: pgvector, Chroma, LanceDB, Qdrant.

An adapter is one :class:`~ragrounds.extensions.engines.external_engine.ExternalEngine`: how a vendor's client connects,
describes what is there, searches it, with plain blocking calls. :func:`external_retriever` makes a retriever of it,
and :class:`ExternalSearcher` does the rest for all of them: queries become vectors by an embedder of ours
(``embed=…``), fields become passages (:mod:`ragrounds.extensions.engines.external_parameters`), calls run in a few
threads over the client's pooled connections, faults that pass are met with a bounded number of tries, and every other
error becomes one line without keys.

**Addresses and keys.** A spec is an identity: it stands in tables, stores and reports, so no key stands in it.
``url=…`` may name a user, never a password. ``url_env=NAME`` names the environment variable that holds the whole
address, ``key_env=NAME`` the one that holds the key.

**Corpus.** An index of somebody else's has no content hash that could be had without reading all of it. The version is
a digest of the number of its passages and of a sample of their ids and texts, in the order of the ids: all of them up
to :data:`SAMPLED` passages, beyond that as many as the engine can give in a stable order. It is read whenever the
searcher is opened, so also when a run resumes. A change that leaves the number and every sampled passage as they were
is not seen: ``version=…`` names the version in place of the digest, and then a replay needs no server.

**Scores** are the engine's own, the greater the better: cosine, inner product, or the squared distance with a minus
sign for vectors; what the engine gives for text; ``mode=hybrid`` fuses both rankings by reciprocal rank whatever the
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
from ragrounds.base.redaction import Redactor
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_engine import EngineFault, ExternalEngine, Found
from ragrounds.extensions.engines.external_parameters import query_encoding, read_parameters
from ragrounds.tools.index.embedders import Vectors, check_embedder, open_embedder
from ragrounds.tools.retriever import Retriever, SearchedCorpora, parameters_of

SAMPLED = 1_000
"""Passages whose ids and texts the version is made of."""
TRIES = 3
"""Tries of a call that meets a fault that passes."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the second try, twice as long before each further one."""
OUTAGE = 30.0
"""Seconds for which a server that cannot be reached is tried again: long enough for one that is restarted."""
PASSING = frozenset({"connection", "timeout", "server", "rate_limit"})
R = TypeVar("R")


class Calls:
    """Makes the blocking calls of an engine: again after faults that pass, with errors of one line without keys.

    Args:
        engine: Says which of its client's errors pass.
        ended: Ends the waiting between tries.
    """

    def __init__(self, engine: ExternalEngine, ended: threading.Event | None = None) -> None:
        self._name, self._fault = engine.name, engine.fault
        self._redact = Redactor(*engine.secrets)
        self._ended = ended or threading.Event()
        self._away = False

    def __call__(self, work: Callable[[], R], outage: float = 0.0) -> R:
        """Do a plain function's work, with :data:`TRIES` tries; where there is no connection, for `outage` seconds,
        unless another call has waited for the server in vain.

        Raises:
            UserError: what the work raised, or :class:`~ragrounds.base.errors.GaveUp`: it failed for good, or too
                often.
        """
        from tenacity import Retrying, sleep_using_event

        begun = time.monotonic()

        def over(tries: int, error: BaseException) -> bool:
            """Whether it was tried enough."""
            if not outage or kind_of(error, self._fault) != "connection":
                return self._ended.is_set() or tries >= TRIES
            self._away = self._away or self._ended.is_set() or time.monotonic() - begun >= outage
            return self._away

        retrying = Retrying(sleep=sleep_using_event(self._ended), **again(lambda one: kind_of(one, self._fault), over))
        try:
            with own_traffic():
                done: R = retrying(work)
        except Exception as problem:
            seconds = time.monotonic() - begun
            raise gave_up(problem, kind_of(problem, self._fault), self._name, self._redact, seconds) from None
        self._away = False
        return done


class ExternalSearcher:
    """Searches an index that somebody else keeps: see :class:`ragrounds.base.contracts.Searcher`."""

    def __init__(self, name: str, engine: ExternalEngine) -> None:
        """Look at the engine: its fields and its version. With a `version` of the spec nothing is asked before the
        first search: a replay needs no server.

        Args:
            name: What the corpus is called; empty: as what is searched.
            engine: What is searched. It connects when it is first asked, so that errors are told in one line.

        Raises:
            UserError: the embedder cannot be had, a field is not there, or the server gives no answer.
        """
        self.spec, self._engine, given = engine.spec, engine, engine.given
        ended = threading.Event()
        self._calls = Calls(engine, ended)
        self._threads = ThreadPoolExecutor(given.connections, thread_name_prefix=f"ragrounds-{engine.name}")
        self._encoding_now = threading.Lock()
        self._closing = weakref.finalize(self, _closed, engine, self._threads, ended)
        try:
            self._embedder = None
            if given.mode != "text":
                encoding = query_encoding(given)
                check_embedder(encoding)
                self._embedder = open_embedder(encoding)
            self.corpus = f"{name or engine.named}@{given.version or self._calls(lambda: engine.version(SAMPLED))}"
        except BaseException:
            self._closing()
            raise

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
        found = iter(await self._tried(lambda: self._engine.ranked(asked, vectors, k)))
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
            raise UserError(f"{self._engine.name}[mode=text] has no vectors whose mean could be searched for.")
        mean = np.ascontiguousarray(vectors.mean(axis=0, keepdims=True))
        found = await self._tried(lambda: self._engine.ranked([""], mean, k, mode="vector"))
        return self._passages(found[0], k)

    def document(self, id: str) -> list[Passage]:
        """The passages of a document, by id, shorter ids first; empty where the engine holds none, or cannot tell."""
        records = self._calls(lambda: self._engine.records(id))
        passages = [self._engine.passage(record, 0.0, 0, self.corpus, "") for record in records]
        return sorted(passages, key=lambda passage: (len(passage.id), passage.id))

    def close(self) -> None:
        """Give back the connections and threads."""
        self._closing()

    def _vectors(self, texts: Sequence[str]) -> Vectors | None:
        if self._embedder is None:
            return None
        with self._encoding_now:  # encoders use all the cores they are given
            return self._embedder.queries(texts)

    def _passages(self, found: Sequence[Found], k: int) -> list[Passage]:
        ranked = enumerate(found[:k], 1)
        return [self._engine.passage(record, score, rank, self.corpus, self.spec) for rank, (record, score) in ranked]

    async def _in_thread(self, work: Callable[[], R]) -> R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))

    async def _tried(self, work: Callable[[], R]) -> R:
        return await self._in_thread(lambda: self._calls(work, OUTAGE))


def kind_of(error: BaseException, fault: Callable[[Exception], str]) -> str:
    """The kind of what a call met, as :class:`EngineFault` names them; ``fault`` knows the client's own errors. Empty:
    not known, it does not pass. So it is of what gave up after its own tries."""
    if isinstance(error, EngineFault):
        return error.kind
    return "" if isinstance(error, UserError) or not isinstance(error, Exception) else fault(error)


def again(
    kind: Callable[[BaseException], str],
    over: Callable[[int, BaseException], bool] = lambda tries, error: tries >= TRIES,
) -> dict[str, Any]:
    """How tenacity asks again after faults that pass, until it is `over`: after so many tries, with that last error."""
    import tenacity

    def stop(state: tenacity.RetryCallState) -> bool:
        """By the number of tries and the last error."""
        outcome = state.outcome
        error = outcome.exception() if outcome is not None else None
        return over(state.attempt_number, error or EngineFault("server", "no answer"))

    return {
        "retry": tenacity.retry_if_exception(lambda error: kind(error) in PASSING),
        "wait": tenacity.wait_exponential(FIRST_WAIT, LONGEST_WAIT) + tenacity.wait_random(0, FIRST_WAIT),
        "stop": stop,
        "reraise": True,
    }


def gave_up(error: Exception, kind: str, name: str, redact: Redactor, seconds: float) -> UserError:
    """The error of one line that a call ends with; what is one already stays as it is.

    Args:
        error: What was met.
        kind: As :func:`kind_of` gives it.
        name: Of what was called.
        redact: Takes keys out.
        seconds: For which it was tried.
    """
    if isinstance(error, UserError):
        return error
    said = " ".join(redact(safe(root_cause(error), 400)).split()).rstrip(".")
    what = f"gave no answer within {seconds:.0f} s" if kind in PASSING else "refused"
    return GaveUp(kind or "search", f"{name} {what} ({kind or type(error).__name__}): {said}.")


def _closed(engine: ExternalEngine, threads: ThreadPoolExecutor, ended: threading.Event) -> None:
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
    """The retriever of an adapter: see :class:`~ragrounds.tools.retriever.Retriever`."""

    def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
        given = read_parameters(spec, engine.parameters, words=engine.by_words)
        return ExternalSearcher(corpora.names, engine(given, spec))

    return Retriever(
        name=name, summary=summary, example=example, open=_open, cost=cost, extra=engine.extra, library=library,
        parameters=parameters_of(engine.parameters), caution=caution, own_corpus=True,
    )  # fmt: skip
