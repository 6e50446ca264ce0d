"""An HTTP server on loopback, in this process, whose answers a test scripts; it keeps its own account."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Told:
    """An answer: its body as JSON, or as bytes."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[[Asked, int], Told]
"""(the request, how many came before it) → the answer."""


class HttpScript:
    """The server, and what it was asked: bodies as JSON, or as bytes."""

    def __init__(self, answering: Answering, *, is_json: bool = True) -> None:
        self.asked: list[Asked] = []
        lock, outer = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                body = json.loads(body or b"null") if is_json else body
                headers = {name.lower(): value for name, value in self.headers.items()}
                with lock:
                    asked = Asked(self.command, self.path, headers, body)
                    before = len(outer.asked)
                    outer.asked.append(asked)
                told = answering(asked, before)
                plain = isinstance(told.body, bytes)
                data = told.body if plain else json.dumps(told.body).encode()
                self.send_response(told.status)
                for name, value in {"Content-Type": "application/json", **told.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client was killed
                    self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, address: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def posts(self) -> list[Asked]:
        """What was posted."""
        return [asked for asked in self.asked if asked.method == "POST"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def answering(script: Answering) -> Iterator[HttpScript]:
    """Serve until the block ends."""
    server = HttpScript(script)
    try:
        yield server
    finally:
        server.close()
