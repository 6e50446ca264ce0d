"""Qdrant's REST interface on loopback: requests are read by the models of Qdrant's own client, and carried out by its
form that lives in this process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class QdrantStub:
    """The server, which notes what it is asked, and can be stopped as a killed one and begin again at its port.

    `key` is the value of the header ``api-key`` that it wants; `faults` are ordered for the next answers.
    """

    def __init__(self, key=""):
        from qdrant_client import QdrantClient

        self.held = QdrantClient(":memory:", force_disable_check_same_thread=True)
        self.key = key
        self.asked, self.faults, self.connections = [], [], set()
        self.lock = threading.RLock()
        self.port = 0
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        """Listen; after a stop at the same port."""
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                stub.connections.add(self.connection)

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stub.asked.append((self.command, self.path, dict(self.headers), body))
                status, data, headers = stub.reply(self, body)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(data))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, address: None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self):
        """Close the port and all connections, as a killed server does."""
        self._server.shutdown()
        self._server.server_close()
        while self.connections:
            with contextlib.suppress(OSError):
                self.connections.pop().shutdown(socket.SHUT_RDWR)

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
