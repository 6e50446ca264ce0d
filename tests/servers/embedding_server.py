"""An embeddings server whose vectors count letters: real HTTP on loopback, in its own process. The model ``embed-down``
and texts about zygomycosis are out of order.
"""

from __future__ import annotations

import argparse
import contextlib

from aiohttp import web

from tests.servers.account import serve
from tests.servers.process import Running, running

_OUT_OF_ORDER = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8 tokens"}}


class Server:
    """State of one server process."""

    def __init__(self, root: str | None) -> None:
        self.root = root
        self.embedded = 0

    async def embed(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body["model"] == "embed-down" or any("zygomycosis" in text for text in body["input"]):
            return web.json_response(_OUT_OF_ORDER, status=400)
        self.embedded += 1
        data = [
            {"object": "embedding", "index": index, "embedding": [text.count(letter) + 0.01 for letter in "abcdeuoi"]}
            for index, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 10 * len(data), "total_tokens": 10 * len(data)}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def models(self, request: web.Request) -> web.Response:
        listed = [{"id": "letters", "root": self.root, "owned_by": "vllm"}] if self.root else []
        return web.json_response({"object": "list", "data": listed})

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response({"embedded": self.embedded})


def embedding_server(*arguments: str) -> contextlib.AbstractContextManager[Running]:
    """Run this server until the block ends."""
    return running("embedding_server", *arguments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--root", help="where the weights of its one model are, as /v1/models tells it")
    given = parser.parse_args()
    server = Server(given.root)
    routes = {
        "POST /v1/embeddings": server.embed,
        "GET /v1/models": server.models,
        "GET /stats": server.stats,
    }
    serve(routes, given.port)


if __name__ == "__main__":
    main()
