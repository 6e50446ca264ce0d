"""A chat-completions server for tests: real HTTP on loopback, in a process of its own.

The model's name in a request chooses the behaviour:

* ``recorded-SETTING`` answers with the recorded MIRAGE reply to the question in the last message;
* ``fault-NAME`` misbehaves as :mod:`tests.servers.faults` says;
* anything else answers a fixed, parsable reply.

What it says of itself (``/v1/models``, ``/version``) and which model it says has answered are options.

``GET /stats`` tells what was asked and answered; an answer counts when the server has sent it whole.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.account import serve
from tests.servers.faults import misbehave
from tests.servers.recorded import Recorded
from tests.servers.streams import events


class Server:
    """State of one server process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.recorded = Recorded(options) if options.benchmark else None
        self.latency: tuple[float, float] = (options.latency, options.latency + options.jitter)
        self.random = random.Random(options.seed)
        self.fault_rate: float = options.faults
        self.mix = {kind: float(weight) for kind, _, weight in (part.partition("=") for part in options.mix.split(","))}
        self.hang_after: int | None = options.hang_after
        self.reply_bytes: int = options.reply_bytes
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.begun = self.streamed = 0
        self.at_once = self.most = 0
        self.keys_seen: set[str] = set()
        self.log = options.log.open("a", buffering=1) if options.log else None
        self.port: int = options.port
        self.names: tuple[str, ...] = ("test",)
        self.listed: list[dict[str, Any]] = json.loads(options.listed)
        self.version: str = options.version
        self.says: list[str] = options.says.split(",") if options.says else []
        self.looked = 0

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.keys_seen.add(request.headers.get("authorization", ""))
        body = await request.json()
        model, prompt = body["model"], body["messages"][-1]["content"]
        digest = hashlib.sha256(json.dumps([body["messages"], model]).encode()).hexdigest()[:16]
        self.asked[digest] += 1
        self.tries[digest] += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.random.uniform(*self.latency))
        finally:
            self.at_once -= 1
        if model.startswith("fault-"):
            return await unheard(model.removeprefix("fault-"), self.tries[digest], request, completion)
        if self.hang_after is not None and self.begun >= self.hang_after:
            return await unheard("hang-now", 1, request, completion)
        self.begun += 1
        if self.fault_rate and (fault := self._drawn_fault()):
            return await unheard(fault, self.tries[digest], request, completion)
        if model.startswith("recorded-") and self.recorded is not None:
            texts = self.recorded.replies(model.removeprefix("recorded-"), prompt)
        else:
            texts = [fixed_reply(prompt) + filler(digest, self.reply_bytes)]
        said = self.says[min(self.begun, len(self.says)) - 1] if self.says else model
        answer = completion(texts, said or model, prompt)
        response: web.StreamResponse = web.Response(body=answer, content_type="application/json")
        if body.get("stream"):
            self.streamed += 1
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        try:
            await response.prepare(request)
            for event in events(answer) if body.get("stream") else ():
                await response.write(event)
            await response.write_eof()
        except ConnectionError:  # the client was killed: this answer did not arrive
            return response
        self.answered[digest] += 1
        if self.log:
            self.log.write(digest + "\n")
        return response

    def _drawn_fault(self) -> str:
        if self.random.random() >= self.fault_rate:
            return ""
        return self.random.choices(list(self.mix), list(self.mix.values()))[0] + "-now"

    async def stats(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "asked": sum(self.asked.values()),
                "answered": sum(self.answered.values()),
                "prompts": len(self.asked),
                "most": self.most,
                "looked": self.looked,
                "streamed": self.streamed,
                "answered_twice": sorted(key for key, count in self.answered.items() if count > 1),
                "violations": self.recorded.violations if self.recorded else [],
                "checked": dict(self.recorded.checked) if self.recorded else {},
                "documents": dict(self.recorded.held) if self.recorded else {},
                "keys_seen": sorted(self.keys_seen),
            }
        )

    async def models(self, request: web.Request) -> web.Response:
        self.looked += 1
        listed = self.listed or [{"id": name, "object": "model", "max_model_len": 32768} for name in self.names]
        return web.json_response({"object": "list", "data": listed})

    async def tell_version(self, request: web.Request) -> web.Response:
        self.looked += 1
        return web.json_response({"version": self.version}) if self.version else web.Response(status=404)

    async def health(self, request: web.Request) -> web.Response:
        return web.Response()


async def unheard(*arguments: Any) -> web.StreamResponse:
    """A fault, which nobody may be there to meet any more."""
    try:
        return await misbehave(*arguments)
    except ConnectionError:
        return web.Response()


def filler(digest: str, size: int) -> str:
    """Text that depends on the request alone and does not compress well."""
    return " " + random.Random(digest).randbytes(size // 2).hex() if size else ""


def fixed_reply(prompt: str) -> str:
    """A parsable reply that depends on the prompt alone."""
    letter = "ABCD"[int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % 3]
    return json.dumps({"step_by_step_thinking": "A fixed reply of the test server.", "answer_choice": letter})


def written(messages: list[dict[str, str]]) -> str:
    """The conversation as one text, as a template would write it."""
    return "".join(f"<{message['role']}>{message['content']}" for message in messages)


def completion(texts: list[str], model: str, prompt: str, finish: str = "stop", cached: int = 0) -> bytes:
    """A chat completion with one choice for each text (none: no choices)."""
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        for i, text in enumerate(texts[:1])
    ]
    given, length = len(prompt) // 4, sum(len(text) for text in texts[:1]) // 4
    usage = {"prompt_tokens": given, "completion_tokens": length, "total_tokens": given + length}
    if cached:
        usage |= {"prompt_tokens_details": {"cached_tokens": min(cached, given)}}  # type: ignore[dict-item]
    return json.dumps(
        {"id": "c", "object": "chat.completion", "created": 0, "model": model, "choices": choices, "usage": usage}
    ).encode()


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """The server's options, by default from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--benchmark", type=Path)
    parser.add_argument("--predictions", type=Path, nargs="*", default=[])
    parser.add_argument("--corpus", type=Path, help="BEIR folder whose passages a RAG prompt must hold")
    parser.add_argument("--documents", type=int, default=0, help="how many passages a RAG prompt must hold")
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--jitter", type=float, default=0.0)
    parser.add_argument("--faults", type=float, default=0.0, help="share of requests that meet a fault")
    parser.add_argument(
        "--mix",
        default="429-retry-after=5,500=2,cut=1,malformed=1",
        help="kinds of faults (tests.servers.faults) and how often each is drawn among them",
    )
    parser.add_argument("--hang-after", type=int, help="answer so many requests, and none any more")
    parser.add_argument("--reply-bytes", type=int, default=0, help="make every fixed reply so much longer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--listed", default="[]", help="the entries of /v1/models, as JSON")
    parser.add_argument("--version", default="", help="what /version tells; by default there is no such page")
    parser.add_argument("--says", default="", help="the model of the first reply, of the second …; the last ever after")
    return parser.parse_args(arguments)


def answer(server: Server) -> None:
    """Answer on loopback until interrupted. The port is printed when it is open."""
    serve(
        {
            "POST /v1/chat/completions": server.complete,
            "GET /v1/models": server.models,
            "GET /version": server.tell_version,
            "GET /health": server.health,
            "GET /stats": server.stats,
        },
        server.port,
    )


if __name__ == "__main__":
    answer(Server(options_of()))
