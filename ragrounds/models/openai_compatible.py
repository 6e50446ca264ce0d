"""Any server that speaks OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp, …

The body of the answer is decoded here, because a server that is not OpenAI's may answer with anything, and each case
must end in its right outcome.
"""

from __future__ import annotations

import os

from ragrounds.contracts import Continuation, Request
from ragrounds.errors import UserError
from ragrounds.models import tokens
from ragrounds.models.cards import cards
from ragrounds.models.openai_answers import read_error, read_reply
from ragrounds.models.openai_requests import body_of
from ragrounds.models.options import ModelOptions
from ragrounds.models.prices import Price, listed_price, listed_window
from ragrounds.models.retrying import patiently
from ragrounds.models.transport import Transport
from ragrounds.records import Fault, Reply

OPENAI = "https://api.openai.com/v1"


class OpenAICompatible:
    """A chat model behind an OpenAI-compatible server (contract: :class:`ragrounds.contracts.Model`)."""

    def __init__(self, options: ModelOptions, price: Price | None = None) -> None:
        self._options = options
        self._base_url = options.serving.base_url
        self._key = _key(self._base_url)
        self._price = options.serving.price or price
        self._window = options.serving.window or (cards()[options.card].window if options.card else None)
        if self._window is None and self._base_url is None:
            self._window = listed_window("openai", options.model)
        self._transport = Transport(self._base_url or OPENAI, self._key, options.serving.timeout)

    @property
    def spec(self) -> str:
        return self._options.identity

    @property
    def window(self) -> int | None:
        return self._window

    @property
    def continues(self) -> Continuation:
        """How the model goes on with a text of its own."""
        return self._options.continues

    @property
    def name(self) -> str:
        """The model's name on the server."""
        return self._options.model

    def count(self, text: str) -> int:
        return tokens.count(text, self._options.model)

    def cut(self, text: str, size: int, /) -> str:
        return tokens.cut(text, size, self._options.model)

    def price(self, reply: Reply) -> float | None:
        if reply.usage is None:
            return None
        if self._price is not None:
            return self._price.of(reply.usage)
        # A name on somebody's own server says nothing about a provider's price.
        return None if self._base_url else listed_price("openai", self._options.model, reply.usage)

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        return await patiently(lambda: self._try(request), self._options.serving.retries, faults)

    async def close(self) -> None:
        await self._transport.close()

    async def _try(self, request: Request) -> Reply:
        path, body = body_of(self._options, request)
        answered = await self._transport.post(path, body)
        if answered.status >= 400:
            return read_error(answered, self._options.model, self._base_url, self._key)
        return read_reply(answered.body, answered.headers.get("content-type", ""))


def _key(base_url: str | None) -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and base_url is None:
        raise UserError(
            "No key for OpenAI: the environment variable OPENAI_API_KEY is not set. Set it, or name your own server "
            "with --base-url."
        )
    # A server of one's own often needs none, but the client wants one.
    return key or "none"
