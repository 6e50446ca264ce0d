"""Elasticsearch and OpenSearch, as far as they are one: bodies out, answers in.

Both come from one ancestor and share ``match``, ``bool``, ``_msearch``, ``_bulk``, the form of answers, and the calls
of their clients; what differs (vectors, fusion, how a client is made) stands in their adapters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from ragrounds.errors import UserError
from ragrounds.specs import Spec
from ragrounds.tools.embedders import Vectors
from ragrounds.tools.external_engine import (
    FUSED_DEPTH,
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    Vendor,
    fused_hits,
    in_order,
    status_fault,
)
from ragrounds.tools.external_parameters import ExternalParameters, Record, json_filter, text_of
from ragrounds.tools.push import PushRow

Body = dict[str, object]
WINDOW = 10_000
"""Hits that a search gives at most, as both engines are set up (``index.max_result_window``)."""
OWN_ID = "_id"
"""What the engines call the id of a document of theirs."""
ALL: Body = {"match_all": {}}


class QueryParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both take."""

    index: str = ""
    id: str = OWN_ID
    searched: str = ""
    candidates: int = 0
    ca: str = ""


QUERY_WORDS: Mapping[str, str] = {
    "index": "the index, or an alias",
    "searched": 'fields whose words are searched, with weights: "title^2,text"; by default the text\'s',
    "candidates": "vectors looked at in each shard; 0: as many as hits, 100 at least",
    "ca": "file with the certificates that the server's is signed by",
    "filter": 'a query as JSON, or in the syntax of query_string: "year:>2015"',
    "key_env": "environment variable that holds user:password, or a key alone",
    "id": "field of a passage's id; _id: the engine's own",
}


class QueryEngine(ExternalEngine):
    """One index. What differs between the two, searching by vectors and fusing, is left to subclasses."""

    parameters = QueryParameters
    given: QueryParameters
    place = "index"
    dimensions_key: ClassVar[str]
    """What a mapping calls the dimensions of vectors."""

    def __init__(self, given: ExternalParameters, name: str, *, filling: bool = False) -> None:
        super().__init__(given, name, filling=filling)
        text = given.filter.strip()
        self.filters: list[Body] = [{"query_string": {"query": text}}] if text else []
        if text.startswith("{"):
            self.filters = [json_filter(text, name, '{"term": {"year": 2015}}') or {}]

    @abstractmethod
    def vector_body(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""

    @abstractmethod
    def index_body(self, fields: Body) -> Body:
        """The index that is made, with the mapping of these texts and, where there are dimensions, of the vector."""

    def words_query(self, text: str) -> Body:
        """A query by words, BM25 unless the index is set up otherwise; operators in the text mean nothing."""
        names = [name.strip() for name in self.given.searched.split(",") if name.strip()]
        matching: Body = (
            {"multi_match": {"query": text, "fields": names}} if names else {"match": {self.map.text: {"query": text}}}
        )
        return {"bool": {"must": [matching], "filter": self.filters}} if self.filters else matching

    def login(self) -> tuple[str, tuple[str, str] | None, str]:
        """What reaches the server: its address without a login, the login, and a key alone. A login may stand in the
        address; the key is ``user:password``, a key alone, or the password of the user in the address."""
        parts = urlsplit(self.address)
        plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if self.key and user:
            return plain, (user, self.key), ""
        if ":" in self.key:
            name, _, secret = self.key.partition(":")
            return plain, (name, secret), ""
        return plain, (user, password) if user else None, self.key

    def look(self, client: Vendor) -> None:
        """Whether there is such an index."""
        if not client.indices.exists(index=self.named):
            raise UserError(f"{self.name} has no index {self.named!r} there.")

    def fields(self) -> Sequence[str]:
        """The fields of the mapping, of one index or of all behind an alias, with dots."""
        found = [OWN_ID]
        for one in self._mappings():
            found += _properties(one, "")
        return list(dict.fromkeys(found))

    def _mappings(self) -> list[Mapping[str, Vendor]]:
        answer = _body(self.client.indices.get_mapping(index=self.named))
        return [one.get("mappings") or {} for one in answer.values()]

    def sample(self, most: int) -> EngineSample:
        """The number of documents, and ids and texts of all, or how often each shard was changed.

        Raises:
            UserError: there are more than `most`, and the server does not tell of changes.
        """
        query: Body = {"bool": {"filter": self.filters}} if self.filters else ALL
        count = self._count(query)
        if count <= most:
            [hits] = self._found([{"query": query}], most)
            return EngineSample(count, tuple((hit.id, text_of(hit.record, self.map.text)) for hit in hits))
        stats = self.client.indices.stats(index=self.named, metric="docs", level="shards")
        mark = changes_of(_body(stats))
        if not mark:
            raise UserError(
                f"{self.name} does not tell how often the index {self.named!r} was changed (`_stats`, the privilege "
                "`monitor`). Say by yourself which version it is: version=2026-01, say."
            )
        return EngineSample(count, (), mark)

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest documents, with the engine's own scores."""
        return self._found([self.vector_body(row.tolist(), k) for row in vectors], k)

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best documents by their words."""
        return self._found([{"query": self.words_query(query)} for query in queries], k)

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, asked for in one request and fused by reciprocal rank: the
        engines' own fusion is a part of paid licences, or of late versions."""
        depth = max(k, FUSED_DEPTH)
        bodies: list[Body] = []
        for query, row in zip(queries, vectors, strict=True):
            bodies += [{"query": self.words_query(query)}, self.vector_body(row.tolist(), depth)]
        rankings = self._found(bodies, depth)
        return [fused_hits(rankings[place : place + 2], k) for place in range(0, len(rankings), 2)]

    def records(self, document: str) -> list[Record]:
        """The documents of ours that stand under a document's id, by id."""
        terms = [{"term": {f"{self.map.document}{keyword}": document}} for keyword in ("", ".keyword")]
        [hits] = self._found([{"query": {"bool": {"should": terms, "minimum_should_match": 1}}}], WINDOW)
        return [hit.record for hit in sorted(hits, key=lambda hit: hit.id)]

    def _found(self, bodies: Sequence[Body], k: int) -> list[list[EngineHit]]:
        """The hits of several searches: one by itself, more in one request (``_msearch``).

        Raises:
            EngineFault: see :meth:`hits_of`; also where the answers are not as many as the searches.
        """
        if k > WINDOW:
            raise EngineFault("bad_request", f"{k:,} passages were asked for; an index gives {WINDOW:,} at most")
        # Of the fields only those of a passage: vectors are never sent.
        page = {"size": k, "_source": [one for one in self.read() if one != OWN_ID], "track_total_hits": False}
        whole = [{**page, **body} for body in bodies]
        if len(whole) == 1:
            return [self.hits_of(_body(self.client.search(index=self.named, body=whole[0])), k)]
        lines = [line for body in whole for line in ({"index": self.named}, body)]
        answers = _body(self.client.msearch(body=lines)).get("responses") or []
        if len(answers) != len(bodies):
            raise EngineFault("malformed", f"{len(answers)} answers to {len(bodies)} searches")
        return [self.hits_of(answer, k) for answer in answers]

    def hits_of(self, answer: Vendor, k: int) -> list[EngineHit]:
        """The hits of an answer to one search, best first.

        Raises:
            EngineFault: the answer is an error, was cut short, or leaves a part of the index out.
        """
        if not isinstance(answer, Mapping):
            raise EngineFault("malformed", "the answer is no object")
        if "error" in answer:
            raise _refused(answer)
        shards = answer.get("_shards")
        failed = shards.get("failed", 0) if isinstance(shards, Mapping) else 0
        if answer.get("timed_out") is True or failed:
            # A part of the hits is no answer: which part is luck.
            raise EngineFault("server", f"the search was not made on all of the index ({failed} shards failed)")
        held = answer.get("hits")
        rows = held.get("hits") if isinstance(held, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise EngineFault("malformed", "the answer has no list of hits")
        return in_order(self._hit(row) for row in rows[:k])

    def _hit(self, row: Mapping[str, Vendor]) -> EngineHit:
        source, score = row.get("_source"), row.get("_score")
        record = {**(source if isinstance(source, Mapping) else {}), OWN_ID: row.get(OWN_ID)}
        if not isinstance(score, int | float):
            raise EngineFault("malformed", f"a hit has the score {score!r}")
        return EngineHit(text_of(record, self.map.id) or text_of(record, OWN_ID), float(score), record)

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """Both take names in small letters alone."""
        return super().filled(spec, name.lower())

    def there(self) -> tuple[Sequence[str], int] | None:
        """The dimensions of the vectors; other fields are added where they are not there."""
        if not self.client.indices.exists(index=self.named):
            return None
        vectors = [(one.get("properties") or {}).get(self.names["vector"]) or {} for one in self._mappings()]
        held = {int(one.get(self.dimensions_key) or 0) for one in vectors}
        return list(self.names.values()), held.pop() if len(held) == 1 else 0

    def create(self) -> None:
        """Words are searched in text and title, the rest is kept whole."""
        fields: Body = {self.names[one]: {"type": "keyword"} for one in ("document", "id") if self.names[one] != OWN_ID}
        fields |= {self.names[one]: {"type": "text", "analyzer": "english"} for one in ("title", "text")}
        self.client.indices.create(index=self.named, body=self.index_body(fields))

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages by their ids (``_bulk``), in place of those with the same id.

        Raises:
            EngineFault: one was refused: the first is told. 429 and what is the server's own passes.
        """
        lines: list[Body] = []
        for row in rows:
            record = self.texts_of(row)
            record.pop(OWN_ID, None)
            if row.vector is not None:
                record[self.names["vector"]] = row.vector.tolist()
            lines += [{"index": {"_index": self.named, OWN_ID: row.id}}, record]
        answer = _body(self.client.bulk(body=lines))
        if answer.get("errors") is not True:
            return
        for item in answer.get("items") or ():
            told = item.get("index")
            if told and "error" in told:
                raise _refused(told, f"{told.get(OWN_ID)!r}: ")
        raise EngineFault("server", "some passages were refused, without a reason")

    def end(self) -> int:
        """Make everything searchable; gives the number of documents."""
        self.client.indices.refresh(index=self.named)
        return self.count()

    def count(self) -> int:
        """The number of documents."""
        return self._count(ALL)

    def _count(self, query: Body) -> int:
        return int(_body(self.client.count(index=self.named, body={"query": query}))["count"])


def _body(answer: Vendor) -> Mapping[str, Vendor]:
    """The body of an answer, which is an object of its own in Elasticsearch's client."""
    body = getattr(answer, "body", answer)
    return body if isinstance(body, Mapping) else {}


def _refused(answer: Mapping[str, Vendor], before: str = "") -> EngineFault:
    """What an engine's error says: its kind, its reason and those of its first cause, on one line."""
    status, error = answer.get("status"), answer["error"]
    said = str(error)
    if isinstance(error, Mapping):
        first = (error.get("root_cause") or [None])[0]
        parts = [error.get("type"), error.get("reason")]
        if isinstance(first, Mapping) and first.get("reason") != error.get("reason"):
            parts.append(first.get("reason"))
        said = ": ".join(str(part) for part in parts if part)
    kind = status_fault(status) if isinstance(status, int) else ""
    return EngineFault(kind or "bad_request", f"{before}{said[:400]}")


def _properties(node: Mapping[str, Vendor], before: str) -> list[str]:
    found = []
    for name, inside in (node.get("properties") or {}).items():
        found += [f"{before}{name}", *_properties(inside, f"{before}{name}.")]
    return found


def changes_of(stats: Mapping[str, Vendor]) -> str:
    """How often an index was changed, by the numbers that every operation on a shard gets (``GET
    /INDEX/_stats?level=shards``): the index' own id and the highest number of each primary shard. Empty: not told."""
    marks = []
    for name, one in sorted((stats.get("indices") or {}).items()):
        numbers = [
            f"{shard}:{int(copy.get('seq_no', {}).get('max_seq_no', -1))}"
            for shard, copies in sorted((one.get("shards") or {}).items())
            for copy in copies
            if (copy.get("routing") or {}).get("primary") is True and "seq_no" in copy
        ]
        if not numbers:
            return ""
        marks.append(f"{name}/{one.get('uuid', '')}/{','.join(numbers)}")
    return " ".join(marks)
