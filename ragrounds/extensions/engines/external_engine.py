"""One vendor's search engine behind its official client: how it connects, what it holds, how it searches.
What all adapters share stands here; what a searcher makes of one in
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
    check_fields,
    place_of,
    query_encoding,
    secrets_in,
    text_of,
    variable,
)
from ragrounds.tools.index.embedders import Metric, Vectors

Vendor = Any
"""What a vendor's client is or gives: its types are its own matter, and the tests run the real one."""
FUSED = 60
"""The constant of reciprocal rank fusion."""
FUSED_DEPTH = 100
"""Passages of each ranking that are fused, or `k` where that is more."""
Found = tuple[Record, float]
"""A record that was found, with its score: the greater the better."""


@dataclass(frozen=True)
class Held:
    """What an engine says of the table, collection or index that a spec names."""

    fields: Sequence[str]
    """Names of the fields that records have; empty: not known."""
    metric: Metric | None = None
    """By which its vectors are compared; ``None``: the question says."""


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


class ExternalEngine(ABC):
    """One table, collection or index behind its vendor's official client, with blocking calls that several threads make
    at a time. Every call may raise the client's own errors: :meth:`fault` says which of them pass."""

    parameters: ClassVar[type[ExternalParameters]]
    place: ClassVar[str] = "collection"
    """The parameter that names what is searched, and what the vendor calls it."""
    extra: ClassVar[str]
    """The extra of this package that brings the client."""
    by_words: ClassVar[bool] = True
    """Whether it searches by words, too."""

    def __init__(self, given: ExternalParameters, spec: Spec) -> None:
        """Nothing is opened before the first call.

        Args:
            given: The parameters of the spec.
            spec: The retriever.

        Raises:
            UserError: nothing is named, no place or two are, or a variable is not set.
        """
        self.given, self.name, self.spec = given, spec.name, str(spec)
        self.named = str(getattr(given, self.place))
        self.local = bool(getattr(given, "path", ""))
        self.address = place_of(given, self.name)
        self.key = variable(given.key_env, "key_env", self.name)
        self.secrets = secrets_in(self.address, self.key, *self.key.split(":", 1)[1:])
        if not self.named:
            raise UserError(f"{self.name} needs its {self.place}: {self.name}[{self.place}=NAME].")
        self.metric: Metric = "cosine"
        self._opening = threading.RLock()
        self._client: Vendor = None

    @abstractmethod
    def connect(self) -> Vendor:
        """The vendor's client, imported here. ImportError: it is not installed."""

    def release(self, client: Vendor) -> None:
        """Give a client back."""
        client.close()

    @abstractmethod
    def look(self, client: Vendor) -> Held | None:
        """What is there under the name; ``None``: nothing."""

    @abstractmethod
    def others(self, client: Vendor) -> Iterable[str]:
        """The names of what else could be searched, for an error."""

    @abstractmethod
    def count(self) -> int:
        """How many passages it holds, under the filter where there is one."""

    @abstractmethod
    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """Ids and texts of all passages, or of `most` that the engine gives again as long as they are unchanged; what
        it counts of its own changes may stand among them.

        Args:
            count: As :meth:`count` gave it.
            most: Rows at most.
        """

    @abstractmethod
    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """For each vector, shape (queries, dimensions), the `k` nearest records."""

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """For each query the `k` best records by their words."""
        raise NotImplementedError

    @abstractmethod
    def records(self, document: str) -> Sequence[Record]:
        """The records of a document; empty: the engine cannot tell."""

    def fault(self, error: Exception) -> str:
        """The kind of a client's error, as :class:`EngineFault` names them; empty: not known, it does not pass."""
        return client_fault(error)

    @property
    def client(self) -> Vendor:
        """The client, connected once; what is to be searched was found there.

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
        held = self.look(client)
        if held is None:
            names = sorted(self.others(client))
            listed = ", ".join(safe(one, 60) for one in names[:20]) or "none"
            raise UserError(
                f"{self.name} has no {self.place} {self.named!r}.{nearest(self.named, names)} Its {self.place}s: "
                f"{listed}."
            )
        check_fields(self.given, held.fields, self.name)
        asked = query_encoding(self.given).metric if self.given.embed and self.given.mode != "text" else "cosine"
        self.metric = held.metric or asked

    def close(self) -> None:
        """Give back the connections."""
        client, self._client = self._client, None
        if client is not None:
            self.release(client)

    def version(self, most: int) -> str:
        """Twelve hexadecimal digits of the number of passages and of the sampled ids and texts, by id."""
        _, count = self.client, self.count()
        digest = hashlib.blake2b(f"{count}".encode(), digest_size=6)
        for identity, text in sorted(self.sample(count, most)):
            digest.update(hashlib.blake2b(f"{identity}\0{text}".encode("utf-8", "replace"), digest_size=16).digest())
        return digest.hexdigest()

    def ranked(self, queries: Sequence[str], vectors: Vectors | None, k: int, mode: str = "") -> list[list[Found]]:
        """For each query the `k` best records, best first, by default in the mode of the spec; both rankings are fused
        by reciprocal rank."""
        _ = self.client
        if vectors is None:
            return self._ordered(self.by_texts(queries, k))
        if (mode or self.given.mode) == "vector":
            return self._ordered(self.by_vectors(vectors, k))
        depth = max(k, FUSED_DEPTH)
        both = zip(
            self._ordered(self.by_texts(queries, depth)), self._ordered(self.by_vectors(vectors, depth)), strict=True
        )
        return [self._fused(pair)[:k] for pair in both]

    def _ordered(self, rankings: Iterable[Iterable[Found]]) -> list[list[Found]]:
        """Best first; of equal scores by id, since engines give them in any order. A vector of zeros has no cosine."""
        sound = [[(record, score if np.isfinite(score) else 0.0) for record, score in one] for one in rankings]
        return [sorted(one, key=lambda found: (-found[1], self.id_of(found[0]))) for one in sound]

    def _fused(self, rankings: Iterable[Sequence[Found]]) -> list[Found]:
        scores: dict[str, float] = {}
        records: dict[str, Record] = {}
        for ranking in rankings:
            for rank, (record, _) in enumerate(ranking, 1):
                identity = self.id_of(record)
                scores[identity] = scores.get(identity, 0.0) + 1 / (FUSED + rank)
                records.setdefault(identity, record)
        return [(records[one], score) for one, score in sorted(scores.items(), key=lambda item: -item[1])]

    def passage(self, record: Record, score: float, rank: int, corpus: str, retriever: str) -> Passage:
        """The passage that a record holds. One without a document is a document of its own."""
        own = self.id_of(record)
        return Passage(
            id=own, document=text_of(record, self.given.document) or own, title=text_of(record, self.given.title),
            text=text_of(record, self.given.text), corpus=corpus, score=score, rank=rank, retriever=retriever,
        )  # fmt: skip

    def id_of(self, record: Record) -> str:
        """The id of a record, or a hash of its text."""
        text = text_of(record, self.given.text).encode("utf-8", "replace")
        return text_of(record, self.given.id) or hashlib.blake2b(text, digest_size=8).hexdigest()

    def with_id(self, record: Record, own: object) -> Record:
        """A record that is called as the engine calls it, where it has no id in a field."""
        return record if text_of(record, self.given.id) else {**record, self.given.id: own}

    def row_of(self, record: Record) -> tuple[str, str]:
        """Id and text of a record, for a sample."""
        return self.id_of(record), text_of(record, self.given.text)

    @property
    def read(self) -> list[str]:
        """The fields that a passage is made of, each once. Vectors are never sent along."""
        given = self.given
        return [one for one in dict.fromkeys((given.id, given.text, given.title, given.document)) if one]


def paths_in(record: Record, before: str = "") -> Iterator[str]:
    """The names of a record's fields, with dots for those inside others."""
    for name, value in record.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping):
            yield from paths_in(value, f"{before}{name}.")


_CLASSES = {
    "timeout": ("Timeout", "TimedOut"),
    "tls": ("SSLError", "TlsError"),
    "connection": (
        "Connect", "NetworkError", "RemoteProtocolError", "ServerDisconnectedError", "ServiceUnavailable"
    ),
}  # fmt: skip
"""Kind → what stands in the names of the classes of clients' errors."""


def client_fault(error: Exception) -> str:
    """The kind of an error of some client that is not known here: by its status, or by how its class and those of what
    led to it are called. As :class:`EngineFault` names kinds; empty: not known."""
    for cause in causes(error):
        if isinstance(cause, EngineFault):
            return cause.kind
        for holder in (cause, getattr(cause, "response", None)):
            for name in ("status_code", "http_status", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
                    return status_fault(status)
        called = [kind.__name__ for kind in type(cause).__mro__]
        for kind, words in _CLASSES.items():
            if any(word in name for word in words for name in called):
                return kind
    return ""


def status_fault(status: int) -> str:
    """The kind of an HTTP status, as :class:`EngineFault` names them; empty: none."""
    named = {429: "rate_limit", 401: "auth", 403: "auth", 404: "missing", 408: "timeout"}
    return named.get(status, "server" if status >= 500 else "bad_request" if status >= 400 else "")
