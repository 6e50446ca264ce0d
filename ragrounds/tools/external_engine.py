"""One vendor's search engine behind its official client: how it connects, describes what is there, searches and
fills it. What all adapters share stands here; what a searcher makes of one in :mod:`ragrounds.tools.external_index`."""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from ragrounds.errors import UserError, nearest
from ragrounds.http import causes
from ragrounds.records import Passage
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    FieldMap,
    Record,
    key_of,
    place_of,
    query_encoding,
    text_of,
)
from ragrounds.tools.push import PushRow, PushTarget

Vendor = Any
"""What a vendor's client is or gives: its types are its own matter, and the tests run the real one."""
FUSED = 60
"""The constant of reciprocal rank fusion."""
FUSED_DEPTH = 100
"""Passages of each ranking that are fused, or `k` where that is more."""


class EngineHit(msgspec.Struct, frozen=True):
    """What an engine found: `score` is the greater the better."""

    id: str
    score: float
    record: Record

    def passage(self, fields: FieldMap, rank: int, corpus: str, retriever: str) -> Passage:
        """The passage that was found. One without a document is a document of its own."""
        return Passage(
            id=self.id,
            document=text_of(self.record, fields.document) or self.id,
            title=text_of(self.record, fields.title),
            text=text_of(self.record, fields.text),
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


class ExternalEngine(PushTarget):
    """One table, collection or index behind its vendor's official client, with blocking calls that several threads make
    at a time. Every call may raise the client's own errors: :meth:`fault` says which of them pass."""

    parameters: ClassVar[type[ExternalParameters]]
    place: ClassVar[str] = "collection"
    """The parameter that names what is searched, and what the vendor calls it."""
    extra: ClassVar[str]
    """The extra of this package that brings the client."""
    by_words: ClassVar[bool] = True
    """Whether it searches by words, too."""

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        """Nothing is opened before the first call.

        Args:
            given: The parameters of the spec.
            name: The retriever's.
            filling: It is opened to be filled: what it names need not be there.

        Raises:
            UserError: nothing is named, no place or two are, or a variable is not set.
        """
        self.given, self.name, self.filling = given, name, filling
        self.map = given.fields
        self.named = str(getattr(given, self.place))
        self.local = bool(getattr(given, "path", ""))
        self.address, self.key = place_of(given, name), key_of(given, name)
        if not self.named:
            raise UserError(f"{name} needs its {self.place}: {name}[{self.place}=NAME].")
        self.names = flat_fields(self.map, name) if filling else {}
        self.dimensions = 0
        """Of the vectors that are pushed; 0: none."""
        self.metric: Metric = "cosine"
        self._opening = threading.RLock()
        self._client: Vendor = None

    @abstractmethod
    def connect(self) -> Vendor:
        """The vendor's client, imported here. ImportError: it is not installed."""

    @abstractmethod
    def look(self, client: Vendor) -> None:
        """Read what a search has to know of what is there, by :meth:`check_named` whether it is. Not asked to fill."""

    def release(self, client: Vendor) -> None:
        """Give a client back."""
        client.close()

    @property
    def client(self) -> Vendor:
        """The client, connected and looked at once."""
        with self._opening:
            if self._client is None:
                try:
                    client = self.connect()
                except ImportError:
                    raise UserError(f"{self.name} needs its client: install ragrounds[{self.extra}].") from None
                try:
                    if not self.filling:
                        self.look(client)
                except BaseException:
                    self.release(client)
                    raise
                self._client = client
            return self._client

    def close(self) -> None:
        """Give back the connections."""
        client, self._client = self._client, None
        if client is not None:
            self.release(client)

    @abstractmethod
    def fields(self) -> Sequence[str]:
        """Names of the fields that records have, for errors; empty: not known."""

    @abstractmethod
    def sample(self, most: int) -> EngineSample:
        """The number of passages, and ids and texts of at most `most` of them."""

    @abstractmethod
    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector, shape (queries, dimensions), the `k` nearest passages, best first."""

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best passages by their words, best first."""
        raise NotImplementedError

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best passages by words and vectors: by reciprocal rank, where the engine has no way of
        its own."""
        depth = max(k, FUSED_DEPTH)
        texts, nearest_ones = self.by_texts(queries, depth), self.by_vectors(vectors, depth)
        return [fused_hits(pair, k) for pair in zip(texts, nearest_ones, strict=True)]

    def records(self, document: str) -> list[Record]:
        """The records of a document, in their order; empty: the engine cannot tell."""
        return []

    def fault(self, error: Exception) -> str:
        """By what clients have in common; see :meth:`ragrounds.tools.push.PushTarget.fault`."""
        return client_fault(error)

    @abstractmethod
    def there(self) -> tuple[Sequence[str], int] | None:
        """The names of the fields of what is there, and the dimensions of its vectors (0: none, -1: any); ``None``:
        there is nothing yet."""

    @abstractmethod
    def create(self) -> None:
        """Make it, for :attr:`names`, :attr:`dimensions` and :attr:`metric`."""

    @abstractmethod
    def count(self) -> int:
        """How many passages it holds."""

    def begin(self, dimensions: int, metric: Metric) -> int:
        """See :meth:`ragrounds.tools.push.PushTarget.begin`."""
        self.dimensions, self.metric = dimensions, metric
        there = self.there()
        if there is None:
            self.create()
            return 0
        found, held = there
        absent = [name for one, name in self.names.items() if name not in found and (one != "vector" or dimensions)]
        if absent:
            raise UserError(
                f"{self.name}'s {self.place} {self.named!r} is there and has no field {absent[0]!r}: its fields are "
                f"{', '.join(found)}. Name another {self.place}, or its fields: {self.name}[text=…,title=…]."
            )
        if dimensions and held not in (dimensions, -1):
            raise UserError(
                f"The vectors of {self.name}'s {self.place} {self.named!r} have {held or 'no'} dimensions, these "
                f"{dimensions}: name another {self.place}."
            )
        return self.count()

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """The spec that searches what was pushed; without a table or collection, the one of our index' name."""
        return spec if cls.place in spec.parameters else spec.having(**{cls.place: name})

    def check_named(self, held: Iterable[str]) -> None:
        """Refuse a table or collection that is not among those that there are.

        Raises:
            UserError: it is not; names those that there are.
        """
        names = sorted(held)
        if self.named not in names:
            listed = ", ".join(safe(one, 60) for one in names[:20]) or "none"
            raise UserError(
                f"{self.name} has no {self.place} {self.named!r}.{nearest(self.named, names)} Its {self.place}s: "
                f"{listed}."
            )

    def hit(self, record: Record, score: float) -> EngineHit:
        """A record that was found. One without an id is called by a hash of its text."""
        return EngineHit(self.id_of(record), float(score), record)

    def id_of(self, record: Record) -> str:
        """The id of a record, or a hash of its text."""
        text = text_of(record, self.map.text)
        return (
            text_of(record, self.map.id) or hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
        )

    def row_of(self, record: Record) -> tuple[str, str]:
        """Id and text of a record, for a sample."""
        return self.id_of(record), text_of(record, self.map.text)

    def read(self) -> list[str]:
        """The fields that a passage is made of, each once. Vectors are never sent along."""
        return [one for one in dict.fromkeys((self.map.id, self.map.text, self.map.title, self.map.document)) if one]

    def texts_of(self, row: PushRow) -> dict[str, object]:
        """A passage on its way as a record, without its vector."""
        return {self.names[one]: getattr(row, one) for one in ("id", "document", "title", "text")}


def in_order(hits: Iterable[EngineHit]) -> list[EngineHit]:
    """Hits, best first; of equal scores by id, since engines give them in any order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


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


def query_metric(given: ExternalParameters) -> Metric:
    """The metric of the model that makes vectors of queries; cosine where there is none, as in a search by words."""
    return query_encoding(given).metric if given.embed and given.mode != "text" else "cosine"


def paths_in(record: Record, before: str = "") -> Iterator[str]:
    """The names of a record's fields, with dots for those inside others."""
    for name, value in record.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping):
            yield from paths_in(value, f"{before}{name}.")


def tops(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns in which fields of these names stand: the very name, or the part before its first dot. Each once."""
    found = (name if name in columns else name.split(".")[0] for name in names)
    return list(dict.fromkeys(column for column in found if column in columns))


def flat_fields(fields: FieldMap, retriever: str) -> dict[str, str]:
    """What a pushed passage's id, document, title, text and vector are called in a table, which has no fields inside
    others.

    Raises:
        UserError: a name has a dot, or two are the same.
    """
    names = {one: str(getattr(fields, one)) for one in ("id", "document", "title", "text", "vector")}
    dotted = [name for name in names.values() if "." in name]
    if dotted or len(set(names.values())) < len(names):
        wrong = f"{dotted[0]!r} has a dot" if dotted else "two of them are the same"
        raise UserError(
            f"Cannot push to {retriever} under these names of fields: {wrong}. Give each a plain name, or none."
        )
    return names


def client_fault(error: Exception) -> str:
    """The kind of an error of some client that is not known here: by its status, or by how its class and those of what
    led to it are called. As :class:`EngineFault` names kinds; empty: not known."""
    for cause in causes(error):
        if isinstance(cause, EngineFault):
            return cause.kind
        if isinstance(cause, TimeoutError):
            return "timeout"
        if isinstance(cause, ConnectionError):
            return "connection"
        for holder in (cause, getattr(cause, "response", None), getattr(cause, "meta", None)):
            for name in ("status_code", "http_status", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
                    return status_fault(status)
        called = {kind.__name__ for kind in type(cause).__mro__}
        if any("Timeout" in name or "TimedOut" in name for name in called):
            return "timeout"
        if called & {"SSLError", "TlsError"}:
            return "tls"
        if any("Connect" in name for name in called) or called & _CONNECTION:
            return "connection"
        if "SerializationError" in called:
            return "malformed"
    return ""


_CONNECTION = {"NetworkError", "RemoteProtocolError", "ServerDisconnectedError", "ServiceUnavailable"}


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
