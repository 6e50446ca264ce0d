"""Known forms of model calls on the wire: the request, the model, and the answer.

A foreign system calls models through its own clients. Its calls are recognised by path and body: chat completions,
completions, responses and embeddings of OpenAI and of the many compatible servers, messages of Anthropic, Ollama's
chat, Gemini's `generateContent`, and rerankers. Complete answers and streams are read.
"""

from __future__ import annotations

import hashlib
import json
import re
import urllib.parse
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct, field

from ragrounds.base.contracts import Request
from ragrounds.base.http import BadReply, read_json
from ragrounds.base.records import Reply
from ragrounds.base.specs import Spec, Value
from ragrounds.models.openai_protocol import read_reply
from ragrounds.models.reply_parts import words
from ragrounds.models.wire_parts import object_in
from ragrounds.models.wire_replies import (
    gemini_read,
    list_read,
    listed_read,
    mcp_read,
    messages_read,
    ollama_read,
    responses_read,
)
from ragrounds.models.wire_requests import SHOWN, Body, listed_asked, read_request, response_format, tool_choice
from ragrounds.recorder.wire import WireRequest, WireResponse


class RecordedRequest(Request, frozen=True, kw_only=True, omit_defaults=True):
    """Call of a foreign system in the journal. Read as :class:`Request`, it is shown like any other."""

    form: str
    address: str
    """Address without a query and without a login."""
    settings: dict[str, object] = field(default_factory=dict)
    """Fields of the body other than messages and tools: temperature, response format, tool choice …"""


class RecordedReply(Reply, frozen=True, kw_only=True):
    """Answer of a foreign system's call, read as :class:`Reply`, with the original body, which a replay returns."""

    status: int
    content_type: str
    body: str
    encoding: str = "utf-8"
    headers: dict[str, str] = field(default_factory=dict)
    """Headers (``x-…``) of a service at an address that the user listed: Elasticsearch's client identifies its server
    by one."""


class ModelCall(Struct, frozen=True, dict=True):
    """Request of a known form."""

    form: WireForm
    address: str
    model: str
    body: Body
    id: object = None
    """Id that the answer must have, in forms with one. It is random for each call, and not part of the call's key."""

    @cached_property
    def actor(self) -> str:
        """Text of the model: provider, name, server, and sampling."""
        if self.form is LISTED:
            return f"http:{self.model}"
        parts = urllib.parse.urlsplit(self.address)
        provider = _PROVIDERS.get(parts.hostname or "", "")
        parameters: dict[str, Value] = {}
        if not provider:
            provider = self.form.provider
            parameters["server"] = self.address.removesuffix(self.form.path)
        sampled = {key: self.body[key] for key in sorted(_SAMPLING & self.body.keys())}
        parameters |= {key: value for key, value in sampled.items() if isinstance(value, bool | int | float | str)}
        return str(Spec(f"{provider}:{self.model}", parameters))

    @property
    def listed(self) -> bool:
        """True if the server is the provider's own, whose prices are listed."""
        return (urllib.parse.urlsplit(self.address).hostname or "") in _PROVIDERS

    def request(self) -> RecordedRequest:
        """Return the request for the journal."""
        is_tool = self.form.role == "tool"
        readable = listed_asked(self.body) if is_tool else read_request(self.body)
        settings = {} if is_tool else {key: self.body[key] for key in self.body if key not in SHOWN}
        return RecordedRequest(
            messages=readable.messages,
            stop=readable.stop,
            max_tokens=readable.max_tokens,
            tools=readable.tools,
            response_format=response_format(self.body),
            tool_choice=tool_choice(self.body),
            parallel_tool_calls=False if self.body.get("parallel_tool_calls") is False else None,
            form=self.form.name,
            address=self.address,
            settings=settings,
        )


class WireForm(Struct, frozen=True):
    """Form of a call."""

    name: str
    path: str
    """End of the address."""
    provider: str
    """Provider of the form, used as the model's provider if the server is not known."""
    needs: str
    """Key without which a body is not of this form."""
    read: Callable[[bytes, str], Reply]
    """Converts a body and its content type to the reply.

    Raises:
        ValueError, BadReply, ragrounds.models.faults.Transient: the body has another form.
    """
    role: str = "answering"


def known_call(request: WireRequest, listed: Sequence[str] = ()) -> ModelCall | None:
    """Read a request; ``None`` if its form is unknown and its address does not begin with one of those `listed`."""
    return _read_known_form(request) or _read_listed(request, listed)


def _read_listed(request: WireRequest, listed: Sequence[str]) -> ModelCall | None:
    """Read a call of unknown form to an address that the user listed. Its key is all of it but parameters named like
    secrets."""
    address = plain_address(request.url)
    if not any(address.startswith(plain_address(start).rstrip("/")) for start in listed):
        return None
    parameters = urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query, keep_blank_values=True)
    query = [f"{name}={value}" for name, value in parameters if not _SECRET.search(name)]
    body = {"method": request.method.upper(), "query": query, "body": request.body.decode("utf-8", "replace")}
    return ModelCall(LISTED, address, address.partition("://")[2], body)


def _read_known_form(request: WireRequest) -> ModelCall | None:
    if request.method.upper() != "POST" or request.body.lstrip()[:1] != b"{":
        return None
    address = plain_address(request.url)
    path = urllib.parse.urlsplit(address).path
    for form in FORMS:
        if not path.endswith(form.path) and not (form is GEMINI and _GEMINI_CALL in path):
            continue
        try:
            body = read_json(request.body)
        except (ValueError, BadReply):
            return None
        if not isinstance(body, dict) or form.needs not in body:
            continue
        if form is not MCP:
            return ModelCall(form, address, words(body.get("model"), 200) or _model_in(path), body)
        if "text/event-stream" in request.headers.get("accept", "") and (method := words(body.get("method"), 200)):
            # Without fields that are random for each call.
            params = {name: value for name, value in object_in(body, "params").items() if name != "_meta"}
            message = {"method": method, "params": params}
            return ModelCall(MCP, address, words(params.get("name"), 200) or method, message, body.get("id"))
    return None


def plain_address(url: str) -> str:
    """Return an address without a login, a query and a fragment: these may contain a key."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port and parts.port != {"http": 80, "https": 443}.get(parts.scheme) else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _model_in(path: str) -> str:
    """Return the model that a path names: Azure's deployments, Gemini's models."""
    before: str = ""
    for part in path.split("/"):
        if before in ("deployments", "models", "engines"):
            return urllib.parse.unquote(part.partition(":")[0])
        before = part
    return "unknown"


_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "google_genai",
    "api.mistral.ai": "mistralai",
    "api.groq.com": "groq",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "xai",
    "api.together.xyz": "together",
    "api.fireworks.ai": "fireworks",
    "api.cohere.com": "cohere",
    "openrouter.ai": "openrouter",
}
"""Hosts of providers → names of providers in model specs (`--model google_genai:…`) and prices.toml."""
_SAMPLING = frozenset(
    "temperature top_p top_k seed presence_penalty frequency_penalty repetition_penalty reasoning_effort".split()
)
_GEMINI_CALL = "enerateContent"
_SECRET = re.compile(r"(?i)key|token|secret|password|signature|^sig$|^auth")


GEMINI = WireForm("generateContent", ":generateContent", "google_genai", "contents", gemini_read)
MCP = WireForm("MCP", "", "mcp", "jsonrpc", mcp_read, role="tool")
"""Form of a server of the Model Context Protocol, over streamable HTTP: its address may end in any way."""
FORMS: tuple[WireForm, ...] = (
    WireForm("chat completions", "/chat/completions", "openai", "messages", read_reply),
    WireForm("completions", "/completions", "openai", "prompt", read_reply),
    WireForm("responses", "/responses", "openai", "input", responses_read),
    WireForm("messages", "/messages", "anthropic", "messages", messages_read),
    WireForm("embeddings", "/embeddings", "openai", "input", list_read, role="embedding"),
    WireForm("Ollama chat", "/api/chat", "ollama", "messages", ollama_read),
    WireForm("Ollama generate", "/api/generate", "ollama", "prompt", ollama_read),
    WireForm("Ollama embeddings", "/api/embed", "ollama", "input", list_read, role="embedding"),
    WireForm("rerank", "/rerank", "cohere", "documents", list_read, role="reranking"),
    GEMINI,
    MCP,
)
LISTED = WireForm("HTTP", "", "http", "", listed_read, role="tool")
"""Form of an address that the user listed: nothing is known of its bodies."""


def canonical(body: Body) -> bytes:
    """Return a body as bytes that do not depend on the order of its keys."""
    return json.dumps(body, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def recorded(form: WireForm, response: WireResponse, redact: Callable[[str], str]) -> RecordedReply:
    """Return an answer for the journal, with keys removed.

    Raises:
        ValueError, BadReply, ragrounds.models.faults.Transient: it does not have this form.
    """
    try:
        text, encoding = response.body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = response.body.decode("latin-1"), "latin-1"
    clean = redact(text)
    headers = response.headers.items() if form is LISTED else ()
    reply = form.read(clean.encode(encoding), response.content_type)
    return RecordedReply(
        **{name: getattr(reply, name) for name in Reply.__struct_fields__},
        status=response.status,
        content_type=response.content_type,
        body=clean,
        encoding=encoding,
        headers={name: redact(value) for name, value in headers if name.startswith("x-")},
    )


def given_back(reply: RecordedReply) -> WireResponse:
    """Return a recorded answer as it is sent to the client."""
    return WireResponse(reply.status, reply.content_type, reply.body.encode(reply.encoding), reply.headers)


_LINKS = frozenset({"tool_call_id", "call_id", "tool_use_id"})
_CALLS = frozenset({"function", "function_call", "tool_use"})


def call_key(call: ModelCall, epoch: int) -> bytes:
    """Return the key of a call's first occurrence in an attempt: its form, its address, its whole body, the epoch.

    Ids that tie a tool's result to its call are numbered in order: a framework may generate new ones in every run.
    """
    numbers: dict[str, str] = {}
    body = {
        name: _number_ids(value, numbers) if name in ("messages", "input") else value
        for name, value in call.body.items()
    }
    parts = ("wire", call.form.name, call.address, canonical(body), epoch)
    return hashlib.sha256(msgspec.msgpack.encode(parts)).digest()


def _number_ids(value: object, numbers: dict[str, str]) -> object:
    """Return a value in which the ids of tool calls are replaced by the number of their first appearance."""
    if isinstance(value, list):
        return [_number_ids(part, numbers) for part in value]
    if not isinstance(value, dict):
        return value
    links = _LINKS | {"id"} if value.get("type") in _CALLS else _LINKS
    return {
        key: numbers.setdefault(part, f"call {len(numbers)}")
        if key in links and isinstance(part, str)
        else _number_ids(part, numbers)
        for key, part in value.items()
    }
