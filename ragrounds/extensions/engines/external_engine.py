"""One vendor's search engine behind its official client: connect, describe the contents, search.

The base class has the code that all adapters share. The searcher over an engine is in
:mod:`ragrounds.extensions.engines.external_index`."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.http import causes
from ragrounds.base.records import Passage
from ragrounds.base.specs import Spec
from ragrounds.base.text import safe
from ragrounds.extensions.engines.external_parameters import (
    ExternalParameters,
    Record,
    address_of,
    check_fields,
    query_encoding,
    secrets_in,
    text_of,
    variable,
)
from ragrounds.tools.index.embedders import Metric, Vectors

Vendor = Any
"""Type of a vendor's client and its results, whose types are not imported; the tests run the real client."""
FUSED = 60
"""Constant of reciprocal rank fusion."""
FUSED_DEPTH = 100
"""Number of passages of each ranking that are fused, or `k` if that is more."""
ScoredRecord = tuple[Record, float]
"""Retrieved record with its score; greater is better."""


@dataclass(frozen=True)
class CollectionDescription:
    """Description of the table, collection or index that a spec names."""

    fields: Sequence[str]
    """Names of the fields that records have; empty if unknown."""
    metric: Metric | None = None
    """Metric of its vectors; ``None`` if the query determines it."""


class EngineFault(Exception):
    """Fault of an engine's client, raised by adapters if the client's errors are not specific enough.

    Args:
        kind: ``connection``, ``timeout``, ``server``, ``rate_limit``: temporary, and tried again; ``auth``,
            ``bad_request``, ``missing``, ``malformed``: permanent.
        message: One line; keys are removed when it is shown.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class ExternalEngine(ABC):
    """Table, collection or index behind its vendor's official client, with blocking calls from several threads.

    Every call may raise the client's errors: :meth:`fault` tells which of them are temporary.
    """

    parameters: ClassVar[type[ExternalParameters]]
    location_parameter: ClassVar[str] = "collection"
    """Parameter that names the table, collection or index, which is also the vendor's word for it."""
    extra: ClassVar[str]
    """Extra of this package that installs the client."""
    by_words: ClassVar[bool] = True
    """True if it searches by words, too."""

    def __init__(self, options: ExternalParameters, spec: Spec) -> None:
        """Read the parameters; nothing is opened before the first call.

        Args:
            options: The parameters of the spec.
            spec: The retriever.

        Raises:
            UserError: no name is given, no or two addresses are given, or a variable is not set.
        """
        self.options, self.name, self.spec = options, spec.name, str(spec)
        self.collection_name = str(getattr(options, self.location_parameter))
        self.local = bool(getattr(options, "path", ""))
        self.address = address_of(options, self.name)
        self.key = variable(options.key_env, "key_env", self.name)
        self.secrets = secrets_in(self.address, self.key, *self.key.split(":", 1)[1:])
        if not self.collection_name:
            raise UserError(
                f"{self.name} needs its {self.location_parameter}: {self.name}[{self.location_parameter}=NAME]."
            )
        self.metric: Metric = "cosine"
        self._opening = threading.RLock()
        self._client: Vendor = None

    @abstractmethod
    def connect(self) -> Vendor:
        """Open the vendor's client, which is imported here. ImportError: it is not installed."""

    def release(self, client: Vendor) -> None:
        """Release a client."""
        client.close()

    @abstractmethod
    def describe(self, client: Vendor) -> CollectionDescription | None:
        """Return a description of the named table, collection or index; ``None`` if it does not exist."""

    @abstractmethod
    def existing_names(self, client: Vendor) -> Iterable[str]:
        """Return the names of the existing tables, collections or indexes, for an error message."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of passages, under the filter if it is set."""

    @abstractmethod
    def sample(self, count: int, limit: int) -> Iterable[tuple[str, str]]:
        """Return ids and texts of all passages, or of `limit` passages that are the same as long as they are unchanged.

        The engine's own count of changes may be among them.

        Args:
            count: Number that :meth:`count` gave.
            limit: Largest number of rows.
        """

    @abstractmethod
    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the `k` nearest records for each vector, shape (queries, dimensions)."""

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[ScoredRecord]]:
        """Return the `k` best records by their words for each query."""
        raise NotImplementedError

    @abstractmethod
    def records(self, document: str) -> Sequence[Record]:
        """Return the records of a document; empty if the engine cannot tell."""

    def fault(self, error: Exception) -> str:
        """Return the kind of a client's error, as :class:`EngineFault` names them; empty if unknown, so not retried."""
        return client_fault(error)

    @property
    def client(self) -> Vendor:
        """Client, connected and checked once.

        Raises:
            UserError: the client is not installed, or there is no such collection or field.
        """
        with self._opening:
            if self._client is None:
                try:
                    client = self.connect()
                except ImportError:
                    raise UserError(f"{self.name} needs its client: install ragrounds[{self.extra}].") from None
                try:
                    self._check(client)
                except BaseException:
                    self.release(client)
                    raise
                self._client = client
            return self._client

    def _check(self, client: Vendor) -> None:
        description = self.describe(client)
        if description is None:
            names = sorted(self.existing_names(client))
            listed = ", ".join(safe(name, 60) for name in names[:20]) or "none"
            raise UserError(
                f"{self.name} has no {self.location_parameter} "
                f"{self.collection_name!r}.{nearest(self.collection_name, names)} Its {self.location_parameter}s: "
                f"{listed}."
            )
        check_fields(self.options, description.fields, self.name)
        query_metric = (
            query_encoding(self.options).metric if self.options.embed and self.options.mode != "text" else "cosine"
        )
        self.metric = description.metric or query_metric

    def close(self) -> None:
        """Release the connections."""
        client, self._client = self._client, None
        if client is not None:
            self.release(client)

    def version(self, limit: int) -> str:
        """Return a digest (12 hexadecimal digits) of the number of passages and the sampled ids and texts, by id."""
        _, count = self.client, self.count()
        digest = hashlib.blake2b(f"{count}".encode(), digest_size=6)
        for identity, text in sorted(self.sample(count, limit)):
            digest.update(hashlib.blake2b(f"{identity}\0{text}".encode("utf-8", "replace"), digest_size=16).digest())
        return digest.hexdigest()

    def ranked(
        self, queries: Sequence[str], vectors: Vectors | None, k: int, mode: str = ""
    ) -> list[list[ScoredRecord]]:
        """Return the `k` best records for each query, best first, by default in the mode of the spec.

        In mode ``hybrid`` both rankings are fused by reciprocal rank.
        """
        _ = self.client
        if vectors is None:
            return self._ordered(self.by_texts(queries, k))
        if (mode or self.options.mode) == "vector":
            return self._ordered(self.by_vectors(vectors, k))
        depth = max(k, FUSED_DEPTH)
        ranking_pairs = zip(
            self._ordered(self.by_texts(queries, depth)), self._ordered(self.by_vectors(vectors, depth)), strict=True
        )
        return [self._fused(pair)[:k] for pair in ranking_pairs]

    def _ordered(self, rankings: Iterable[Iterable[ScoredRecord]]) -> list[list[ScoredRecord]]:
        """Sort rankings best first, and equal scores by id, because engines give these in any order.

        A score that is not finite becomes 0: a vector of zeros has no cosine.
        """
        sound = [[(record, score if np.isfinite(score) else 0.0) for record, score in ranking] for ranking in rankings]
        return [sorted(ranking, key=lambda scored: (-scored[1], self.id_of(scored[0]))) for ranking in sound]

    def _fused(self, rankings: Iterable[Sequence[ScoredRecord]]) -> list[ScoredRecord]:
        scores: dict[str, float] = {}
        records: dict[str, Record] = {}
        for ranking in rankings:
            for rank, (record, _) in enumerate(ranking, 1):
                identity = self.id_of(record)
                scores[identity] = scores.get(identity, 0.0) + 1 / (FUSED + rank)
                records.setdefault(identity, record)
        return [(records[identity], score) for identity, score in sorted(scores.items(), key=lambda item: -item[1])]

    def passage(self, record: Record, score: float, rank: int, corpus: str, retriever: str) -> Passage:
        """Return the passage of a record. A passage without a document is its own document."""
        identity = self.id_of(record)
        return Passage(
            id=identity, document=text_of(record, self.options.document) or identity,
            title=text_of(record, self.options.title),
            text=text_of(record, self.options.text), corpus=corpus, score=score, rank=rank, retriever=retriever,
        )  # fmt: skip

    def id_of(self, record: Record) -> str:
        """Return the id of a record, or a hash of its text."""
        text = text_of(record, self.options.text).encode("utf-8", "replace")
        return text_of(record, self.options.id) or hashlib.blake2b(text, digest_size=8).hexdigest()

    def with_id(self, record: Record, engine_id: object) -> Record:
        """Return a record with the engine's id if it has no id in a field."""
        return record if text_of(record, self.options.id) else {**record, self.options.id: engine_id}

    def row_of(self, record: Record) -> tuple[str, str]:
        """Return id and text of a record, for a sample."""
        return self.id_of(record), text_of(record, self.options.text)

    @property
    def read_fields(self) -> list[str]:
        """Fields that a passage is made of, each once. Vectors are never fetched."""
        parameters = self.options
        return [
            field
            for field in dict.fromkeys((parameters.id, parameters.text, parameters.title, parameters.document))
            if field
        ]


def paths_in(record: Record, before: str = "") -> Iterator[str]:
    """Yield the names of a record's fields, with dots for those inside others."""
    for name, value in record.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping):
            yield from paths_in(value, f"{before}{name}.")


_CLASS_NAME_PARTS = {
    "timeout": ("Timeout", "TimedOut"),
    "tls": ("SSLError", "TlsError"),
    "connection": (
        "Connect", "NetworkError", "RemoteProtocolError", "ServerDisconnectedError", "ServiceUnavailable"
    ),
}  # fmt: skip
"""Parts of the class names of clients' errors, by kind."""


def client_fault(error: Exception) -> str:
    """Return the kind of an unknown client's error, by its status or by its class and those of its causes.

    The kinds are those of :class:`EngineFault`; empty if unknown.
    """
    for cause in causes(error):
        if isinstance(cause, EngineFault):
            return cause.kind
        for holder in (cause, getattr(cause, "response", None)):
            for name in ("status_code", "http_status", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
                    return status_fault(status)
        class_names = [kind.__name__ for kind in type(cause).__mro__]
        for kind, parts in _CLASS_NAME_PARTS.items():
            if any(part in name for part in parts for name in class_names):
                return kind
    return ""


def status_fault(status: int) -> str:
    """Return the kind of an HTTP status, as :class:`EngineFault` names them; empty if it is no error."""
    kinds = {429: "rate_limit", 401: "auth", 403: "auth", 404: "missing", 408: "timeout"}
    return kinds.get(status, "server" if status >= 500 else "bad_request" if status >= 400 else "")
