"""A chat-completions server on loopback, in this process, whose replies a test scripts; it keeps its own account."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.servers.http_script import Asked, HttpScript, Told

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
        self._server = HttpScript(self._answer)
        self.url = f"{self._server.url}/v1"

    def _answer(self, asked: Asked, before: int) -> Told:
        if asked.method == "GET":
            return Told({"object": "list", "data": [{"id": "m", "object": "model"}]})
        body = asked.body
        prompt = body["messages"][-1]["content"]
        with self.lock:
            self.bodies.append(body)
            self.asked[prompt] += 1
            text = self.script(prompt, self.asked[prompt] - 1)
            self.calls += 1
        self.gate.wait(60)
        message = {"role": "assistant", "content": text}
        choice = text if isinstance(text, dict) else {"message": message, "finish_reason": "stop"}
        choices = [] if text is None else [{"index": 0, **choice}]
        usage = {"prompt_tokens": GIVEN, "completion_tokens": WRITTEN}
        return Told({"model": body["model"], "choices": choices, "usage": usage})

    def close(self) -> None:
        self.gate.set()
        self._server.close()


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """Serve until the block ends."""
    server = Scripted(script)
    try:
        yield server
    finally:
        server.close()
