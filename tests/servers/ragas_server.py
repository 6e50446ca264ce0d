"""A chat-completions and embeddings server that answers ragas' prompts: real HTTP on loopback, in its own process.

It goes by words. A text is broken at its full stops; a statement follows from a context that holds it; a passage is
useful where it holds a word of the reference that is longer than six letters; an answer commits to nothing where it is
"not sure". The question that it makes of an answer is the answer with a question mark, numbered by how often it was
asked. The model's name chooses its manner: ``ragas`` as said, ``ragas-late`` sends broken JSON the first time it is
asked something, ``ragas-never`` always, ``ragas-short`` leaves out the last verdict, ``ragas-two`` gives verdicts of 2,
``ragas-cut`` is cut off, ``ragas-blank`` finds nothing in any text, ``ragas-down`` is out of order while the file named
by ``--down`` exists. Embeddings count letters, unless the model is ``embed-down`` or a text
is about zygomycosis.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.account import serve
from tests.servers.openai_server import completion
from tests.servers.process import Running, running

_OUT_OF_ORDER = {"error": {"code": "context_length_exceeded", "message": "maximum context length is 8 tokens"}}


class Server:
    """State of one server process."""

    def __init__(self, down: Path | None) -> None:
        self.down = down
        self.asked: Counter[str] = Counter()
        self.embedded = 0

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        model, messages = body["model"], body["messages"]
        prompt = messages[-1]["content"]
        digest = hashlib.sha256(json.dumps([messages, model]).encode()).hexdigest()
        self.asked[digest] += 1
        if model == "ragas-down" and self.down is not None and self.down.exists():
            return web.json_response(_OUT_OF_ORDER, status=400)
        said = json.dumps(answer(prompt, model, self.asked[digest]))
        if model == "ragas-never" or (model == "ragas-late" and self.asked[digest] == 1):
            said = said.replace('"', "'")
        finish = "stop"
        if model == "ragas-cut":
            said, finish = said[:-1], "length"
        return web.Response(
            body=completion([f"```json\n{said}\n```"], model, prompt, finish), content_type="application/json"
        )

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
        return web.json_response({"asked": sum(self.asked.values()), "embedded": self.embedded})


def answer(prompt: str, model: str, times: int) -> dict[str, Any]:
    """What a prompt asks for, by words."""
    given = json.loads(prompt.rpartition("input: ")[2].rpartition("\nOutput:")[0])
    verdict = 2 if model == "ragas-two" else 1
    if "statements" in given:
        kept = given["statements"][: -1 if model == "ragas-short" else None]
        return {
            "statements": [
                {"statement": text, "reason": "words", "verdict": verdict * _holds(given["context"], text)}
                for text in kept
            ]
        }
    if "atomicity" in given:
        return {"claims": [] if model == "ragas-blank" else _sentences(given["response"])}
    if "response" in given:
        unsure = "not sure" in given["response"].lower()
        blank = model == "ragas-blank"
        return {"question": "" if blank else f"{given['response']}? {times}", "noncommittal": int(unsure)}
    if "context" not in given:
        return {"statements": [] if model == "ragas-blank" else _sentences(given["answer"])}
    if "classifications" in prompt:
        rows = [
            {"statement": text, "reason": "words", "attributed": verdict * _holds(given["context"], text)}
            for text in ([] if model == "ragas-blank" else _sentences(given["answer"]))
        ]
        return {"classifications": rows}
    useful = any(_holds(given["context"], word) for word in given["answer"].split() if len(word) > 6)
    return {"reason": "words", "verdict": verdict * int(useful)}


def _sentences(text: str) -> list[str]:
    return [part.strip() for part in text.split(".") if part.strip()]


def _holds(context: str, text: str) -> int:
    return int(text.lower().strip(".") in context.lower())


def ragas_server(*arguments: str) -> contextlib.AbstractContextManager[Running]:
    """Run this server until the block ends."""
    return running("ragas_server", *arguments)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--down", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--root", help="where the weights of its one model are, as /v1/models tells it")
    given = parser.parse_args()
    server = Server(given.down)
    server.root = given.root
    routes = {
        "POST /v1/chat/completions": server.complete,
        "POST /v1/embeddings": server.embed,
        "GET /v1/models": server.models,
        "GET /stats": server.stats,
    }
    serve(routes, given.port)


if __name__ == "__main__":
    main()
