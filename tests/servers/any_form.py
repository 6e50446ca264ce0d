"""A loopback server that answers model calls in every form that is known at the wire, in this process."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.servers.http_script import Asked, HttpScript, Told

Body = dict[str, Any]
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}


class AnyForm:
    """The server. `says` gives a text for a request; `fails` gives statuses to be sent before the answer."""

    def __init__(self, says: Callable[[Body], str] = lambda body: "The answer is B") -> None:
        self.says = says
        self.fails: list[int] = []
        self.error: Body = {"message": "later"}
        self.vector = ""
        """Base64 of a vector, for who asks for it so."""
        self.asked: list[tuple[str, Body]] = []
        self.gate = threading.Event()
        self.gate.set()
        self._server = HttpScript(self._told)
        self.place = self._server.url
        self.url = f"{self.place}/v1"

    def _told(self, asked: Asked, before: int) -> Told:
        if asked.path.endswith("/v1/models"):  # once for each address, of what it is
            return Told({"data": []})
        self.asked.append((asked.path, asked.body or {}))
        if asked.method == "GET":
            return Told(b"page", headers={"Content-Type": "text/plain", "X-Product": "a search"})
        self.gate.wait(30)
        if self.fails:
            return Told({"error": self.error}, self.fails.pop(0))
        data, kind = self.answer(asked.path, asked.body)
        return Told(data, headers={"Content-Type": kind})

    def answer(self, path: str, body: Body) -> tuple[bytes, str]:
        """The bytes of an answer, and their content type."""
        text, model = self.says(body), body.get("model", "m")
        if path.endswith("/embeddings"):
            vector = self.vector if body.get("encoding_format") == "base64" and self.vector else [0.25, 0.5]
            data = [{"embedding": vector, "index": n, "object": "embedding"} for n in range(len(body["input"]))]
            return _json({"data": data, "model": model, "usage": {"prompt_tokens": 3, "total_tokens": 3}})
        if path.endswith("/messages"):
            content = [{"type": "text", "text": text}]
            usage = {"input_tokens": 7, "output_tokens": 2, "cache_read_input_tokens": 3}
            return _json(
                {"type": "message", "content": content, "model": model, "usage": usage, "stop_reason": "end_turn"}
            )
        if body.get("stream"):
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
            parts = [
                {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]},
                {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
                {**chunk, "choices": [], "usage": USAGE},
            ]
            return b"".join(
                b"data: %s\n\n" % json.dumps(one).encode() for one in [*parts]
            ) + b"data: [DONE]\n\n", _STREAM
        message = {"role": "assistant", "content": text}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return _json(
            {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": choices, "usage": USAGE}
        )

    def close(self) -> None:
        """Stop; the address is closed from now on."""
        self.gate.set()
        self._server.close()


_STREAM = "text/event-stream"


def _json(answer: Body) -> tuple[bytes, str]:
    return json.dumps(answer).encode(), "application/json"


@contextlib.contextmanager
def any_form(says: Callable[[Body], str] = lambda body: "The answer is B") -> Iterator[AnyForm]:
    """Run the server until the block ends."""
    server = AnyForm(says)
    try:
        yield server
    finally:
        server.close()
