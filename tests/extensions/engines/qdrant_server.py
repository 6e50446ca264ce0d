"""Qdrant's REST interface on loopback: requests are read by the models of Qdrant's own client, and carried out by its
form that lives in this process."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from tests.extensions.engines.stub_server import Stub


class QdrantStub(Stub):
    """The server. `key` is the value of the header ``api-key`` that it wants."""

    def __init__(self, key=""):
        from qdrant_client import QdrantClient

        self.held = QdrantClient(":memory:", force_disable_check_same_thread=True)
        self.key = key
        super().__init__()

    def reply(self, handler, body):
        """Status, body and headers of an answer."""
        status = self.faults.pop(0) if self.faults else 200
        given = handler.headers.get("api-key")
        if self.key and given != self.key:
            status = 401
        told = {"status": {"error": f"refused: {given}"}, "time": 0.0}
        if status == 200:
            with self.lock:
                result = self.answer(handler.command, urlsplit(handler.path).path, json.loads(body or b"null"))
            told = {"result": result, "status": "ok", "time": 0.0}
        headers = {"Content-Type": "application/json", **({"Retry-After": "0"} if status == 429 else {})}
        return status, json.dumps(told).encode(), headers

    def answer(self, method, path, body):
        from qdrant_client import models

        parts = path.strip("/").split("/")
        if parts == ["collections"]:
            return _plain(self.held.get_collections())
        name, what = parts[1], "/".join(parts[2:])
        if what == "" and method == "GET":
            return _plain(self.held.get_collection(name))
        if what == "" and method == "PUT":
            asked = models.CreateCollection.model_validate(body)
            return self.held.create_collection(
                name, vectors_config=asked.vectors or {}, sparse_vectors_config=asked.sparse_vectors
            )
        if what == "index":
            models.CreateFieldIndex.model_validate(body)
            return {"operation_id": 0, "status": "completed"}
        if what == "points" and method == "PUT":
            return _plain(self.held.upsert(name, models.PointsList.model_validate(body).points))
        if what == "points/count":
            asked = models.CountRequest.model_validate(body)
            return _plain(self.held.count(name, count_filter=asked.filter, exact=True))
        if what == "points/scroll":
            asked = models.ScrollRequest.model_validate(body)
            points, after = self.held.scroll(
                name, scroll_filter=asked.filter, limit=asked.limit, offset=asked.offset,
                with_payload=asked.with_payload,
            )  # fmt: skip
            return {"points": [_plain(point) for point in points], "next_page_offset": after}
        if what == "points/query/batch":
            asked = models.QueryRequestBatch.model_validate(body)
            return [_plain(one) for one in self.held.query_batch_points(name, requests=asked.searches)]
        raise AssertionError(path)


def _plain(answer):
    return answer.model_dump(mode="json", exclude_none=True)
