"""Elasticsearch and OpenSearch, as far as they are one: bodies out, answers in.

Both come from one ancestor and share ``match``, ``bool``, ``_bulk``, the form of answers, and the calls of their
clients; what differs (vectors, how a client is made) stands in their adapters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar
from urllib.parse import unquote, urlsplit, urlunsplit

from ragrounds.specs import Spec
from ragrounds.tools.embedders import Vectors
from ragrounds.tools.external_engine import EngineFault, ExternalEngine, Found, Held, Vendor, status_fault
from ragrounds.tools.external_parameters import ExternalParameters, Record, json_given
from ragrounds.tools.push import PushRow

Body = dict[str, Vendor]
WINDOW = 10_000
"""Hits that a search gives at most, as both engines are set up (``index.max_result_window``)."""
OWN_ID = "_id"
"""What the engines call the id of a document of theirs."""


class QueryParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both take."""

    key_env: Annotated[str, "environment variable that holds user:password, or a key alone"] = ""
    id: Annotated[str, "field of a passage's id; _id: the engine's own"] = OWN_ID
    filter: Annotated[str, 'a query as JSON, or in the syntax of query_string: "year:>2015"'] = ""
    index: Annotated[str, "the index, or an alias"] = ""
    searched: Annotated[
        str, 'fields whose words are searched, with weights: "title^2,text"; by default the text\'s'
    ] = ""
    options: Annotated[str, "what a search by vectors says besides, as JSON"] = ""
    ca: Annotated[str, "file with the certificates that the server's is signed by"] = ""


class QueryEngine(ExternalEngine):
    """One index. What differs between the two, searching by vectors, is left to subclasses."""

    parameters = QueryParameters
    given: QueryParameters
    place = "index"
    dimensions_key: ClassVar[str]
    """What a mapping calls the dimensions of vectors."""

    def __init__(self, given: ExternalParameters, spec: Spec, *, filling: bool = False) -> None:
        super().__init__(given, spec, filling=filling)
        text = given.filter.strip()
        self.filters: list[Body] = [{"query_string": {"query": text}}] if text else []
        if text.startswith("{"):
            self.filters = [json_given(text, "filter", self.name, '{"term": {"year": 2015}}')]
        self.options = json_given(self.given.options, "options", self.name, '{"k": 200}')
        parts = urlsplit(self.address)
        self.plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        """The address without a login."""
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if ":" in self.key and not user:
            user, _, password = self.key.partition(":")
        elif user:
            password = self.key or password
        self.user = (user, password) if user else None
        """The login: of ``user:password`` in the key, or of the address, whose password the key may be."""
        self.token = "" if user else self.key

    @abstractmethod
    def near(self, vector: Sequence[float], k: int) -> Body:
        """A search by a vector."""

    @abstractmethod
    def index_body(self, fields: Body) -> Body:
        """The index that is made, with the mapping of these texts and, where there are dimensions, of the vector."""

    def look(self, client: Vendor) -> Held | None:
        """The fields of the mapping, of one index or of all behind an alias, with dots."""
        if not client.indices.exists(index=self.named):
            return None
        answer = _body(client.indices.get_mapping(index=self.named))
        mappings = [one.get("mappings") or {} for one in answer.values()]
        fields = [OWN_ID, *(name for one in mappings for name in _properties(one, ""))]
        vectors = [(one.get("properties") or {}).get(self.given.vector) or {} for one in mappings]
        held = {int(one.get(self.dimensions_key) or 0) for one in vectors}
        # Fields that are filled are added where they are not there.
        return Held([] if self.filling else list(dict.fromkeys(fields)), held.pop() if len(held) == 1 else 0)

    def others(self, client: Vendor) -> Iterable[str]:
        """Not asked for: a login often may not see them."""
        return ()

    def count(self) -> int:
        """The number of documents."""
        query = {"bool": {"filter": self.filters}}
        return int(_body(self.client.count(index=self.named, body={"query": query}))["count"])

    def sample(self, count: int, most: int) -> Iterable[tuple[str, str]]:
        """All documents, or how often each shard was changed.

        Raises:
            EngineFault: there are more than `most`, and the server does not tell of changes.
        """
        if count <= most:
            hits = self._found({"query": {"bool": {"filter": self.filters}}}, most)
            return [self.row_of(record) for record, _ in hits]
        stats = _body(self.client.indices.stats(index=self.named, metric="docs", level="shards"))
        marks = list(changes_of(stats))
        if not marks:
            raise EngineFault(
                "missing",
                f"it does not tell how often the index {self.named!r} was changed (`_stats`, the privilege "
                "`monitor`): say by yourself which version it is, version=2026-01, say",
            )
        return [("", mark) for mark in marks]

    def by_vectors(self, vectors: Vectors, k: int) -> Iterable[Iterable[Found]]:
        """For each vector the `k` nearest documents, with the engine's own scores."""
        return [self._found(self.near(row.tolist(), k), k) for row in vectors]

    def by_texts(self, queries: Sequence[str], k: int) -> Iterable[Iterable[Found]]:
        """For each query the `k` best documents by their words, BM25 unless the index is set up otherwise; operators in
        the text mean nothing."""
        names = [name.strip() for name in self.given.searched.split(",") if name.strip()] or [self.given.text]
        for query in queries:
            matching = {"multi_match": {"query": query, "fields": names}}
            yield self._found({"query": {"bool": {"must": [matching], "filter": self.filters}}}, k)

    def records(self, document: str) -> Sequence[Record]:
        """The documents of ours that stand under a document's id."""
        terms = [{"term": {f"{self.given.document}{keyword}": document}} for keyword in ("", ".keyword")]
        hits = self._found({"query": {"bool": {"should": terms, "minimum_should_match": 1}}}, WINDOW)
        return [record for record, _ in hits]

    def _found(self, asked: Body, k: int) -> list[Found]:
        """What a search finds.

        Raises:
            EngineFault: the answer was cut short, leaves a part of the index out, or has another form.
        """
        if k > WINDOW:
            raise EngineFault("bad_request", f"{k:,} passages were asked for; an index gives {WINDOW:,} at most")
        # Of the fields only those of a passage: vectors are never sent.
        read = [one for one in self.read if one != OWN_ID]
        whole = {"size": k, "_source": read, "track_total_hits": False, **asked}
        answer = _body(self.client.search(index=self.named, body=whole))
        shards, held = answer.get("_shards"), answer.get("hits")
        failed = shards.get("failed", 0) if isinstance(shards, Mapping) else 0
        if answer.get("timed_out") is True or failed:
            # A part of the hits is no answer: which part is luck.
            raise EngineFault("server", f"the search was not made on all of the index ({failed} shards failed)")
        rows = held.get("hits") if isinstance(held, Mapping) else None
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            raise EngineFault("malformed", "the answer has no list of hits")
        found: list[Found] = []
        for row in rows[:k]:
            source, score = row.get("_source"), row.get("_score")
            if not isinstance(score, int | float):
                raise EngineFault("malformed", f"a hit has the score {score!r}")
            record = {**(source if isinstance(source, Mapping) else {}), OWN_ID: row.get(OWN_ID)}
            found.append((self.with_id(record, row.get(OWN_ID)), float(score)))
        return found

    @classmethod
    def filled(cls, spec: Spec, name: str) -> Spec:
        """Both take names in small letters alone."""
        return super().filled(spec, name.lower())

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
        for item in answer.get("items") or () if answer.get("errors") is True else ():
            told = item.get("index")
            if told and "error" in told:
                error, status = told["error"], told.get("status")
                said = f"{error.get('type')}: {error.get('reason')}" if isinstance(error, Mapping) else str(error)
                kind = status_fault(status) if isinstance(status, int) else ""
                raise EngineFault(kind or "bad_request", f"{told.get(OWN_ID)!r}: {said[:400]}")

    def finish(self) -> None:
        """Make everything searchable."""
        self.client.indices.refresh(index=self.named)


def _body(answer: Vendor) -> Mapping[str, Vendor]:
    """The body of an answer, which is an object of its own in Elasticsearch's client."""
    body = getattr(answer, "body", answer)
    return body if isinstance(body, Mapping) else {}


def _properties(node: Mapping[str, Vendor], before: str) -> list[str]:
    found = []
    for name, inside in (node.get("properties") or {}).items():
        found += [f"{before}{name}", *_properties(inside, f"{before}{name}.")]
    return found


def changes_of(stats: Mapping[str, Vendor]) -> Iterable[str]:
    """How often each shard of an index was changed, by the numbers that every operation gets (``GET
    /INDEX/_stats?level=shards``), with the index' own id."""
    for name, one in (stats.get("indices") or {}).items():
        for shard, copies in (one.get("shards") or {}).items():
            for copy in copies:
                if (copy.get("routing") or {}).get("primary") is True and "seq_no" in copy:
                    yield f"{name}/{one.get('uuid', '')}/{shard}:{copy['seq_no'].get('max_seq_no')}"
