"""The forms of other vendors over the scripted model server: Anthropic's, Google's, a websocket's, and two searches.

Each turns its request into the messages that `agent_server.Turn` reads, and the turn into a reply of its own form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from aiohttp import WSMsgType, web

from tests.servers.agent_server import AgentServer, Turn, words


class VendorForms:
    """Routes for one server's state."""

    def __init__(self, server: AgentServer) -> None:
        self._server = server

    def routes(self) -> dict[str, Any]:
        """What is served beside OpenAI's forms."""
        return {
            "POST /v1/messages": self.messages,
            "POST /{version:v1|v1beta}/models/{call}": self.generate,
            "GET /v1/socket": self.socket,
            "GET /": self.elastic,
            "HEAD /langchain_index": self.elastic,
            "POST /langchain_index/_search": self.elastic_search,
            "POST /search": self.search,
            "GET /search": self.search,
        }

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Anthropic's messages."""
        body = await request.json()
        tools = {one["name"]: one.get("input_schema") or {} for one in body.get("tools") or ()}
        chosen = body.get("tool_choice") or {}
        choice = chosen if chosen.get("type") == "tool" else chosen.get("type")
        turn = Turn(list(from_blocks(body["messages"])), tools, choice, None)
        counted = self._server.usage(body["model"], turn, ("input_tokens", "output_tokens"))
        usage = {name: counted[name] for name in ("input_tokens", "output_tokens")}
        digest = _digest(turn)
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": f"toolu_{digest}_{i}", "name": name, "input": json.loads(arguments)}
            for i, (name, arguments) in enumerate(turn.calls)
        ] or [{"type": "text", "text": turn.text}]
        whole = {"id": f"msg_{digest}", "type": "message", "role": "assistant", "model": body["model"]}
        whole |= {"content": content, "stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
        if not body.get("stream"):
            return web.json_response(whole | {"usage": usage})
        return await self._server.streamed(request, message_events(whole, usage), named=True)

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Google's generateContent, whole or streamed; a search of Google's own gives one source."""
        body = await request.json()
        model, _, method = request.match_info["call"].partition(":")
        offered = body.get("tools") or ()
        tools = {
            one["name"]: lowered(one.get("parametersJsonSchema") or one.get("parameters") or {})
            for group in offered
            for one in group.get("functionDeclarations") or ()
        }
        settings = body.get("generationConfig") or {}
        form = settings.get("responseJsonSchema") or settings.get("responseSchema")
        mode = ((body.get("toolConfig") or {}).get("functionCallingConfig") or {}).get("mode", "AUTO")
        choice = {"ANY": "any", "NONE": "none"}.get(mode)
        turn = Turn(list(from_parts(body["contents"])), tools, choice, lowered(form) if form else None)
        counted = self._server.usage(model, turn, ("promptTokenCount", "candidatesTokenCount"))
        usage = {"totalTokenCount" if name == "total_tokens" else name: count for name, count in counted.items()}
        parts: list[dict[str, Any]] = [
            {"functionCall": {"name": name, "args": json.loads(arguments)}} for name, arguments in turn.calls
        ] or [{"text": turn.text}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        if any("googleSearch" in group or "google_search" in group for group in offered):
            segment = {"startIndex": 0, "endIndex": len(turn.text), "text": turn.text}
            candidate["groundingMetadata"] = {
                "webSearchQueries": [words(turn.text)],
                "groundingChunks": [{"web": {"uri": "http://notes.test/1", "title": "A note"}}],
                "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
            }
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": _digest(turn)}
        if method == "generateContent":
            return web.json_response(whole)
        return await self._server.streamed(request, iter([whole]), ended=False)

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """A websocket: a question in, an answer out."""
        answering = web.WebSocketResponse()
        await answering.prepare(request)
        async for message in answering:
            if message.type == WSMsgType.TEXT:
                await answering.send_str(await self._server.told(message.data))
        return answering

    async def elastic(self, request: web.Request) -> web.Response:
        """What Elasticsearch's client asks before it searches."""
        version = {"number": "8.19.0", "build_flavor": "default"}
        return web.json_response({"version": version, "tagline": "You Know, for Search"}, headers=ELASTIC)

    async def elastic_search(self, request: web.Request) -> web.Response:
        """Two notes for whatever is looked for; which, hangs on the request."""
        body = await request.json()
        hits = [
            {"_index": "langchain_index", "_id": f"note-{i}", "_score": 1.0 - i / 10}
            | {"_source": {"text": f"Note {i} on {found}.", "metadata": {"title": f"Note {i}", "user_id": "me"}}}
            for i, found in enumerate(_kinds(json.dumps(body)))
        ]
        told = {"took": 1, "timed_out": False, "hits": {"total": {"value": len(hits)}, "hits": hits}}
        return web.json_response(told, headers=ELASTIC)

    async def search(self, request: web.Request) -> web.Response:
        """A search of the web, in Tavily's form (asked by POST) or in that of gpt-researcher's own (by GET)."""
        query = (await request.json())["query"] if request.method == "POST" else request.query.get("query", "")
        found = [
            {"title": f"Note {i}", "url": f"http://notes.test/{i}", "content": f"Note {i} on {kind}.", "score": 0.9}
            | {"raw_content": None, "href": f"http://notes.test/{i}", "body": f"Note {i} on {kind}."}
            for i, kind in enumerate(_kinds(query))
        ]
        if request.method == "GET":
            return web.json_response([{"url": one["url"], "raw_content": one["content"] * 20} for one in found])
        return web.json_response({"query": query, "results": found, "images": [], "response_time": 0.1})


ELASTIC = {"X-Elastic-Product": "Elasticsearch"}


def _kinds(text: str) -> list[str]:
    return [f"{words(text)}, {kind}" for kind in ("in adults", "in children")]


def _digest(turn: Turn) -> str:
    return hashlib.sha256(turn.asked.encode()).hexdigest()[:12]


def from_blocks(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Anthropic's messages as OpenAI has them."""
    for one in messages:
        blocks = one["content"] if isinstance(one["content"], list) else [{"type": "text", "text": one["content"]}]
        used = [{"name": block["name"]} for block in blocks if block["type"] == "tool_use"]
        results = [block for block in blocks if block["type"] == "tool_result"]
        text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
        yield from ({"role": "tool", "content": json.dumps(block.get("content"))} for block in results)
        if text or used:
            yield {"role": one["role"], "content": text, "tool_calls": used}


def from_parts(contents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Google's contents as OpenAI has them."""
    for one in contents:
        role = "assistant" if one.get("role") == "model" else "user"
        for part in one["parts"]:
            if "functionCall" in part:
                yield {"role": "assistant", "content": "", "tool_calls": [{"name": part["functionCall"]["name"]}]}
            elif "functionResponse" in part:
                yield {"role": "tool", "content": json.dumps(part["functionResponse"])}
            else:
                yield {"role": role, "content": part.get("text", "")}


def lowered(schema: Any) -> Any:
    """A schema of Google's, whose types are in capitals, as JSON schema has it."""
    if isinstance(schema, dict):
        return {
            key: value.lower() if key == "type" and isinstance(value, str) else lowered(value)
            for key, value in schema.items()
        }
    return [lowered(one) for one in schema] if isinstance(schema, list) else schema


def message_events(whole: dict[str, Any], usage: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Anthropic's message in events; arguments of tools come in two."""
    begun = whole | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(whole["content"]):
        empty, pieces, kind = {"text": ""}, [{"text": block.get("text", "")}], "text_delta"
        if block["type"] == "tool_use":
            arguments = json.dumps(block["input"])
            half = len(arguments) // 2
            empty, kind = {"input": {}}, "input_json_delta"
            pieces = [{"partial_json": arguments[:half]}, {"partial_json": arguments[half:]}]
        yield {"type": "content_block_start", "index": index, "content_block": block | empty}
        for piece in pieces:
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, **piece}}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}
