"""A chat-completions server on loopback, in this process, whose replies a test scripts; it keeps its own account."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[str, int], str | dict[str, Any] | None]
"""(the last message, how often it was asked before) → the text to reply, or a choice; ``None``: a response without
choices."""
GOOD = json.dumps({"answer_choice": "A"})
GIVEN, WRITTEN = 1000, 100
"""Tokens that every reply names."""


class Scripted:
    """The server, and what it counted."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._send({"object": "list", "data": [{"id": "m", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompt = body["messages"][-1]["content"]
                with outer.lock:
                    outer.bodies.append(body)
                    before = outer.asked[prompt]
                    outer.asked[prompt] += 1
                    text = outer.script(prompt, before)
                    outer.calls += 1
                outer.gate.wait(60)
                message = {"role": "assistant", "content": text}
                choice = text if isinstance(text, dict) else {"message": message, "finish_reason": "stop"}
                choices = [] if text is None else [{"index": 0, **choice}]
                usage = {"prompt_tokens": GIVEN, "completion_tokens": WRITTEN}
                self._send({"model": body["model"], "choices": choices, "usage": usage})

            def _send(self, answer: dict[str, Any]) -> None:
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):  # the client was killed
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def quiet(self) -> None:
        """Say nothing of clients that go away."""
        self._server.handle_error = lambda request, address: None  # type: ignore[method-assign]

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """Serve until the block ends."""
    server = Scripted(script)
    try:
        yield server
    finally:
        server.close()
