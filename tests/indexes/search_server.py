"""A stand-in for Elasticsearch and OpenSearch on loopback, written from their documented REST APIs.

It holds one node's indices in memory, scores words by BM25 and vectors exactly, takes only queries that the
documentation knows, and answers as documented: 400 with ``root_cause`` for what it does not know, 401 without the
login, 404 for an absent index. A test orders faults: the next answers are 429 or 503, late, or cut off.
"""

from __future__ import annotations

import base64
import json
import math
import re
import time
from collections import Counter
from urllib.parse import urlsplit

from stub_server import Stub

WORD = re.compile(r"\w+")


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status, kind, reason):
        super().__init__(reason)
        self.status = status
        self.body = {
            "error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason},
            "status": status,
        }


class SearchStub(Stub):
    """The server. `brand` is ``elasticsearch`` or ``opensearch``; `login` is the value of Authorization it wants."""

    def __init__(self, brand, login=""):
        self.brand, self.login = brand, login
        self.indices = {}
        self.slow = 0.0
        super().__init__()

    def reply(self, handler, body):
        """Status, body and headers of an answer; ``None``: the connection is cut."""
        fault = self.faults.pop(0) if self.faults else None
        if fault == "cut":
            return None
        if fault == "late":
            time.sleep(self.slow)
        try:
            if isinstance(fault, int):
                raise Refused(fault, "es_rejected_execution_exception", "the queue is full")
            if self.login and handler.headers.get("Authorization") != self.login:
                said = f"unable to authenticate {handler.headers.get('Authorization')}"
                raise Refused(401, "security_exception", said)
            with self.lock:
                status, answer = self.answer(handler.command, handler.path, body.decode())
        except Refused as refused:
            status, answer = refused.status, refused.body
        data = b"" if handler.command == "HEAD" else json.dumps(answer).encode()
        if self.brand == "opensearch":
            return status, data, {"Content-Type": "application/json"}
        kind = "application/vnd.elasticsearch+json;compatible-with=9"
        return status, data, {"Content-Type": kind, "X-Elastic-Product": "Elasticsearch"}

    def answer(self, method, path, body):
        parts = [part for part in urlsplit(path).path.split("/") if part]
        if not parts:
            version = {"number": "9.1.0", "build_flavor": "default", "lucene_version": "10.2.2"}
            if self.brand == "opensearch":
                version |= {"distribution": "opensearch", "number": "3.1.0"}
            return 200, {"name": "n", "cluster_name": "c", "version": version, "tagline": "You Know, for Search"}
        if parts[-1] == "_bulk":
            return 200, self.bulk(body)
        index = parts[0]
        if len(parts) == 1 and method == "PUT":
            if index in self.indices:
                raise Refused(400, "resource_already_exists_exception", f"index [{index}] already exists")
            self.indices[index] = {**json.loads(body), "documents": {}, "changes": -1, "uuid": f"uuid-{index}"}
            return 200, {"acknowledged": True, "index": index}
        if index not in self.indices:
            raise Refused(404, "index_not_found_exception", f"no such index [{index}]")
        held = self.indices[index]
        if len(parts) == 1 and method == "HEAD":
            return 200, {}
        what = parts[1]
        if what == "_mapping":
            return 200, {index: {"mappings": held["mappings"]}}
        if what == "_refresh":
            return 200, {"_shards": {"total": 1, "successful": 1, "failed": 0}}
        if what == "_stats":
            shard = {"routing": {"state": "STARTED", "primary": True}, "seq_no": {"max_seq_no": held["changes"]}}
            return 200, {"indices": {index: {"uuid": held["uuid"], "shards": {"0": [shard]}}}}
        if what == "_count":
            return 200, {"count": len(self.matching(held, json.loads(body)["query"])), "_shards": {"failed": 0}}
        if what == "_search":
            return 200, self.search(index, json.loads(body))
        raise Refused(400, "illegal_argument_exception", f"no handler found for [{path}]")

    def bulk(self, body):
        lines, items, errors = [json.loads(line) for line in body.splitlines() if line], [], False
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            name, id = action["index"]["_index"], action["index"]["_id"]
            if len(id.encode()) > 512:
                errors = True
                reason = f"id [{id[:20]}…] is too long, must be no longer than 512 bytes but was: {len(id.encode())}"
                error = {"type": "action_request_validation_exception", "reason": reason}
                items.append({"index": {"_index": name, "_id": id, "status": 400, "error": error}})
                continue
            held = self.indices[name]
            held["documents"][id] = source
            held["changes"] += 1
            items.append({"index": {"_index": name, "_id": id, "status": 201, "result": "created"}})
        return {"took": 1, "errors": errors, "items": items}

    def search(self, index, asked):
        known = {"query", "knn", "size", "_source", "track_total_hits"}
        if unknown := set(asked) - known:
            raise Refused(400, "parsing_exception", f"unknown key [{unknown.pop()}]")
        held = self.indices.get(index)
        if held is None:
            raise Refused(404, "index_not_found_exception", f"no such index [{index}]")
        size = asked.get("size", 10)
        if size > 10_000:
            raise Refused(400, "illegal_argument_exception", "Result window is too large")
        scores = self.near(held, asked["knn"]) if "knn" in asked else self.matching(held, asked["query"])
        ordered = sorted(scores.items(), key=lambda pair: -pair[1])[:size]
        wanted = asked.get("_source")
        hits = [
            {"_index": index, "_id": id, "_score": score, "_source": _chosen(held["documents"][id], wanted)}
            for id, score in ordered
        ]
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        return {"took": 1, "timed_out": False, "_shards": shards, "hits": {"max_score": None, "hits": hits}}

    def matching(self, held, query):
        """Id → score of what a query finds."""
        [(kind, inside)] = query.items()
        documents = held["documents"]
        if kind == "match_all":
            return dict.fromkeys(documents, 1.0)
        if kind == "multi_match":
            pairs = [(name, float(weight or 1)) for name, _, weight in (one.partition("^") for one in inside["fields"])]
            return self.bm25(held, pairs, inside["query"])
        if kind == "term":
            [(field, value)] = inside.items()
            return {id: 1.0 for id, source in documents.items() if _value(source, field) == value}
        if kind == "query_string":
            field, _, value = inside["query"].partition(":")
            if not value:
                raise Refused(400, "query_shard_exception", f"Failed to parse query [{inside['query']}]")
            return {id: 1.0 for id, source in documents.items() if value in WORD.findall(str(_value(source, field)))}
        if kind == "knn" and self.brand == "opensearch":
            [(field, asked)] = inside.items()
            return self.near(held, {"field": field, "query_vector": asked["vector"], **asked})
        if kind == "bool":
            found = None
            for one in inside.get("must", []):
                found = self.matching(held, one)
            should = [self.matching(held, one) for one in inside.get("should", [])]
            if should:
                found = {id: score for one in should for id, score in one.items()}
            found = dict.fromkeys(documents, 0.0) if found is None else found
            for one in inside.get("filter", []):
                allowed = self.matching(held, one)
                found = {id: score for id, score in found.items() if id in allowed}
            return found
        raise Refused(400, "parsing_exception", f"unknown query [{kind}]")

    def near(self, held, asked):
        field, vector = asked["field"], asked["query_vector"]
        mapping = held["mappings"]["properties"].get(field)
        if mapping is None:
            raise Refused(400, "query_shard_exception", f"failed to create query: field [{field}] does not exist")
        dimensions = mapping.get("dims") or mapping.get("dimension")
        if len(vector) != dimensions:
            raise Refused(400, "query_shard_exception", f"the query vector has a different dimension [{len(vector)}]")
        allowed = held["documents"]
        filters = asked.get("filter") or []
        for one in filters if isinstance(filters, list) else [filters]:
            allowed = {id: allowed[id] for id in self.matching(held, one) if id in allowed}
        scores = {}
        for id, source in allowed.items():
            other = _value(source, field)
            product = sum(a * b for a, b in zip(vector, other, strict=True))
            scores[id] = (1 + product / (math.hypot(*vector) * math.hypot(*other))) / 2
        return dict(sorted(scores.items(), key=lambda pair: -pair[1])[: asked["k"]])

    def bm25(self, held, fields, query):
        best = {}
        for field, weight in fields:
            texts = {id: WORD.findall(str(_value(one, field) or "").lower()) for id, one in held["documents"].items()}
            average = sum(map(len, texts.values())) / max(len(texts), 1) or 1.0
            for word in set(WORD.findall(query.lower())):
                holding = sum(word in words for words in texts.values())
                idf = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
                for id, words in texts.items():
                    if count := words.count(word):
                        part = weight * idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(words) / average))
                        best.setdefault(id, Counter())[field] += part
        return {id: max(parts.values()) for id, parts in best.items()}


def _value(source, field):
    """A field, by its own name or along its dots."""
    if field in source:
        return source[field]
    for part in field.split("."):
        if not isinstance(source, dict) or part not in source:
            return None
        source = source[part]
    return source


def _chosen(source, wanted):
    if wanted is None:
        return source
    kept = {}
    for name in wanted:
        if name in source:
            kept[name] = source[name]
        elif (value := _value(source, name)) is not None:
            node = kept
            *inside, last = name.split(".")
            for part in inside:
                node = node.setdefault(part, {})
            node[last] = value
    return kept


def basic(login):
    """The header of a login."""
    return "Basic " + base64.b64encode(login.encode()).decode()
