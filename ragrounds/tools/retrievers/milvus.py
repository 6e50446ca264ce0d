"""A Milvus collection as a corpus: ``milvus[url="http://HOST:19530",collection=passages,embed=MODEL]``, or
``milvus[path=FILE.db,…]``, the form that lives in this process (Milvus Lite).

``mode=vector`` searches the vector's field by the metric of its index; ``mode=text`` the sparse field that a BM25
function of the collection fills (``sparse=…``, from Milvus 2.5 on); ``mode=hybrid`` both, fused by Milvus' own
reciprocal rank fusion. ``filter`` is a boolean expression of Milvus': ``filter="meta[\\"year\\"] > 2015"``.

The key of a server, ``key_env=NAME``, is its token: ``user:password``, or an API key.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ragrounds.errors import UserError, nearest
from ragrounds.specs import Spec
from ragrounds.text import safe
from ragrounds.tools.embedders import Metric, Vectors
from ragrounds.tools.engine_hits import flat_fields, hit_id, in_order, paths_in, query_metric, texts_of, tops
from ragrounds.tools.external_index import (
    FUSED,
    FUSED_DEPTH,
    EngineFault,
    EngineHit,
    EngineSample,
    ExternalEngine,
    ExternalSearcher,
)
from ragrounds.tools.external_parameters import (
    ExternalParameters,
    Record,
    address_of,
    external_parameters,
    key_of,
    read_parameters,
    secrets_in,
    text_of,
)
from ragrounds.tools.push import PushRow, PushWay
from ragrounds.tools.retriever import Retriever, SearchedCorpora

METRICS: Mapping[Metric, str] = {"cosine": "COSINE", "ip": "IP", "l2": "L2"}
LONGEST = 65_535
"""Bytes that a field of Milvus' holds."""
_NOT_NAMED = re.compile(r"\W", re.ASCII)
_UNAVAILABLE, _RATE_LIMIT, _MISSING = 2, 8, 100


class MilvusParameters(ExternalParameters, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``milvus[…]`` takes."""

    path: str = ""
    collection: str = "passages"
    database: str = ""
    sparse: str = "sparse"


class MilvusConnection(Protocol):
    """Milvus' client, as far as it is used here."""

    list_collections: Callable[..., list[str]]
    describe_collection: Callable[..., Mapping[str, object]]
    describe_index: Callable[..., Mapping[str, object] | None]
    list_indexes: Callable[..., list[str]]
    load_collection: Callable[..., None]
    query: Callable[..., Sequence[dict[str, object]]]
    query_iterator: Callable[..., MilvusPages]
    search: Callable[..., Sequence[Sequence[Mapping[str, object]]]]
    hybrid_search: Callable[..., Sequence[Sequence[Mapping[str, object]]]]
    create_schema: Callable[..., MilvusSchema]
    prepare_index_params: Callable[..., MilvusIndexes]
    create_collection: Callable[..., None]
    upsert: Callable[..., object]
    flush: Callable[..., None]
    close: Callable[..., None]


class MilvusSchema(Protocol):
    """Milvus' builder of a schema."""

    add_field: Callable[..., object]
    add_function: Callable[..., object]


class MilvusIndexes(Protocol):
    """Milvus' builder of indexes."""

    add_index: Callable[..., None]


class MilvusPages(Protocol):
    """Milvus' walk through a collection, in the order of its primary key."""

    next: Callable[..., Sequence[dict[str, object]]]
    close: Callable[..., None]


class MilvusEngine(ExternalEngine):
    """One collection of a Milvus server, or of a file of Milvus Lite."""

    def __init__(self, given: MilvusParameters, place: MilvusPlace) -> None:
        """Nothing is opened before the first call."""
        self._given, self._place = given, place
        self._fields = given.fields
        self._opening = threading.Lock()
        self._held: MilvusConnection | None = None
        self._names: list[str] = []
        self._read: list[str] = []
        self._dynamic = False
        self._metric: Metric = "cosine"
        self._wait: dict[str, object] = {"timeout": given.timeout}

    def _client(self) -> MilvusConnection:
        """The client, with the collection loaded.

        Raises:
            UserError: there is no such collection: names those there are.
        """
        with self._opening:
            if self._held is None:
                client = self._place.connect()
                try:
                    self._look(client)
                except BaseException:
                    client.close()
                    raise
                self._held = client
            return self._held

    def _look(self, client: MilvusConnection) -> None:
        name = self._given.collection
        held = sorted(client.list_collections(**self._wait))
        if name not in held:
            listed = ", ".join(safe(one, 60) for one in held[:20]) or "none"
            raise UserError(f"Milvus has no collection {name!r}.{nearest(name, held)} Its collections: {listed}.")
        # A collection that nobody has loaded since the server began is not searched.
        client.load_collection(name, **self._wait)
        self._names, self._dynamic = _schema(client.describe_collection(name, **self._wait))
        named = [self._fields.id, self._fields.text, self._fields.title, self._fields.document]
        self._read = (
            list(dict.fromkeys(one.split(".")[0] for one in named)) if self._dynamic else tops(named, self._names)
        )
        self._metric = _indexed_metric(client, self._given) or self._given.metric or query_metric(self._given)

    def fields(self) -> Sequence[str]:
        """The fields of the schema, and those of the first records."""
        rows = self._client().query(self._given.collection, filter="", limit=10, output_fields=["*"], **self._wait)
        inside = (name for row in rows for name in paths_in({**row, self._given.sparse: None}))
        return list(dict.fromkeys([*self._names, *inside]))

    def sample(self, most: int) -> EngineSample:
        """The number of records, and ids and texts of the first by the primary key."""
        counted = self._client().query(
            self._given.collection, filter=self._given.filter, output_fields=["count(*)"], **self._wait
        )
        count = int(str(counted[0]["count(*)"]))
        fields = self._fields
        asked = {
            "filter": self._given.filter, "limit": most, "output_fields": tops([fields.id, fields.text], self._read)
        }  # fmt: skip
        if count <= most:
            rows = list(self._client().query(self._given.collection, **asked, **self._wait))
        else:  # in the order of the primary key
            pages = self._client().query_iterator(self._given.collection, batch_size=1_000, **asked, **self._wait)
            rows = []
            while len(rows) < most and (page := pages.next()):
                rows += page
            pages.close()
        texts = tuple((hit_id(row, fields.id, fields.text), text_of(row, fields.text)) for row in rows[:most])
        return EngineSample(count, texts)

    def by_vectors(self, vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each vector the `k` nearest records."""
        found = self._client().search(
            self._given.collection, data=[row.tolist() for row in vectors], anns_field=self._fields.vector, limit=k,
            filter=self._given.filter, output_fields=self._read, **self._wait,
        )  # fmt: skip
        sign = -1.0 if self._metric == "l2" else 1.0
        return [self._hits(hits, sign) for hits in found]

    def by_texts(self, queries: Sequence[str], k: int) -> list[list[EngineHit]]:
        """For each query the `k` best records by BM25."""
        self._check_sparse()
        found = self._client().search(
            self._given.collection, data=list(queries), anns_field=self._given.sparse, limit=k,
            filter=self._given.filter, output_fields=self._read, **self._wait,
        )  # fmt: skip
        # Milvus gives BM25's scores, Milvus Lite 3.2 gives them with a minus sign; they are never below 0.
        return [
            in_order(EngineHit(hit.id, abs(hit.score), hit.record) for hit in self._hits(hits, 1.0)) for hits in found
        ]

    def by_both(self, queries: Sequence[str], vectors: Vectors, k: int) -> list[list[EngineHit]]:
        """For each query the `k` best of both rankings, fused by Milvus."""
        from pymilvus import AnnSearchRequest, RRFRanker

        self._check_sparse()
        depth = max(k, FUSED_DEPTH)
        condition = self._given.filter or None
        asked = [
            AnnSearchRequest(list(queries), self._given.sparse, {}, limit=depth, expr=condition),
            AnnSearchRequest([row.tolist() for row in vectors], self._fields.vector, {}, limit=depth, expr=condition),
        ]
        found = self._client().hybrid_search(
            self._given.collection, reqs=asked, ranker=RRFRanker(FUSED), limit=k, output_fields=self._read, **self._wait
        )
        return [self._hits(hits, 1.0) for hits in found]

    def records(self, document: str) -> list[Record]:
        """The records of a document, by id."""
        name = self._fields.document
        if "." in name or (name not in self._names and not self._dynamic):
            return []
        wanted = document.replace("\\", "\\\\").replace('"', '\\"')
        rows = self._client().query(
            self._given.collection, filter=f'{name} == "{wanted}"', output_fields=self._read, limit=10_000, **self._wait
        )
        return sorted(rows, key=lambda row: text_of(row, self._fields.id))

    def fault(self, error: Exception) -> str:
        """By Milvus' codes; those of its transport stand in the message."""
        return milvus_fault(error)

    def close(self) -> None:
        """Close the connection."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _check_sparse(self) -> None:
        self._client()
        if self._given.sparse not in self._names:
            raise EngineFault(
                "missing",
                f"the collection has no field {self._given.sparse!r} that a BM25 function fills; name it as sparse=…, "
                f"or search by mode=vector. Its fields are {', '.join(self._names)}",
            )

    def _hits(self, hits: Sequence[Mapping[str, object]], sign: float) -> list[EngineHit]:
        made = []
        for hit in hits:
            inside = hit.get("entity")
            # The primary key stands beside the other fields, under its own name.
            record = {**{key: hit[key] for key in hit if key not in ("entity", "distance")}, **_mapping(inside)}
            score = sign * float(str(hit["distance"]))
            made.append(EngineHit(hit_id(record, self._fields.id, self._fields.text), score, record))
        return in_order(made)


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def milvus_fault(error: Exception) -> str:
    """The kind of an error of Milvus' client, as :class:`EngineFault` names them; empty: not known."""
    code, said = getattr(error, "code", None), str(error).casefold()
    number = code if isinstance(code, int) else None
    if "unauthenticated" in said or "auth check failure" in said or "permission deny" in said:
        return "auth"
    if number == _RATE_LIMIT:
        return "rate_limit"
    if "deadline_exceeded" in said or "timeout" in said:
        return "timeout"
    if number == _UNAVAILABLE or "unavailable" in said or "fail connecting" in said or "closed channel" in said:
        return "connection"
    if number == _MISSING:
        return "missing"
    return "bad_request" if number is not None else ""


def _schema(said: Mapping[str, object]) -> tuple[list[str], bool]:
    """The names of a collection's fields, and whether its records may have further ones."""
    rows = said.get("fields")
    names = [str(row["name"]) for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return names, said.get("enable_dynamic_field") is True


def _dimensions(said: Mapping[str, object], name: str) -> int:
    """The dimensions of a field of vectors; 0: not known."""
    rows = said.get("fields")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, Mapping) and row.get("name") == name and isinstance(held := row.get("params"), Mapping):
            return int(str(held.get("dim", 0)))
    return 0


def _indexed_metric(client: MilvusConnection, given: MilvusParameters) -> Metric | None:
    """The metric of the index over the vectors; ``None``: there is no such index."""
    for name in client.list_indexes(given.collection, given.vector):
        said = client.describe_index(given.collection, name, timeout=given.timeout) or {}
        for metric, called in METRICS.items():
            if str(said.get("metric_type", "")).upper() == called:
                return metric
    return None


class MilvusPlace:
    """Where a collection is kept, and how it is reached."""

    def __init__(self, given: MilvusParameters) -> None:
        """Look at what was given.

        Raises:
            UserError: no place or two were given, or a variable is not set.
        """
        if bool(given.path) == bool(given.url or given.url_env):
            raise UserError(
                "milvus needs one place: milvus[path=FILE.db] in this process, or milvus[url=…] of a server."
            )
        if given.path and not given.path.endswith(".db"):
            raise UserError(f"Milvus Lite keeps its data in FILE.db: {safe(given.path, 200)!r} does not end so.")
        self._given = given
        self._where = str(Path(given.path).expanduser()) if given.path else address_of(given, "milvus")
        self._key = key_of(given, "milvus")
        self.secrets = secrets_in(self._where, self._key, *self._key.split(":", 1)[1:])

    def connect(self) -> MilvusConnection:
        """A client of its own.

        Raises:
            UserError: the client is not installed.
            EngineFault: nothing answers there.
        """
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise UserError("milvus needs Milvus' client: install ragrounds[milvus].") from None
        for name in (
            "pymilvus",
            "milvus_lite",
            "grpc._server",
        ):  # each writes its errors to standard error, with a traceback
            logging.getLogger(name).setLevel(logging.CRITICAL)
        if self._given.path:
            Path(self._where).parent.mkdir(parents=True, exist_ok=True)
        made: MilvusConnection = MilvusClient(
            uri=self._where, token=self._key, db_name=self._given.database, timeout=self._given.timeout
        )
        return made


class MilvusPush:
    """Brings passages into a collection: see :class:`ragrounds.tools.push.PushTarget`."""

    def __init__(self, given: MilvusParameters, place: MilvusPlace) -> None:
        self._given, self._place = given, place
        self._names = flat_fields(given.fields, "milvus")
        self._held: MilvusConnection | None = None
        self._dimensions = 0
        self._wait: dict[str, object] = {"timeout": given.timeout}

    def begin(self, dimensions: int, metric: Metric) -> int:
        """Make the collection where it is not there; see :meth:`ragrounds.tools.push.PushTarget.begin`. Its words are
        indexed by a BM25 function, its vectors by HNSW, in Milvus Lite exactly."""
        client, name = self._client(), self._given.collection
        self._dimensions = dimensions
        if name in client.list_collections(**self._wait):
            said = client.describe_collection(name, **self._wait)
            names, _ = _schema(said)
            wanted = [one for key, one in self._names.items() if key != "vector" or dimensions]
            if absent := [one for one in wanted if one not in names]:
                raise UserError(
                    f"Milvus' collection {name!r} has no field {absent[0]!r}; its fields are {', '.join(names)}. Name "
                    "another collection, or the fields: milvus[text=…,title=…]."
                )
            if dimensions and (held := _dimensions(said, self._names["vector"])) != dimensions:
                raise UserError(
                    f"The vectors of Milvus' collection {name!r} have {held} dimensions, these {dimensions}: name "
                    "another collection."
                )
            client.load_collection(name, **self._wait)
            return self._count(client)
        self._make(client, dimensions, metric)
        return 0

    def _make(self, client: MilvusConnection, dimensions: int, metric: Metric) -> None:
        from pymilvus import DataType, Function, FunctionType

        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(self._names["id"], DataType.VARCHAR, is_primary=True, max_length=1_024)
        schema.add_field(self._names["document"], DataType.VARCHAR, max_length=1_024)
        schema.add_field(self._names["title"], DataType.VARCHAR, max_length=LONGEST)
        schema.add_field(
            self._names["text"], DataType.VARCHAR, max_length=LONGEST, enable_analyzer=True,
            # Milvus Lite has no stems and no list of stop words.
            analyzer_params={"tokenizer": "standard"} if self._given.path else {"type": "english"},
        )  # fmt: skip
        schema.add_field(self._given.sparse, DataType.SPARSE_FLOAT_VECTOR)
        schema.add_function(
            Function(
                "bm25", FunctionType.BM25, input_field_names=[self._names["text"]],
                output_field_names=[self._given.sparse],
            )
        )  # fmt: skip
        index = client.prepare_index_params()
        index.add_index(self._given.sparse, index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        if dimensions:
            schema.add_field(self._names["vector"], DataType.FLOAT_VECTOR, dim=dimensions)
            kind = "FLAT" if self._given.path else "HNSW"
            index.add_index(self._names["vector"], index_type=kind, metric_type=METRICS[metric])
        client.create_collection(self._given.collection, schema=schema, index_params=index, **self._wait)

    def put(self, rows: Sequence[PushRow]) -> None:
        """Insert passages, in place of those with the same id.

        Raises:
            EngineFault: a text is longer than Milvus holds.
        """
        made: list[dict[str, object]] = []
        for row in rows:
            if (size := len(row.text.encode())) > LONGEST:
                raise EngineFault(
                    "too_large",
                    f"the text of {row.id!r} has {size:,} bytes; a field of Milvus' holds {LONGEST:,}. Cut the "
                    "passages smaller: `ragrounds index build --chunker`",
                )
            record = texts_of(row, self._names)
            if self._dimensions and row.vector is not None:
                record[self._names["vector"]] = row.vector.tolist()
            made.append(record)
        self._client().upsert(self._given.collection, made, **self._wait)

    def end(self) -> int:
        """Write everything out; gives the number of records."""
        client = self._client()
        client.flush(self._given.collection, **self._wait)
        client.load_collection(self._given.collection, **self._wait)
        return self._count(client)

    def fault(self, error: Exception) -> str:
        """As :meth:`MilvusEngine.fault`."""
        return milvus_fault(error)

    def close(self) -> None:
        """Close the connection."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _client(self) -> MilvusConnection:
        if self._held is None:
            self._held = self._place.connect()
        return self._held

    def _count(self, client: MilvusConnection) -> int:
        rows = client.query(self._given.collection, filter="", output_fields=["count(*)"], **self._wait)
        return int(str(rows[0]["count(*)"]))


def _open(spec: Spec, corpora: SearchedCorpora) -> ExternalSearcher:
    given = read_parameters(spec, MilvusParameters)
    place = MilvusPlace(given)
    engine = MilvusEngine(given, place)
    return ExternalSearcher(spec, corpora.names or given.collection, given, engine, secrets=place.secrets)


def _searched(spec: Spec, name: str) -> Spec:
    place = spec.parameters.get("path")
    if isinstance(place, str) and "://" in place:  # ``--to milvus:ADDRESS`` names a file or a server
        spec = Spec(
            spec.name, {**{key: value for key, value in spec.parameters.items() if key != "path"}, "url": place}
        )
    # Milvus' names are letters, digits and underscores.
    return spec if "collection" in spec.parameters else spec.having(collection=_NOT_NAMED.sub("_", name))


def _pushed(spec: Spec, name: str) -> MilvusPush:
    given = read_parameters(_searched(spec, name), MilvusParameters, searching=False)
    return MilvusPush(given, MilvusPlace(given))


MILVUS = Retriever(
    name="milvus",
    summary="a collection of Milvus, or of Milvus Lite in this process: vectors, words (BM25), or both",
    example='milvus[url="http://HOST:19530",collection=passages,embed=MODEL]',
    open=_open,
    parameters=external_parameters(
        MilvusParameters,
        path="FILE.db of Milvus Lite, in this process, in place of a server's address",
        collection="the collection",
        database="the database of the server; by default its own",
        sparse="field that a BM25 function fills, for mode=text and hybrid",
        filter='boolean expression of Milvus\': "year > 2015"',
        key_env="environment variable that holds the token: user:password, or an API key",
    ),
    cost="a request to the server; with vectors, the model once for each query",
    extra="milvus",
    library="pymilvus",
    own_corpus=True,
    caution="tried in its form inside this process, not on a real server",
    push=PushWay(open=_pushed, searched=_searched, address="path"),
)
