"""The query language of Elasticsearch and OpenSearch, as far as retrieval needs it: bodies out, answers in.

Both come from one ancestor and share ``match``, ``bool``, ``_msearch``, ``_bulk`` and the form of answers; what differs
(vectors, fusion) stands in their adapters. Nothing here sends anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ragrounds.errors import UserError
from ragrounds.tools.engine_hits import flat_fields, in_order, texts_of
from ragrounds.tools.external_index import EngineFault, EngineHit, status_fault
from ragrounds.tools.external_parameters import ExternalParameters, FieldMap, text_of
from ragrounds.tools.push import PushRow

Body = dict[str, object]
Answer = Mapping[str, object]
WINDOW = 10_000
"""Hits that a search gives at most, as both engines are set up (``index.max_result_window``)."""
OWN_ID = "_id"
"""What the engines call the id of a document of theirs."""


class QueryParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What both take."""

    index: str = ""
    id: str = OWN_ID
    searched: str = ""
    fusion: str = "ours"
    candidates: int = 0
    ca: str = ""


QUERY_WORDS: Mapping[str, str] = {
    "index": "the index, or an alias",
    "searched": 'fields whose words are searched, with weights: "title^2,text"; by default the text\'s',
    "fusion": "of mode=hybrid: ours (reciprocal rank, under any licence), or engine (its own reciprocal rank fusion)",
    "candidates": "vectors looked at in each shard; 0: as many as hits, 100 at least",
    "ca": "file with the certificates that the server's is signed by",
    "filter": 'a query as JSON, or in the syntax of query_string: "year:>2015"',
    "key_env": "environment variable that holds user:password, or a key alone",
    "id": "field of a passage's id; _id: the engine's own",
}


def checked(given: QueryParameters, retriever: str) -> QueryParameters:
    """The parameters, if they can be used.

    Raises:
        UserError: no index, or a value that is not known.
    """
    if not given.index:
        raise UserError(f"{retriever} needs the name of an index: {retriever}[url=…,index=NAME].")
    if given.fusion not in ("ours", "engine"):
        raise UserError(f"Cannot use fusion={given.fusion!r} in {retriever}: expected ours or engine.")
    filter_of(given, retriever)
    return given


def filter_of(given: QueryParameters, retriever: str) -> list[Body]:
    """The filter as queries: none or one.

    Raises:
        UserError: it begins like JSON and is none.
    """
    text = given.filter.strip()
    if not text:
        return []
    if not text.startswith("{"):
        return [{"query_string": {"query": text}}]
    try:
        found = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError as problem:
        raise UserError(f"Cannot read filter={text[:80]!r} of {retriever} as JSON: {problem}.") from None
    return [found]


def words_query(given: QueryParameters, text: str, filters: Sequence[Body]) -> Body:
    """A query by words, BM25 unless the index is set up otherwise; operators in the text mean nothing."""
    names = [name.strip() for name in given.searched.split(",") if name.strip()]
    matching: Body = (
        {"multi_match": {"query": text, "fields": names}} if names else {"match": {given.text: {"query": text}}}
    )
    return {"bool": {"must": [matching], "filter": list(filters)}} if filters else matching


def page(given: QueryParameters, k: int) -> Body:
    """What every search says of its answer: how many hits, and which fields of them. Vectors are never sent."""
    fields = given.fields
    named = [fields.id, fields.text, fields.title, fields.document]
    return {"size": k, "_source": [name for name in named if name and name != OWN_ID], "track_total_hits": False}


def hits_of(answer: object, fields: FieldMap, k: int) -> list[EngineHit]:
    """The hits of an answer to one search, best first.

    Raises:
        EngineFault: the answer is an error, was cut short, or leaves a part of the index out.
    """
    if not isinstance(answer, Mapping):
        raise EngineFault("malformed", "the answer is no object")
    if "error" in answer:
        status = answer.get("status")
        kind = status_fault(status) if isinstance(status, int) else "bad_request"
        raise EngineFault(kind or "bad_request", said_of(answer["error"]))
    shards = answer.get("_shards")
    failed = shards.get("failed", 0) if isinstance(shards, Mapping) else 0
    if answer.get("timed_out") is True or failed:
        # A part of the hits is no answer: which part is luck.
        raise EngineFault("server", f"the search was not made on all of the index ({failed} shards failed)")
    held = answer.get("hits")
    rows = held.get("hits") if isinstance(held, Mapping) else None
    if not isinstance(rows, list):
        raise EngineFault("malformed", "the answer has no list of hits")
    return in_order(_hit(row, fields) for row in rows[:k])


def _hit(row: object, fields: FieldMap) -> EngineHit:
    if not isinstance(row, Mapping):
        raise EngineFault("malformed", "a hit is no object")
    source = row.get("_source")
    record = {**(source if isinstance(source, Mapping) else {}), OWN_ID: row.get(OWN_ID)}
    score = row.get("_score")
    if not isinstance(score, int | float):
        raise EngineFault("malformed", f"a hit has the score {score!r}")
    return EngineHit(text_of(record, fields.id) or text_of(record, OWN_ID), float(score), record)


def said_of(error: object) -> str:
    """What an engine's error says: its kind, its reason and those of its first cause, on one line."""
    if not isinstance(error, Mapping):
        return str(error)[:400]
    causes = error.get("root_cause")
    first = causes[0] if isinstance(causes, list) and causes else None
    parts = [error.get("type"), error.get("reason")]
    if isinstance(first, Mapping) and first.get("reason") != error.get("reason"):
        parts.append(first.get("reason"))
    return ": ".join(str(part) for part in parts if part)[:400]


def field_names(mapping: object) -> list[str]:
    """The fields of a mapping (``GET /INDEX/_mapping``, of one index or of all behind an alias), with dots."""
    found: dict[str, None] = {OWN_ID: None}
    for one in mapping.values() if isinstance(mapping, Mapping) else ():
        inside = one.get("mappings") if isinstance(one, Mapping) else None
        for name in _properties(inside, ""):
            found[name] = None
    return list(found)


def _properties(node: object, before: str) -> list[str]:
    held = node.get("properties") if isinstance(node, Mapping) else None
    found = []
    for name, inside in held.items() if isinstance(held, Mapping) else ():
        found += [f"{before}{name}", *_properties(inside, f"{before}{name}.")]
    return found


def changes_of(stats: object) -> str:
    """How often an index was changed, by the numbers that every operation on a shard gets (``GET
    /INDEX/_stats?level=shards``): the index' own id and the highest number of each primary shard. Empty: not told."""
    indices = stats.get("indices") if isinstance(stats, Mapping) else None
    marks = []
    for name, one in sorted(indices.items()) if isinstance(indices, Mapping) else ():
        if not isinstance(one, Mapping):
            return ""
        shards = one.get("shards")
        held = shards if isinstance(shards, Mapping) else {}
        numbers = [f"{shard}:{number}" for shard, copies in sorted(held.items()) for number in _primary(copies)]
        if not numbers:
            return ""
        marks.append(f"{name}/{one.get('uuid', '')}/{','.join(numbers)}")
    return " ".join(marks)


def _primary(copies: object) -> list[int]:
    for copy in copies if isinstance(copies, list) else ():
        routing, numbers = (copy.get("routing"), copy.get("seq_no")) if isinstance(copy, Mapping) else (None, None)
        if isinstance(routing, Mapping) and routing.get("primary") is True and isinstance(numbers, Mapping):
            return [int(str(numbers.get("max_seq_no", -1)))]
    return []


class SearchServer(Protocol):
    """What both clients do, in the same words: every call blocks, and raises the client's own errors."""

    def search(self, body: Body) -> Answer:
        """The answer to one search."""

    def msearch(self, bodies: Sequence[Body]) -> Sequence[object]:
        """The answers to several searches, in one request."""

    def count(self, body: Body) -> int:
        """How many documents a query finds."""

    def mapping(self) -> object:
        """The mapping of the index."""

    def stats(self) -> object:
        """How often each shard was changed."""

    def exists(self) -> bool:
        """Whether there is such an index."""

    def create(self, body: Body) -> None:
        """Make the index."""

    def bulk(self, lines: Sequence[Body]) -> Answer:
        """Carry out many changes in one request."""

    def refresh(self) -> None:
        """Make what was put in searchable."""

    def close(self) -> None:
        """Give back the connections."""


def found_by(server: SearchServer, bodies: Sequence[Body], fields: FieldMap, k: int) -> list[list[EngineHit]]:
    """The hits of several searches: one by itself, more in one request (``_msearch``).

    Raises:
        EngineFault: see :func:`hits_of`; also where the answers are not as many as the searches.
    """
    if k > WINDOW:
        raise EngineFault("bad_request", f"{k:,} passages were asked for; an index gives {WINDOW:,} at most")
    if len(bodies) == 1:
        return [hits_of(server.search(bodies[0]), fields, k)]
    answers = server.msearch(bodies)
    if len(answers) != len(bodies):
        raise EngineFault("malformed", f"{len(answers)} answers to {len(bodies)} searches")
    return [hits_of(answer, fields, k) for answer in answers]


def put_rows(server: SearchServer, rows: Sequence[PushRow], fields: FieldMap, index: str) -> None:
    """Insert passages by their ids (``_bulk``), in place of those with the same id.

    Raises:
        EngineFault: one was refused: the first is told. 429 and what is the server's own passes.
    """
    names = flat_fields(fields, index)
    lines: list[Body] = []
    for row in rows:
        record = texts_of(row, names)
        if names["id"] == OWN_ID:
            del record[OWN_ID]
        if row.vector is not None:
            record[names["vector"]] = row.vector.tolist()
        lines += [{"index": {"_index": index, OWN_ID: row.id}}, record]
    answer = server.bulk(lines)
    if answer.get("errors") is not True:
        return
    items = answer.get("items")
    for item in items if isinstance(items, list) else ():
        told = item.get("index") if isinstance(item, Mapping) else None
        if isinstance(told, Mapping) and "error" in told:
            status = told.get("status")
            kind = status_fault(status) if isinstance(status, int) else "bad_request"
            raise EngineFault(kind or "bad_request", f"{told.get(OWN_ID)!r}: {said_of(told['error'])}")
    raise EngineFault("server", "some passages were refused, without a reason")


def same_vectors(mapping: object, name: str, key: str, dimensions: int, index: str) -> None:
    """Refuse an index whose vectors have other dimensions. `key` is what its mapping calls them.

    Raises:
        UserError: it has.
    """
    for one in mapping.values() if isinstance(mapping, Mapping) else ():
        inside = one.get("mappings") if isinstance(one, Mapping) else None
        held = inside.get("properties") if isinstance(inside, Mapping) else None
        field = held.get(name) if isinstance(held, Mapping) else None
        found = field.get(key) if isinstance(field, Mapping) else None
        if dimensions and found != dimensions:
            raise UserError(
                f"The index {index!r} has vectors of {found or 'no'} dimensions in {name!r}, these have {dimensions}: "
                "name another index."
            )
