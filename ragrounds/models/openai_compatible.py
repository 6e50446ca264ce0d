"""Chat models on any server that speaks OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp, …"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from ragrounds.base.contracts import Continuation, Request
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.http import PROBABILITIES, REPLY
from ragrounds.base.records import Fault, Reply
from ragrounds.base.text import safe
from ragrounds.models.base import ProviderModel
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.kept_prefixes import ASKED
from ragrounds.models.openai_protocol import CompletionStream, body_of, read_error, read_reply
from ragrounds.models.options import VLLM, ModelOptions
from ragrounds.models.prices import Price
from ragrounds.models.reply_parts import with_logprobs, without_keys
from ragrounds.models.retries import with_retries
from ragrounds.models.server_time import ServerTime, clock_of
from ragrounds.models.traffic import traffic_of
from ragrounds.models.transport import BalancedServer, ServerPool, Transport

OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""What is sent where no key is set."""


class OpenAICompatible(ProviderModel):
    """A chat model behind an OpenAI-compatible server (contract: :class:`ragrounds.base.contracts.Model`)."""

    def __init__(
        self, options: ModelOptions, price: Price | None = None, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Open it; `alive` is called before each try of a call, and may raise what ends the run."""
        urls = options.serving.urls
        # A name on somebody's own server says nothing about a provider's price.
        super().__init__(options, price, listed=None if urls else "openai")
        self._own = bool(urls)
        self._alive = alive
        self._key = key_of(options)
        self._servers = ServerPool(
            [
                BalancedServer(
                    Transport(url, self._key, options.serving.timeout, setting=_setting(url)),
                    clock_of(url) if urls else None,
                )
                for url in urls or (OPENAI,)
            ]
        )

    @property
    def continues(self) -> Continuation:
        """How the model continues a text of its own."""
        return self._options.continues

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Ask a server, with retries; the reply of a server of one's own says how much of its time it is charged with.

        Raises:
            CallFailed: no reply after all tries, or the request is wrong.
            StopRun: every further call would fail alike; or an alias names a server and no address says where it is.
        """
        alias = self._options.serving.alias
        if alias and not self._own:
            raise StopRun(f"alias={alias} is the name of your own server, and its address is missing: add --base-url.")
        charge, asked = ServerTime(), ASKED.get() if self._options.provider == VLLM else None
        said = request.messages if asked or len(self._options.serving.urls) > 1 else ()
        prompt = "".join([one.role + one.content for one in said]) + request.prefix
        reply = await with_retries(lambda: self._try(request, prompt, charge), self._options.serving.retries, faults)
        if asked and reply.usage:
            asked.answered(self.spec, prompt, reply.usage, self._servers.in_flight + 1)
        reply = with_logprobs(reply, request.logprobs)
        return msgspec.structs.replace(reply, busy=round(charge.seconds, 6)) if self._own else reply

    async def close(self) -> None:
        """Close the connections."""
        await self._servers.close()

    async def _try(self, request: Request, prompt: str, charge: ServerTime) -> Reply:
        self._alive()
        path, body = body_of(self._options, request)
        limits = REPLY if request.logprobs is None else PROBABILITIES
        with self._servers.server_for(prompt) as server:
            async with traffic_of(server.place).call(self._rates, self._size(request)):
                stream, redact = CompletionStream(), server.transport.redact
                with server.metered(charge):
                    answered = await server.transport.post(path, body, stream, limits)
                if answered.status >= 400:
                    place = server.place if self._own else None
                    keyed = self._key != _NO_KEY
                    served = await _served(server.transport) if answered.status == 404 else []
                    variable = key_variable(self._options)
                    return read_error(answered, self._options.model, place, redact, variable, keyed, served)
                if stream.begun:
                    return without_keys(stream.reply(), redact)
                return without_keys(read_reply(answered.body, answered.headers.get("content-type", "")), redact)


class _Named(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    """What `/models` answers."""

    data: list[_Named]


async def _served(server: Transport) -> list[str]:
    """The models that a server lists; none: it lists none, or does not answer."""
    try:
        listed = msgspec.json.decode((await server.get("/models")).body, type=_Listed)
    except (StopRun, Transient, CallFailed, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [server.redact(safe(one.id, 200)) for one in listed.data]


def _setting(url: str) -> str:
    """Where the address of a server was given, as far as that can be told."""
    said = os.environ.get("OPENAI_BASE_URL", "").split(",")
    return "OPENAI_BASE_URL" if url in [one.strip().rstrip("/") for one in said] else "--base-url"


def key_variable(options: ModelOptions) -> str:
    """The environment variable that holds the key of a model's server."""
    return "VLLM_API_KEY" if options.provider == VLLM else "OPENAI_API_KEY"


def key_of(options: ModelOptions) -> str:
    """The key that a model's server is asked with.

    Raises:
        UserError: OpenAI itself is asked, and there is none.
    """
    name = key_variable(options)
    key = os.environ.get(name, "").strip()
    if not key and not options.serving.urls:
        raise UserError(
            f"No key for OpenAI: the environment variable {name} is not set. Set it, or give your own server with "
            "--base-url."
        )
    # A server of one's own often needs none, but the client wants one.
    return key or _NO_KEY
