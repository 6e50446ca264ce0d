"""A chat-completions server that costs little: answers of 300 tokens after a set latency, on loopback.

It reads requests on a bare asyncio scorer, so that what is measured is the client. `GET /stats` gives the number of
answers and the most calls that were in flight at once.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import sys

WORDS = 290
"""Words before the answer: with it some 300 tokens."""


class Counts:
    answered = 0
    flying = 0
    most = 0


class Connection(asyncio.Protocol):
    def __init__(self, latency: tuple[float, float], draw: random.Random, counts: Counts) -> None:
        self._latency, self._draw, self._counts = latency, draw, counts
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).lower()
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:")), 0)
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            if head.startswith(b"get"):
                self._send(json.dumps({"answered": self._counts.answered, "most": self._counts.most}).encode())
            else:
                self._counts.flying += 1
                self._counts.most = max(self._counts.most, self._counts.flying)
                wait = self._draw.uniform(*self._latency)
                asyncio.get_running_loop().call_later(wait, self._answer, body)

    def _answer(self, body: bytes) -> None:
        self._counts.flying -= 1
        self._counts.answered += 1
        letter = "ABCD"[hashlib.md5(body[-200:], usedforsecurity=False).digest()[0] % 4]
        text = "because " * WORDS + f'{{"answer_choice": "{letter}"}}\nANSWER: {letter}'
        message = {"role": "assistant", "content": text}
        usage = {"prompt_tokens": len(body) // 4, "completion_tokens": 300, "total_tokens": len(body) // 4 + 300}
        choices = [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}]
        answer = {"id": "c", "object": "chat.completion", "created": 0, "model": "perf"}
        self._send(json.dumps({**answer, "choices": choices, "usage": usage}).encode())

    def _send(self, body: bytes) -> None:
        if self._transport is not None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self._transport.write(head.encode() + body)


async def serve(low: float, high: float) -> None:
    draw, counts = random.Random(0), Counts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection((low, high), draw, counts), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--low", type=float, default=0.5, help="shortest latency in seconds")
    parser.add_argument("--high", type=float, default=0.5, help="longest")
    given = parser.parse_args()
    try:
        asyncio.run(serve(given.low, given.high))
    except KeyboardInterrupt:
        sys.exit(0)
