"""Every other provider: LangChain's `init_chat_model` behind the model contract."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ragrounds.contracts import Request
from ragrounds.errors import StopRun, UserError
from ragrounds.models import tokens
from ragrounds.models.faults import CallFailed, Transient, redacted
from ragrounds.models.openai_answers import retry_after
from ragrounds.models.options import ModelOptions
from ragrounds.models.prices import Price, listed_price, listed_window
from ragrounds.models.retrying import patiently
from ragrounds.records import Fault, Reply, Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

_PASSING = ("RateLimit", "Overloaded", "InternalServer", "ServiceUnavailable", "Timeout", "Connect", "ServerError")


class LangChainModel:
    """A LangChain chat model (contract: :class:`ragrounds.contracts.Model`).

    `price` is the user's own price; without it genai-prices' list is asked.
    """

    def __init__(self, chat: BaseChatModel, options: ModelOptions, price: Price | None = None) -> None:
        self._chat = chat
        self._options = options
        self._price = options.serving.price or price
        self._window = options.serving.window or listed_window(options.provider, options.model)

    @property
    def spec(self) -> str:
        return self._options.identity

    @property
    def window(self) -> int | None:
        return self._window

    def count(self, text: str) -> int:
        return tokens.count(text, self._options.model)

    def cut(self, text: str, size: int, /) -> str:
        return tokens.cut(text, size, self._options.model)

    def price(self, reply: Reply) -> float | None:
        if reply.usage is None:
            return None
        if self._price is not None:
            return self._price.of(reply.usage)
        return listed_price(self._options.provider, self._options.model, reply.usage)

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        return await patiently(lambda: self._try(request), self._options.serving.retries, faults)

    async def close(self) -> None:
        """LangChain's models hold their clients themselves."""

    async def _try(self, request: Request) -> Reply:
        settings: dict[str, Any] = {}
        if request.stop:
            settings["stop"] = list(request.stop)
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        timeout = self._options.serving.timeout
        try:
            async with asyncio.timeout(timeout):
                message = await self._chat.ainvoke([(m.role, m.content) for m in request.messages], **settings)
        except TimeoutError as error:
            raise Transient("timeout", f"no complete answer within {timeout:g} s") from error
        except Exception as error:
            raise _meaning(error, self._options.model) from error
        return read_message(message)


def open_langchain_model(options: ModelOptions, price: Price | None = None) -> LangChainModel:
    """Open ``provider:model`` through LangChain, its own retries switched off.

    Raises:
        UserError: LangChain does not know the provider, its package is not installed, or it has no key.
    """
    from langchain.chat_models import init_chat_model

    parameters = dict(msgspec.to_builtins(options.sampling))
    if options.serving.base_url:
        parameters["base_url"] = options.serving.base_url
    try:
        chat = init_chat_model(options.model, model_provider=options.provider, max_retries=0, **parameters)
    except ImportError as error:
        raise UserError(f"The provider {options.provider!r} needs a package: {error}") from error
    except Exception as error:
        # Each provider's class has its own errors for a missing key or a parameter it does not take.
        raise UserError(f"Cannot open {options.identity}: {redacted(str(error))}") from error
    return LangChainModel(chat, options, price)


def read_message(message: AIMessage) -> Reply:
    """LangChain's reply as ours. Thinking blocks go to `reasoning`, text blocks to `text`."""
    meta = message.response_metadata
    finish = str(meta.get("finish_reason") or meta.get("stop_reason") or "stop").lower()
    reasoning = [str(block.get("reasoning", "")) for block in message.content_blocks if block["type"] == "reasoning"]
    given = message.usage_metadata
    usage = None
    if given is not None:
        usage = Usage(
            input=given["input_tokens"],
            output=given["output_tokens"],
            cached=given.get("input_token_details", {}).get("cache_read", 0) or 0,
            reasoning=given.get("output_token_details", {}).get("reasoning", 0) or 0,
        )
    return Reply(
        text=str(message.text),
        finish={"end_turn": "stop", "max_tokens": "length", "safety": "content_filter"}.get(finish, finish),
        usage=usage,
        model=str(meta.get("model_name") or ""),
        reasoning="\n".join(reasoning),
    )


def _meaning(error: Exception, model: str) -> Exception:
    """Providers' errors share no class; their HTTP status, or else their class name, tells what they mean."""
    said = redacted(" ".join(str(error).split()))[:500]
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    if status in (401, 403):
        return StopRun(f"The provider of {model} refused the key ({status}): {said}")
    if status == 404:
        return StopRun(f"The provider does not know the model {model!r} (404): {said}")
    if status == 429 or (isinstance(status, int) and status >= 500):
        wish = retry_after(response.headers) if response is not None and hasattr(response, "headers") else None
        return Transient("rate_limit" if status == 429 else "server", said, status, wish)
    if status is None and any(part in type(error).__name__ for part in _PASSING):
        return Transient("connection", said)
    if "context" in said and ("length" in said or "window" in said):
        return CallFailed("context_too_long", said)
    return CallFailed("bad_request", f"{type(error).__name__}: {said}")
