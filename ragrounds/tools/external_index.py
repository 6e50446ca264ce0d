"""The shared ground of retrievers over an index that somebody else keeps: pgvector, Chroma, LanceDB, OpenSearch …

An adapter is one :class:`~ragrounds.tools.external_engine.ExternalEngine`: how a vendor's client connects, describes
what is there, searches it and fills it, with plain blocking calls. :func:`external_retriever` makes a retriever of it,
and :class:`ExternalSearcher` does the rest for all of them: queries become vectors by an embedder of ours
(``embed=…``), fields become passages (:class:`~ragrounds.tools.external_parameters.FieldMap`), calls run in a few
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
sign for vectors; what the engine gives for text; ``mode=hybrid`` fuses both rankings by reciprocal rank where the
engine has no way of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
import numpy as np

from ragrounds.errors import GaveUp, UserError
from ragrounds.http import own_traffic, root_cause
from ragrounds.records import Passage
from ragrounds.redaction import Redactor
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Embedder, Vectors, check_embedder, open_embedder
from ragrounds.tools.external_engine import EngineFault, EngineHit, ExternalEngine
from ragrounds.tools.external_parameters import (
    Record,
    check_fields,
    external_parameters,
    query_encoding,
    read_parameters,
    secrets_in,
)
from ragrounds.tools.push import PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

SAMPLED = 1_000
"""Passages whose ids and texts the version is made of."""
TRIES = 3
"""Tries of a call that meets a fault that passes."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0
"""Seconds before the second try, twice as long before each further one."""
OUTAGE = 30.0
"""Seconds for which a server that cannot be reached is tried again: long enough for one that is restarted."""
R = TypeVar("R")


PASSING = frozenset({"connection", "timeout", "server", "rate_limit"})


class ExternalSearcher:
    """Searches an index that somebody else keeps: see :class:`ragrounds.contracts.Searcher`."""

    def __init__(self, spec: Spec, name: str, engine: ExternalEngine) -> None:
        """Look at the engine: its fields and its version. With a `version` of the spec nothing is asked before the
        first search: a replay needs no server.

        Args:
            spec: The retriever, as the user gave it.
            name: What the corpus is called; empty: as what is searched.
            engine: What is searched. It connects when it is first asked, so that errors are told in one line.

        Raises:
            UserError: the embedder cannot be had, a field is not there, or the server gives no answer.
        """
        self.spec = str(spec)
        self._name, self._engine, self._given = spec.name, engine, engine.given
        self._redact = Redactor(*secrets_in(engine.address, engine.key, *engine.key.split(":", 1)[1:]))
        self._threads = ThreadPoolExecutor(self._given.connections, thread_name_prefix=f"ragrounds-{spec.name}")
        self._away = False
        self._encoding_now = threading.Lock()
        self._looking = threading.Lock()
        self._looked = False
        self._closing = weakref.finalize(self, _closed, engine, self._threads)
        try:
            self._embedder = self._opened_embedder()
            version = self._given.version
            if not version:
                self._blocking(self._look)
                version = self._blocking(lambda: engine.sample(SAMPLED)).version
            self.corpus = f"{name or engine.named}@{version}"
        except BaseException:
            self._closing()
            raise

    def _look(self) -> None:
        """Check the field map, once."""
        with self._looking:
            if not self._looked:
                vector = self._given.mode != "text"
                check_fields(self._engine.map, self._engine.fields(), self._name, vector=vector)
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
        return [self._engine.hit(record, 0.0).passage(self._engine.map, 0, self.corpus, "") for record in records]

    def close(self) -> None:
        """Give back the connections and threads."""
        self._closing()

    def _vectors(self, texts: Sequence[str]) -> Vectors | None:
        if self._embedder is None:
            return None
        with self._encoding_now:  # encoders use all the cores they are given
            return self._embedder.queries(texts)

    def _passages(self, hits: Iterable[EngineHit], k: int) -> list[Passage]:
        # A vector of zeros has no cosine.
        sound = [hit if np.isfinite(hit.score) else msgspec.structs.replace(hit, score=0.0) for hit in hits]
        ordered = sorted(sound, key=lambda hit: -hit.score)[:k]
        return [hit.passage(self._engine.map, rank, self.corpus, self.spec) for rank, hit in enumerate(ordered, 1)]

    async def _in_thread(self, work: Callable[[], R]) -> R:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: context.run(work))

    async def _tried(self, work: Callable[[], R]) -> R:
        """Have `work` done, and again after faults that pass.

        Raises:
            GaveUp: it failed for good, or too often.
        """
        from tenacity import AsyncRetrying

        begun = time.monotonic()

        def over(tries: int, error: BaseException) -> bool:
            """Whether it was tried enough; a server that another search has waited for in vain is not waited for."""
            if self._kind(error) != "connection":
                return tries >= TRIES
            if not self._away:
                self._away = time.monotonic() - begun >= OUTAGE
                return self._away
            return True

        retrying = AsyncRetrying(**again(self._kind, over))
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
    from tenacity import Retrying

    begun = time.monotonic()

    def over(tries: int, error: BaseException) -> bool:
        """Whether it was tried enough."""
        away = outage > 0 and kind(error) == "connection"
        return time.monotonic() - begun >= outage if away else tries >= TRIES

    return Retrying(**again(kind, over))(work)


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


def _closed(engine: ExternalEngine, threads: ThreadPoolExecutor) -> None:
    threads.shutdown(wait=False)
    engine.close()


def external_retriever(
    engine: type[ExternalEngine],
    *,
    name: str,
    summary: str,
    example: str,
    library: str,
    words: Mapping[str, str],
    cost: str = "a request to the server; with vectors, the model once for each query",
    caution: str = "",
) -> Retriever:
    """The retriever of an adapter, which takes passages too.

    Args:
        engine: The adapter.
        name: What specs call it.
        summary: As for :class:`~ragrounds.tools.retriever.Retriever`, as `example`, `library`, `cost`, `caution`.
        words: What is said of the parameters that it adds, or means otherwise than others.
    """

    def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
        given = read_parameters(spec, engine.parameters, words=engine.by_words)
        return ExternalSearcher(spec, corpora.names, engine(given, spec.name))

    def _target(spec: Spec, called: str) -> ExternalEngine:
        given = read_parameters(engine.filled(spec, called), engine.parameters, searching=False)
        return engine(given, spec.name, filling=True)

    address = "path" if "path" in engine.parameters.__struct_fields__ else "url"
    return Retriever(
        name=name, summary=summary, example=example, open=_open, cost=cost, extra=engine.extra, library=library,
        parameters=external_parameters(engine.parameters, **words), caution=caution, own_corpus=True,
        push=PushWay(open=_target, searched=engine.filled, address=address),
    )  # fmt: skip
