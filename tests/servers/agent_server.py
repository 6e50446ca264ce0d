"""A model server for agents of every kind: OpenAI's chat completions, responses and embeddings on loopback.

It is no model: what it answers follows from the request alone. Where tools are offered it calls one that has not been
called yet (searches first, then other agents), a tool that is asked for by name always; a structured reply is made from
the schema that comes with the request; anything else is answered with a letter. A grader says no now and then, by the
hash of what it is shown, so that corrective paths are taken too.

``GET /stats`` tells how many requests came, how many were answered whole, and their tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.servers.account import serve

WIDTH = 64
"""Numbers of a vector."""
SOCKET = "WS /v1/socket"
CREATED = 1_700_000_000
SEARCHES = re.compile(r"search|retriev|look_?up|query_engine", re.IGNORECASE)
AGENTS = re.compile(r"^(task|transfer_to_\w+|ConductResearch|delegate\w*)$")
ENDING = re.compile(r"^(ResearchComplete|done|finish\w*|submit\w*)$")


def drawn(text: str, among: int) -> int:
    """A number below `among` that hangs on a text alone."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) % among


def plain(content: Any) -> str:
    """The text of a message's content, which may come in parts."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content or ""


def value_of(schema: dict[str, Any], shown: str, top: dict[str, Any], name: str = "") -> Any:
    """A value that a JSON schema allows."""
    if "$ref" in schema:
        return value_of(top["$defs"][schema["$ref"].rpartition("/")[2]], shown, top, name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        allowed = schema["enum"]
        if {"yes", "no"} <= set(allowed):
            return "no" if drawn(shown, 4) == 0 else "yes"
        return allowed[drawn(shown, len(allowed))]
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            first = next((one for one in schema[several] if one.get("type") != "null"), {"type": "null"})
            return value_of(first, shown, top, name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        wanted = schema.get("required") or list(schema.get("properties", {}))
        return {key: value_of(schema["properties"][key], shown, top, key) for key in wanted}
    if kind == "array":
        return [value_of(schema.get("items", {}), shown, top, name)]
    return {"boolean": False, "integer": 1, "number": 0.5, "null": None}.get(kind, words(shown))


def words(shown: str) -> str:
    """A short query out of a text."""
    found = re.findall(r"[A-Za-z]{6,}", shown)[:6]
    return " ".join(found) or "medicine"


class Turn:
    """What the assistant says: a text, or calls of tools."""

    def __init__(
        self, messages: list[dict[str, Any]], tools: dict[str, dict[str, Any]], choice: Any, form: Any
    ) -> None:
        self.text = ""
        self.calls: list[tuple[str, str]] = []
        self.asked = json.dumps([messages, sorted(tools), form], sort_keys=True)
        users = [plain(one["content"]) for one in messages if one.get("role") in ("user", "human")]
        shown = users[0] if users else ""
        called = Counter(
            call.get("function", call).get("name", "") for one in messages for call in one.get("tool_calls") or ()
        )
        wanted = self._tool(tools, choice, called)
        if wanted:
            schema = tools[wanted]
            arguments = value_of(schema, "\n".join(users[-1:]) or shown, schema) if schema else {}
            if "subagent_type" in arguments:  # its names stand in the description alone
                arguments["subagent_type"] = "reader"
            self.calls.append((wanted, json.dumps(arguments)))
        elif form is not None:
            self.text = json.dumps(value_of(form, "\n".join(users), form))
        elif "list of strings" in "\n".join(plain(one.get("content")) for one in messages):  # a form in words alone
            self.text = json.dumps([words(shown)])
        else:
            letter = "ABC"[drawn(shown, 3)]
            self.text = f"The notes speak of {words(shown)}. The answer is ({letter})."

    @staticmethod
    def _tool(tools: dict[str, dict[str, Any]], choice: Any, called: Counter[str]) -> str:
        if choice == "none" or not tools:
            return ""
        if isinstance(choice, dict):
            return str(choice.get("function", choice).get("name", ""))
        left = [name for name in tools if not called[name]]
        for kind in (AGENTS, SEARCHES):
            for name in left:
                if kind.search(name):
                    return name
        ends = [name for name in left if ENDING.search(name)]
        if ends:
            return ends[0]
        return (left or list(tools))[0] if choice in ("required", "any") else ""

    @property
    def said(self) -> str:
        """Everything that was written, for counting."""
        return self.text + "".join(name + arguments for name, arguments in self.calls)


class AgentServer:
    """State of one server process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.latency: float = options.latency
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.digests: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.models: Counter[str] = Counter()
        self.log = options.log.open("a", buffering=1) if options.log else None

    @web.middleware
    async def counted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Count a request when it comes, and when its answer has been sent whole."""
        if request.method != "POST":
            return await handler(request)
        kind = f"{request.method} {request.path}"
        self.asked[kind] += 1
        body = await request.read()
        await asyncio.sleep(self.latency)
        response = await handler(request)
        try:
            if not response.prepared:
                await response.prepare(request)
            await response.write_eof()
        except ConnectionError:
            return response
        if response.status == 200:
            digest = hashlib.sha256(body).hexdigest()[:16]
            self.answered[kind] += 1
            self.digests[digest] += 1
            if self.log:
                self.log.write(digest + "\n")
        return response

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Chat completions."""
        body = await request.json()
        tools = {one["function"]["name"]: one["function"].get("parameters") or {} for one in body.get("tools") or ()}
        form = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        turn = Turn(body["messages"], tools, body.get("tool_choice"), form)
        usage = self.usage(body["model"], turn, ("prompt_tokens", "completion_tokens"))
        digest = hashlib.sha256(turn.asked.encode()).hexdigest()[:12]
        calls = [
            {"index": i, "id": f"call_{digest}_{i}", "type": "function", "function": {"name": n, "arguments": a}}
            for i, (n, a) in enumerate(turn.calls)
        ]
        message = {"role": "assistant", "content": turn.text or None, **({"tool_calls": calls} if calls else {})}
        finish = "tool_calls" if calls else "stop"
        head = {"id": f"chatcmpl-{digest}", "created": CREATED, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        counted = (body.get("stream_options") or {}).get("include_usage")
        return await self.streamed(request, chunks(head, turn.text, calls, finish, usage if counted else None))

    async def responses(self, request: web.Request) -> web.StreamResponse:
        """The responses form."""
        body = await request.json()
        given = body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]
        messages = [one | {"tool_calls": [one]} if one.get("type") == "function_call" else one for one in given]
        tools = {one["name"]: one.get("parameters") or {} for one in body.get("tools") or () if "name" in one}
        form = ((body.get("text") or {}).get("format") or {}).get("schema")
        turn = Turn(messages, tools, body.get("tool_choice"), form)
        usage = self.usage(body["model"], turn, ("input_tokens", "output_tokens"))
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        digest = hashlib.sha256(turn.asked.encode()).hexdigest()[:12]
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        output: list[dict[str, Any]] = [
            {"type": "function_call", "id": f"fc_{digest}_{i}", "call_id": f"call_{digest}_{i}", "name": name}
            | {"arguments": arguments, "status": "completed"}
            for i, (name, arguments) in enumerate(turn.calls)
        ] or [{"type": "message", "id": f"msg_{digest}", "status": "completed", "role": "assistant", "content": [part]}]
        whole = {"id": f"resp_{digest}", "object": "response", "created_at": CREATED, "status": "completed"}
        whole |= {"model": body["model"], "output": output, "parallel_tool_calls": True, "tool_choice": "auto"}
        whole |= {"tools": body.get("tools") or [], "usage": usage, "error": None, "instructions": None}
        if not body.get("stream"):
            return web.json_response(whole)
        return await self.streamed(request, events(whole), named=True)

    async def embeddings(self, request: web.Request) -> web.StreamResponse:
        """Vectors in which texts that share words lie near each other."""
        body = await request.json()
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        data = [{"object": "embedding", "index": i, "embedding": vector(str(one))} for i, one in enumerate(texts)]
        if body.get("encoding_format") == "base64":
            import base64
            import struct

            for one in data:
                packed = struct.pack(f"<{WIDTH}f", *one["embedding"])
                one["embedding"] = base64.b64encode(packed).decode()
        count = sum(len(str(one)) for one in texts) // 4
        self.models[body["model"]] += 1
        self.tokens["embedded"] += count
        usage = {"prompt_tokens": count, "total_tokens": count}
        return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """An agent behind an address of its own form: a question and its choices in, an answer with sources out."""
        body = await request.json()
        turn = Turn([{"role": "user", "content": body["query"]}], {}, None, None)
        usage = self.usage("agent", turn, ("tokens_in", "tokens_out"))
        sources = [{"ref": "note-1", "heading": "A note", "body": f"A note on {words(body['query'])}."}]
        return web.json_response({"result": {"text": turn.text}, "sources": sources, "usage": usage})

    def usage(self, model: str, turn: Turn, names: tuple[str, str]) -> dict[str, Any]:
        """A turn's tokens under a vendor's names for what came in and went out; they are counted."""
        given, written = len(turn.asked) // 4, max(1, len(turn.said) // 4)
        self.models[model] += 1
        self.tokens["input"] += given
        self.tokens["output"] += written
        return {names[0]: given, names[1]: written, "total_tokens": given + written}

    async def told(self, question: str) -> str:
        """The answer to a bare text that came by another way than a request; it is counted as one."""
        self.asked[SOCKET] += 1
        await asyncio.sleep(self.latency)
        self.answered[SOCKET] += 1
        return Turn([{"role": "user", "content": question}], {}, None, None).text

    async def streamed(
        self, request: web.Request, pieces: Iterator[dict[str, Any]], named: bool = False, ended: bool = True
    ) -> web.StreamResponse:
        """A reply in pieces, with OpenAI's mark of its end where the pieces have no names and none is left out."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for piece in pieces:
            name = f"event: {piece['type']}\n" if named else ""
            await response.write(f"{name}data: {json.dumps(piece)}\n\n".encode())
        if ended and not named:
            await response.write(b"data: [DONE]\n\n")
        return response

    async def stats(self, request: web.Request) -> web.Response:
        """What was asked and answered."""
        told = {"asked": sum(self.asked.values()), "answered": sum(self.answered.values())}
        twice = sum(count - 1 for count in self.digests.values())
        told |= {"different": len(self.digests), "repeated": twice}
        parts = {"paths": self.answered, "tokens": self.tokens, "models": self.models}
        return web.json_response({**told, **{name: dict(counts) for name, counts in parts.items()}})

    async def models_listed(self, request: web.Request) -> web.Response:
        """One model, whatever is asked for."""
        return web.json_response({"object": "list", "data": [{"id": "gpt-4o-mini", "object": "model"}]})


def chunks(
    head: dict[str, Any], text: str, calls: list[dict[str, Any]], finish: str, usage: dict[str, Any] | None
) -> Iterator[dict[str, Any]]:
    """A chat completion in pieces: arguments of tools come in two, a text in three."""

    def chunk(delta: dict[str, Any], ended: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": "" if text else None})
    for call in calls:
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        yield chunk({"tool_calls": [call | {"function": call["function"] | {"arguments": arguments[:half]}}]})
        yield chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": arguments[half:]}}]})
    third = len(text) // 3 + 1
    for begin in range(0, len(text), third):
        yield chunk({"content": text[begin : begin + third]})
    yield chunk({}, finish)
    if usage:
        yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}


def events(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A response in events."""
    empty = whole | {"status": "in_progress", "output": [], "usage": None}
    made: list[dict[str, Any]] = [{"type": "response.created", "response": empty}]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        begun = item | ({"content": []} if item["type"] == "message" else {"arguments": ""})
        made.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        if item["type"] == "message":
            part = item["content"][0]
            at = place | {"content_index": 0}
            made.append({"type": "response.content_part.added", **at, "part": part | {"text": ""}})
            made.append({"type": "response.output_text.delta", **at, "delta": part["text"], "logprobs": []})
            made.append({"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []})
            made.append({"type": "response.content_part.done", **at, "part": part})
        else:
            made.append({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
            made.append({"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]})
        made.append({"type": "response.output_item.done", "output_index": index, "item": item})
    made.append({"type": "response.completed", "response": whole})
    for number, event in enumerate(made):
        yield event | {"sequence_number": number}


def vector(text: str) -> list[float]:
    """A text's vector: its words, hashed into so many numbers."""
    numbers = [0.0] * WIDTH
    for word in re.findall(r"\w{4,}", text.lower()):
        numbers[drawn(word, WIDTH)] += 1.0
    length = sum(number * number for number in numbers) ** 0.5 or 1.0
    return [number / length for number in numbers]


def main() -> None:
    """Parse what it is told and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--log", type=Path, help="a line for each whole answer")
    options = parser.parse_args()
    server = AgentServer(options)
    from tests.servers.vendor_forms import VendorForms

    routes = {
        "POST /v1/chat/completions": server.chat,
        "POST /v1/responses": server.responses,
        "POST /v1/embeddings": server.embeddings,
        "POST /ask": server.ask,
        "GET /v1/models": server.models_listed,
        "GET /stats": server.stats,
        **VendorForms(server).routes(),
    }
    serve(routes, options.port, server.counted)


if __name__ == "__main__":
    main()
