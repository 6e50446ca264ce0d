"""A chat-completions server for the arena: writers of long answers and a judge, on K-QA's questions.

Real HTTP on loopback, in a process of its own. The model's name chooses who speaks: ``writer-full`` and ``writer-thin``
answer with more or fewer of the physicians' statements; ``judge`` prefers the answer that shares more words with the
statements a good answer must have, leans to the answer shown first, and now and then says nothing usable.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

from aiohttp import web

from tests.servers.account import serve
from tests.servers.openai_server import completion

_ANSWER = re.compile(r"### Answer ([AB])\n<<<\n(.*?)\n>>>", re.DOTALL)
_WORD = re.compile(r"[a-z]{4,}")
_LEAN = 0.06
"""Share of statements' words that the place is worth to the judge; answers as close as that are a tie."""


class Server:
    """State of one server process."""

    def __init__(self, options: argparse.Namespace) -> None:
        with options.questions.open(encoding="utf-8") as lines:
            self.items = {item["Question"].strip(): item for item in map(json.loads, lines)}
        self.latency: float = options.latency
        self.asked: Counter[str] = Counter()
        self.answered = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        model, prompt = body["model"], body["messages"][-1]["content"]
        digest = hashlib.sha256(json.dumps([body["messages"], model]).encode()).hexdigest()
        self.asked[digest] += 1
        await asyncio.sleep(self.latency)
        item = next(item for question, item in self.items.items() if question in prompt)
        text = judge(prompt, item, digest) if model == "judge" else write(model, item)
        response = web.Response(body=completion([text], model, prompt), content_type="application/json")
        await response.prepare(request)
        await response.write_eof()
        self.answered += 1
        return response

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response({"asked": sum(self.asked.values()), "answered": self.answered})


def judge(prompt: str, item: dict[str, list[str]], digest: str) -> str:
    """A verdict that depends on the request alone."""
    (one, first), (two, second) = _ANSWER.findall(prompt)
    lot = int(digest[:8], 16) % 100
    if lot < 3:
        return ["", "Both have their merits.", '{"usefulness": "both"}'][lot]
    lead = overlap(first, item) - overlap(second, item) + _LEAN * (lot / 50 - 0.6)
    word = one if lead > _LEAN else two if lead < -_LEAN else "tie"
    shorter = one if len(first) < len(second) else two
    verdict = {"usefulness": word, "readability": shorter, "knowledge": word, "reasoning": word}
    return f"Compared.\n{json.dumps(verdict)}"


def overlap(text: str, item: dict[str, list[str]]) -> float:
    """Share of the words of the must-have statements that the answer holds."""
    words = set(_WORD.findall(" ".join(item["Must_have"]).lower()))
    return len(words & set(_WORD.findall(text.lower()))) / max(1, len(words))


def write(model: str, item: dict[str, list[str]]) -> str:
    """An answer of some of the statements."""
    statements = item["Must_have"] + item["Nice_to_have"]
    share = 0.8 if model == "writer-full" else 0.4
    kept = statements[: max(1, round(share * len(statements)))]
    return " ".join(f"{statement.rstrip('.')}." for statement in kept)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    server = Server(arguments)
    serve({"POST /v1/chat/completions": server.complete, "GET /stats": server.stats}, arguments.port)


if __name__ == "__main__":
    main()
