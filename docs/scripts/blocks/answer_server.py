"""A service on loopback behind ``http://127.0.0.1:9000``: an endpoint that answers questions, and what takes traces."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_SOURCE = {"snippet": "Scurvy is caused by a lack of vitamin C.", "name": "Scurvy", "doc": "notes-1"}
_RESULT = {"text": "The answer is A.", "letter": "A", "sources": [_SOURCE], "usage": {"in": 40, "out": 5}}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer({} if "trace" in self.path else {"result": _RESULT, "answer": "The answer is A."})

    do_PUT = do_PATCH = do_POST  # noqa: N815

    def _answer(self, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def answering() -> Iterator[str]:
    """Serve until the block ends; yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield str(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
