"""Models of all other providers through LangChain's `init_chat_model`, and conversion of messages."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ragrounds.base.addresses import redirected
from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.http import REPLY, BadReply, causes, read_pieces, retry_after
from ragrounds.base.records import Fault, Message, Reply, ToolCall, Usage
from ragrounds.models.base import ProviderModel
from ragrounds.models.faults import FAILED_FINISHES, CallFailed, Transient, reply_fault
from ragrounds.models.openai_protocol import tool_of
from ragrounds.models.options import ModelOptions
from ragrounds.models.prices import Price
from ragrounds.models.reply_parts import cache_writes, counted_usage, noted, read_logprobs, with_logprobs, without_keys
from ragrounds.models.request_arguments import ARGUMENTS, refuse_arguments
from ragrounds.models.retries import with_retries
from ragrounds.models.traffic import traffic_of
from ragrounds.recorder.redaction import Redactor, redacted

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable


def messages_of(messages: Sequence[Message]) -> list[BaseMessage]:
    """Convert messages to LangChain's. Tool call arguments that are not a JSON object become empty ones."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    converted: list[BaseMessage] = []
    for message in messages:
        if message.role == "system":
            converted.append(SystemMessage(message.content, name=message.name or None))
        elif message.role == "user":
            converted.append(HumanMessage(message.content, name=message.name or None))
        elif message.role == "tool":
            converted.append(ToolMessage(message.content, tool_call_id=message.answers))
        else:
            calls = [
                {"id": call.id, "name": call.name, "args": _parse_object(call.arguments) or {}}
                for call in message.calls
            ]
            converted.append(AIMessage(message.content, tool_calls=calls, name=message.name or None))
    return converted


def read_calls(message: AIMessage) -> tuple[ToolCall, ...]:
    """Return the tool calls of a message, also those with unreadable arguments; readable ones are canonical JSON."""
    canonical = partial(json.dumps, ensure_ascii=False, sort_keys=True, default=str)
    good = [ToolCall(call["id"] or "", call["name"], canonical(call["args"])) for call in message.tool_calls]
    bad = [
        ToolCall(call.get("id") or "", call.get("name") or "", str(call.get("args") or ""))
        for call in message.invalid_tool_calls
    ]
    return (*good, *bad)


def read_message(message: AIMessage) -> Reply:
    """Convert LangChain's reply: thinking blocks become its `reasoning`, text blocks its `text`."""
    meta = message.response_metadata
    finish = str(meta.get("finish_reason") or meta.get("stop_reason") or "stop").lower()
    reasoning = [str(block.get("reasoning", "")) for block in message.content_blocks if block["type"] == "reasoning"]
    usage, note = read_usage(message.usage_metadata)
    reply = Reply(
        text=str(message.text),
        finish={"end_turn": "stop", "max_tokens": "length", "safety": "content_filter"}.get(finish, finish),
        usage=usage,
        model=str(meta.get("model_name") or ""),
        cache_writes=cache_writes(message.usage_metadata, usage),
        reasoning="\n".join(filter(None, reasoning)),
        calls=read_calls(message),
        logprobs=read_logprobs(meta.get("logprobs")),
    )
    return noted(reply, [note])


def read_usage(usage_metadata: Mapping[str, object] | None) -> tuple[Usage | None, str]:
    """Return the tokens of a message's ``usage_metadata``, and a note.

    The usage is ``None`` if the provider gave no count, or an impossible one.
    """
    if usage_metadata is None:
        return None, ""
    before, after = usage_metadata.get("input_token_details"), usage_metadata.get("output_token_details")
    return counted_usage(
        usage_metadata.get("input_tokens"),
        usage_metadata.get("output_tokens"),
        before.get("cache_read") if isinstance(before, dict) else None,
        after.get("reasoning") if isinstance(after, dict) else None,
    )


def _parse_object(text: str) -> dict[str, object] | None:
    try:
        read = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, dict) else None


_PASSING = ("RateLimit", "Overloaded", "InternalServer", "ServiceUnavailable", "Timeout", "Connect", "ServerError")


class LangChainModel(ProviderModel):
    """Chat model through LangChain (contract: :class:`ragrounds.base.contracts.Model`)."""

    def __init__(self, chat: BaseChatModel, options: ModelOptions, price: Price | None = None) -> None:
        super().__init__(options, price, listed=options.provider)
        self._chat = chat
        self._redact = Redactor()
        _limit_clients(chat)

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Ask the provider, with retries.

        Raises:
            CallFailed: no reply after all tries, or the request is wrong.
            StopRun: every further call would fail in the same way, or the provider cannot take an argument.
        """
        prepared = self._bound_model(request)
        reply = await with_retries(lambda: self._try(request, prepared), self._options.serving.retries, faults)
        return with_logprobs(reply, request.logprobs)

    async def close(self) -> None:
        """Do nothing: LangChain's models manage their clients."""

    async def _try(self, request: Request, prepared: Runnable[Any, AIMessage]) -> Reply:
        timeout = self._options.serving.timeout
        server = self._options.serving.base_url or self._options.provider
        async with traffic_of(server).call(self._rates, self._size(request)):
            try:
                async with asyncio.timeout(timeout):
                    message = await prepared.ainvoke(messages_of(request.messages))
            except StopRun:
                raise
            except TimeoutError as error:
                raise Transient("timeout", f"no complete answer within {timeout:g} s") from error
            except Exception as error:
                raise _convert_error(error, self._options.model, server) from error
        reply = without_keys(read_message(message), self._redact)
        if reply.finish in FAILED_FINISHES:
            raise Transient("server", f"finish_reason: {reply.finish}")
        return reply

    def _bound_model(self, request: Request) -> Runnable[Any, AIMessage]:
        """Return the chat model with the arguments of this request."""
        fields, bound = self._arguments(request)
        chat = self._chat.model_copy(update=fields) if fields else self._chat
        if request.stop:
            bound["stop"] = list(request.stop)
        if request.max_tokens is not None:
            bound["max_tokens"] = request.max_tokens
        tools: list[dict[str, object]] = [tool_of(tool) for tool in request.tools]
        if request.web_search:
            search_tool = _WEB_SEARCH.get(self._options.provider)
            if search_tool is None:
                raise StopRun(
                    f"The web search of {self._options.provider!r} is not supported. Supported:  openai, "
                    f"{', '.join(_WEB_SEARCH)}."
                )
            tools.append(search_tool)
        form = {} if request.response_format is None else {"response_format": request.response_format}
        if not tools:
            return chat.bind(**bound, **form) if bound or form else chat
        if request.tool_choice is not None:
            bound["tool_choice"] = choice_for(request.tool_choice, self._options.provider)
        return chat.bind_tools(tools, **bound).bind(**form)

    def _arguments(self, request: Request) -> tuple[dict[str, object], dict[str, Any]]:
        """Return the arguments of the request as fields of the chat model, and as arguments bound to the call.

        A provider's class declares what it supports by its fields: a field is sent, while an unknown keyword may be
        dropped silently.

        Raises:
            StopRun: the provider does not support one of them.
        """
        kind, more = type(self._chat), _FURTHER.get(self._options.provider, {})
        model_fields = {name for name in kind.model_fields if name in ARGUMENTS or name == "top_logprobs"}
        wished = {name: getattr(request, name) for name in ("temperature", "seed", "logprobs")}
        refused = [name for name in wished if name not in model_fields and name not in more]
        if not (self._options.provider in _FORMS or any(base.__name__ == "BaseChatOpenAI" for base in kind.__mro__)):
            refused.append("response_format")
        refused += _UNKNOWN.get(self._options.provider, ())
        refuse_arguments(request, self._options.identity, refused, f"LangChain's {kind.__name__} does not send it")
        if request.logprobs is not None:
            wished |= {"logprobs": True, "top_logprobs": request.logprobs or None}
        arguments = {name: value for name, value in wished.items() if value is not None}
        fields = {name: value for name, value in arguments.items() if name in model_fields}
        bound: dict[str, Any] = {
            more.get(name, name): value for name, value in arguments.items() if name not in model_fields
        }
        if request.parallel_tool_calls is not None:
            bound["parallel_tool_calls"] = request.parallel_tool_calls
        return fields, bound


def choice_for(choice: str, provider: str) -> object:
    """Return a choice of tools in LangChain's words, which each provider's class converts."""
    if choice == "none" and provider == "anthropic":  # Anthropic's class takes any other word for a tool's name
        return {"type": "none"}
    return "any" if choice == "required" else choice


_FORMS = frozenset({"anthropic", "google_genai", "groq", "mistralai", "ollama"})
_FURTHER: Mapping[str, Mapping[str, str]] = {
    "groq": {"seed": "seed", "logprobs": "logprobs", "top_logprobs": "top_logprobs"},
    "mistralai": {"seed": "random_seed"},
}
"""Provider → arguments that its server accepts although LangChain's class has no field for them → name on the
server."""
_UNKNOWN: Mapping[str, tuple[str, ...]] = {
    "ollama": ("tool_choice", "parallel_tool_calls"),
    "google_genai": ("parallel_tool_calls",),
}
"""Provider → arguments that LangChain's class accepts and drops."""


_WEB_SEARCH: Mapping[str, dict[str, object]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "google_genai": {"google_search": {}},
}
"""Provider → declaration of its web search tool."""


def open_langchain_model(options: ModelOptions, price: Price | None = None) -> LangChainModel:
    """Open ``provider:model`` through LangChain, with LangChain's retries switched off.

    Raises:
        UserError: LangChain does not know the provider, its package is not installed, or its key is not set.
    """
    from langchain.chat_models import init_chat_model

    _forget_clients()
    parameters = dict(msgspec.to_builtins(options.sampling))
    if options.serving.base_url:
        parameters["base_url"] = options.serving.base_url
    try:
        chat = init_chat_model(options.model, model_provider=options.provider, max_retries=0, **parameters)
    except ImportError as error:
        raise UserError(f"The provider {options.provider!r} needs a package: {error}") from error
    except Exception as error:
        # Each provider's class raises its own errors for a missing key or an unsupported parameter.
        raise UserError(f"Cannot open {options.identity}: {redacted(str(error))}") from error
    return LangChainModel(chat, options, price)


def _forget_clients() -> None:
    """Clear LangChain's cached clients, so that the next model gets a new client.

    LangChain's packages keep clients for the whole process, but a client's connections belong to the event loop of its
    first use, which may have changed.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("langchain_") and name.endswith("_client_utils"):
            for member in vars(module).values():
                if "async" in getattr(member, "__name__", "") and hasattr(member, "cache_clear"):
                    member.cache_clear()


_CLIENTS = ("root_async_client", "root_client", "_async_client", "_client", "async_client", "client")
"""Attributes in which the chat models of LangChain's packages keep their clients."""


def _limit_clients(chat: BaseChatModel) -> None:
    """Let the clients of a chat model follow no redirects and read at most :data:`ragrounds.base.http.REPLY`.

    This covers clients of httpx or its successor: those of OpenAI, Anthropic, Groq and Mistral.
    """
    for name in _CLIENTS:
        client = getattr(chat, name, None)
        inner = getattr(client, "_client", client)
        if inner is not None and hasattr(inner, "event_hooks") and hasattr(inner, "follow_redirects"):
            inner.follow_redirects = False
            if "Async" in "".join(kind.__name__ for kind in type(inner).__mro__):
                hooks = inner.event_hooks
                inner.event_hooks = {**hooks, "response": [*hooks["response"], _limit_response]}


async def _limit_response(response: Any) -> None:
    """Decompress a response of httpx in bounded steps, in place of httpx' decoders."""
    library = sys.modules[type(response).__module__.partition(".")[0]]
    stream, encoding = response.stream, response.headers.pop("content-encoding", "")

    class Bounded(library.AsyncByteStream):  # type: ignore[misc,name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in read_pieces(stream, encoding, REPLY.size):
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    response.stream = Bounded()


def _convert_error(error: Exception, model: str, server: str) -> Exception:
    """Convert a provider's error by its HTTP status, else by the name of its class: providers share no error class."""
    for cause in causes(error):
        if isinstance(cause, BadReply):
            large = cause.kind == "too_large"
            return CallFailed(cause.kind, cause.message) if large else Transient(cause.kind, cause.message)
    message = redacted(" ".join(str(error).split()))[:500]
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if isinstance(status, int) and 300 <= status < 400:
        location = response.headers.get("location", "") if response is not None else ""
        return redirected(server, status, location, Redactor())
    if status in (401, 403):
        return StopRun(f"The provider of {model} refused the key ({status}): {message}")
    if status == 404:
        return StopRun(f"The provider does not know the model {model!r} (404): {message}")
    wait = retry_after(response.headers) if response is not None and hasattr(response, "headers") else None
    if fault := reply_fault(status if isinstance(status, int) else None, "", message, wait):
        return fault
    if status is None and any(part in type(error).__name__ for part in _PASSING):
        return Transient("connection", message)
    return CallFailed("bad_request", f"{type(error).__name__}: {message}")
