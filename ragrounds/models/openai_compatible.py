"""Chat models on any server with OpenAI's chat completions: OpenAI, vLLM, SGLang, Ollama, llama.cpp, …"""

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
from ragrounds.models.options import LOCAL, VLLM, ModelOptions
from ragrounds.models.prices import Price
from ragrounds.models.reply_parts import REPEATED_PREFIX, noted, with_logprobs, without_keys
from ragrounds.models.retries import with_retries
from ragrounds.models.server_time import ServerTime, clock_of
from ragrounds.models.traffic import traffic_of
from ragrounds.models.transport import BalancedServer, ServerPool, Transport

OPENAI = "https://api.openai.com/v1"
_NO_KEY = "none"
"""Placeholder that is sent if no key is set."""


class OpenAICompatible(ProviderModel):
    """Chat model behind an OpenAI-compatible server (contract: :class:`ragrounds.base.contracts.Model`)."""

    def __init__(
        self, options: ModelOptions, price: Price | None = None, alive: Callable[[], None] = lambda: None
    ) -> None:
        """Open the model; `alive` is called before each try of a call, and may raise to end the run."""
        urls = options.serving.urls
        # A name on a user's server does not determine a provider's price.
        super().__init__(options, price, listed=None if urls else "openai")
        self._is_user_server = bool(urls)
        self._alive = alive
        self._key = key_of(options)
        self._servers = ServerPool(
            [
                BalancedServer(
                    Transport(url, self._key, options.serving.timeout, setting=_address_setting(url)),
                    clock_of(url) if urls else None,
                )
                for url in urls or (OPENAI,)
            ]
        )

    @property
    def continues(self) -> Continuation:
        """Way in which the model continues its own text."""
        return self._options.continues

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Ask a server, with retries. The reply of a user's server includes the server time that it is charged with.

        Raises:
            CallFailed: no reply after all tries, or the request is wrong.
            StopRun: every further call would fail in the same way, or an alias names a server without an address.
        """
        alias = self._options.serving.alias
        if alias and not self._is_user_server:
            raise StopRun(f"alias={alias} is the name of your own server, and its address is missing: add --base-url.")
        charge, recent_prompts = ServerTime(), ASKED.get() if self._options.provider == VLLM else None
        compared = request.messages if recent_prompts or len(self._options.serving.urls) > 1 else ()
        prompt = "".join([message.role + message.content for message in compared]) + request.prefix
        reply = await with_retries(lambda: self._try(request, prompt, charge), self._options.serving.retries, faults)
        lost_usages = [fault.usage for fault in faults if fault.usage]
        if recent_prompts and reply.usage:
            recent_prompts.answered(self.spec, prompt, reply.usage, self._servers.in_flight + 1)
        reply = with_logprobs(reply, request.logprobs)
        if request.prefix and reply.text.startswith(request.prefix):  # llama.cpp repeats what it continues
            continued = msgspec.structs.replace(reply, text=reply.text[len(request.prefix) :])
            reply = noted(continued, [REPEATED_PREFIX])
        if lost_usages and reply.usage:
            note = f"the usage includes failed tries whose tokens the server counted: {len(lost_usages)}"
            reply = noted(msgspec.structs.replace(reply, usage=sum(lost_usages, reply.usage)), [note])
        return msgspec.structs.replace(reply, busy=round(charge.seconds, 6)) if self._is_user_server else reply

    async def close(self) -> None:
        """Close the connections."""
        await self._servers.close()

    async def _try(self, request: Request, prompt: str, charge: ServerTime) -> Reply:
        self._alive()
        path, body = body_of(self._options, request)
        limits = REPLY if request.logprobs is None else PROBABILITIES
        with self._servers.server_for(prompt) as server:
            async with traffic_of(server.base_url).call(self._rates, self._size(request)):
                stream, redact = CompletionStream(), server.transport.redact
                with server.metered(charge):
                    answered = await server.transport.post(path, body, stream, limits)
                if answered.status >= 400:
                    base_url = server.base_url if self._is_user_server else None
                    keyed = self._key != _NO_KEY
                    served = await _served_models(server.transport) if answered.status == 404 else []
                    variable = key_variable(self._options)
                    return read_error(answered, self._options.model, base_url, redact, variable, keyed, served)
                if stream.has_begun:
                    return without_keys(stream.reply(), redact)
                return without_keys(read_reply(answered.body, answered.headers.get("content-type", "")), redact)


class _ModelEntry(msgspec.Struct):
    id: str


class _ModelList(msgspec.Struct):
    """Answer of `/models`."""

    data: list[_ModelEntry]


async def _served_models(server: Transport) -> list[str]:
    """Return the models that a server lists; empty if it lists none, or does not answer."""
    try:
        listed = msgspec.json.decode((await server.get("/models")).body, type=_ModelList)
    except (StopRun, Transient, CallFailed, msgspec.MsgspecError, UnicodeDecodeError):
        return []
    return [server.redact(safe(entry.id, 200)) for entry in listed.data]


def _address_setting(url: str) -> str:
    """Return the name of the setting from which the address of a server probably came."""
    addresses = os.environ.get("OPENAI_BASE_URL", "").split(",")
    return "OPENAI_BASE_URL" if url in [address.strip().rstrip("/") for address in addresses] else "--base-url"


def key_variable(options: ModelOptions) -> str:
    """Return the environment variable that contains the key of a model's server."""
    return "VLLM_API_KEY" if options.provider == VLLM else "OPENAI_API_KEY"


def key_of(options: ModelOptions) -> str:
    """Return the key for a model's server.

    Raises:
        UserError: the server is OpenAI's, and the key is not set.
    """
    if options.provider == LOCAL:
        return _NO_KEY
    name = key_variable(options)
    key = os.environ.get(name, "").strip()
    if not key and not options.serving.urls:
        raise UserError(
            f"No key for OpenAI: the environment variable {name} is not set. Set it, or give your own server with "
            "--base-url."
        )
    # A user's server often needs no key, but the client requires one.
    return key or _NO_KEY
