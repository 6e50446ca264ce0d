"""Any server that speaks OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp, …

OpenAI's own client sends the request, over its aiohttp transport; the body of the answer is decoded here, because a
server that is not OpenAI's may answer with anything, and each case must end in its right outcome.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragrounds.contracts import Continuation, Request
from ragrounds.errors import StopRun, UserError
from ragrounds.models import tokens
from ragrounds.models.cards import cards
from ragrounds.models.faults import Transient, redacted
from ragrounds.models.openai_answers import read_error, read_reply
from ragrounds.models.openai_requests import body_of
from ragrounds.models.options import ModelOptions
from ragrounds.models.prices import Price, listed_price, listed_window
from ragrounds.models.retrying import patiently
from ragrounds.records import Fault, Reply

if TYPE_CHECKING:
    import openai


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
        self._client: openai.AsyncOpenAI | None = None
        self._answered = False

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
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _try(self, request: Request) -> Reply:
        import httpx2
        import openai

        timeout = self._options.serving.timeout
        try:
            # The client's own timeout is a silence between bytes; this one bounds the whole answer.
            async with asyncio.timeout(timeout):
                # The client's typed method walks every message through its schema first (1 ms a call); the body here
                # is plain already, and the answer is decoded here anyway.
                path, body = body_of(self._options, request)
                raw = await self._connected().post(path, cast_to=httpx2.Response, body=body)
                content, kind = raw.content, raw.headers.get("content-type", "")
        except TimeoutError as error:
            raise Transient("timeout", f"no complete answer within {timeout:g} s") from error
        except openai.APIConnectionError as error:
            raise self._unreachable(error) from error
        except openai.APIStatusError as error:
            self._answered = True
            return read_error(error, self._options.model, self._base_url, self._key)
        self._answered = True
        return read_reply(content, kind)

    def _connected(self) -> openai.AsyncOpenAI:
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self._base_url,
                max_retries=0,
                timeout=self._options.serving.timeout,
                http_client=openai.DefaultAioHttpClient(),
            )
        return self._client

    def _unreachable(self, error: openai.APIConnectionError) -> Exception:
        """Tell apart what the client's transport throws together: its "timeout" may be a cut connection."""
        import aiohttp

        causes = list(_causes(error))
        if any(isinstance(cause, aiohttp.ClientConnectorError | ConnectionRefusedError) for cause in causes):
            message = f"cannot connect to {self._base_url or 'the OpenAI API'}"
            if not self._answered:
                # Nothing has ever answered here: more likely a wrong address than a passing fault.
                return StopRun(f"{message}: {_root(causes)}. Is the server running, and is --base-url right?")
            return Transient("connection", message)
        if any(isinstance(cause, aiohttp.ServerTimeoutError | TimeoutError) for cause in causes):
            return Transient("timeout", f"no answer within {self._options.serving.timeout:g} s")
        return Transient("connection", f"the connection was cut: {redacted(_root(causes), self._key)}")


def _key(base_url: str | None) -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and base_url is None:
        raise UserError(
            "No key for OpenAI: the environment variable OPENAI_API_KEY is not set. Set it, or name your own server "
            "with --base-url."
        )
    # A server of one's own often needs none, but the client wants one.
    return key or "none"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _root(causes: list[BaseException]) -> str:
    return next((str(cause) for cause in reversed(causes) if str(cause)), type(causes[-1]).__name__)
