"""Opening of models by ``provider:model[…]``, and probes of a server's capabilities: continuations, stop strings,
tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ragrounds.base.contracts import Continuation, Model, Request, Tool, json_schema
from ragrounds.base.errors import StopRun, UserError, nearest
from ragrounds.base.records import Message, Reply
from ragrounds.base.specs import Spec, parse
from ragrounds.models.faults import CallFailed
from ragrounds.models.options import LOCAL, read_options
from ragrounds.models.prices import Price
from ragrounds.models.reply_parts import REPEATED_PREFIX
from ragrounds.models.request_arguments import CannotTake

BASELINE = "baseline:extractive"


def open_model(text: str | Spec, prices: Mapping[str, Price] | None = None, home: Path | None = None) -> Model:
    """Open ``provider:model[…]``: the built-in baseline, an OpenAI-compatible server, one that is started here, or any
    LangChain provider.

    Nothing is sent or started yet. `home` has the logs of a server that is started here; by default the
    home of the settings.

    Raises:
        UserError: the provider or a parameter is unknown, or a key is missing.
    """
    options = read_options(parse(text) if isinstance(text, str) else text)
    price = (prices or {}).get(f"{options.provider}:{options.model}")
    if options.provider == "baseline":
        from ragrounds.models.extractive import ExtractiveBaseline

        if options.model != "extractive":
            raise UserError(
                f"Unknown baseline {options.model!r}.{nearest(options.model, ['extractive'])} Use {BASELINE}."
            )
        return ExtractiveBaseline()
    if options.has_server:
        from ragrounds.models.openai_compatible import OpenAICompatible

        return OpenAICompatible(options, price)
    if options.starts_server:
        from ragrounds.models.started import StartedModel

        return StartedModel(options, price, home)
    from ragrounds.models.langchain import open_langchain_model

    return open_langchain_model(options, price)


_ASKED = (Message("user", "Write out the numbers from one to nine as words, separated by spaces, and nothing else."),)
_BEGUN, _NEXT, _STOP = "Counting: one two three four", "five", "seven"
"""A new turn would hardly begin with `_BEGUN`, so a reply that does repeats what it continues."""
_TOOL = Tool.taking("word", "The word.", name="look_up", description="Looks up a word. Use it for every question.")
_FIELD = "numbers"
_SCHEMA = {"type": "object", "properties": {_FIELD: {"type": "string"}}, "required": [_FIELD]}
_FORM = json_schema("counted", {**_SCHEMA, "additionalProperties": False})


class ServerCapabilities(Struct, frozen=True, kw_only=True):
    """Capabilities of a model's server. ``None`` if no answer of the server showed it."""

    spec: str
    continues: Continuation
    """Way of continuing that works, to be set in the model's spec as ``continues=…``."""
    reason: str
    stops: bool | None = None
    """True if stop strings end the text."""
    names_stop: bool | None = None
    """True if the server reports which stop string ended the text (vLLM)."""
    keeps_stop: bool | None = None
    """True if the stop string is part of the text; otherwise it is appended here."""
    tools: bool | None = None
    """True if the server accepts tools, and the prompt that the model reads has them."""
    chooses: bool | None = None
    """True if the model calls the tool required by `tool_choice`."""
    forms: bool | None = None
    """True if the server makes replies follow a JSON schema (`response_format`)."""
    adds_system: bool | None = None
    """True if the chat template adds a system turn of its own to prompts without one."""
    logprobs: bool | None = None
    """True if the server returns log probabilities of a reply's tokens."""
    answered_by: str = ""
    """Model named in a reply; empty if no model was named."""
    server_facts: Mapping[str, str] = {}
    """Facts that the server reports of the model: see :mod:`ragrounds.models.server_facts`."""


async def probe(text: str | Spec) -> ServerCapabilities:
    """Ask a model's server a few short questions, each of at most about twenty tokens.

    Raises:
        StopRun: the server cannot be reached, refuses the key or does not know the model.
        UserError: the model's spec is wrong.
    """
    from ragrounds.models.server_facts import ask_servers

    spec = parse(text) if isinstance(text, str) else text
    model = open_model(spec.having(max_tokens=24))
    try:
        plain = await _reply(model, Request(messages=_ASKED, stop=(_STOP,)))
        if plain is None:
            raise StopRun(f"{spec}: the server did not answer a simple question.")
        tools = await _reply(model, Request(messages=_ASKED, tools=(_TOOL,)))
        forced = await _reply(model, Request(messages=_ASKED, tools=(_TOOL,), tool_choice=_TOOL.name))
        formed = await _reply(model, Request(messages=_ASKED, response_format=_FORM))
        with_system = await _reply(model, Request(messages=(Message("system", ""), *_ASKED)))
        likely = await _reply(model, Request(messages=_ASKED, logprobs=0))
        way, reason = await _continuation(spec)
    finally:
        await model.close()
    options = read_options(spec)
    return ServerCapabilities(
        spec=str(spec),
        continues=way,
        reason=reason,
        stops=_stopped(plain),
        names_stop=plain.stopped_at == _STOP,
        keeps_stop=plain.text.rstrip().endswith(_STOP),
        # A chat template that drops tools gives a prompt of as many tokens.
        tools=tools is not None and _is_longer(tools, plain) is not False,
        chooses=forced is not None and [call.name for call in forced.calls[:1]] == [_TOOL.name],
        forms=formed is not None and formed.text.lstrip().startswith("{") and f'"{_FIELD}"' in formed.text,
        adds_system=None if with_system is None else _is_longer(plain, with_system),
        logprobs=likely is not None and likely.logprobs is not None,
        answered_by=plain.model,
        server_facts=await ask_servers(options) if options.has_server or options.provider == LOCAL else {},
    )


def _is_longer(first: Reply, second: Reply) -> bool | None:
    """Return True if the prompt of the first reply had more tokens; ``None`` if their numbers are not known."""
    return first.usage.input > second.usage.input if first.usage and second.usage else None


def _stopped(reply: Reply) -> bool | None:
    """Return True if a reply that should end at `_STOP` did; ``None`` if it ended earlier."""
    counted, stop, behind = reply.text.lower().partition(_STOP)
    if behind.strip(" .,;\n"):
        return False
    if stop or reply.stopped_at == _STOP:
        return True
    return True if "six" in counted else None


async def _continuation(spec: Spec) -> tuple[Continuation, str]:
    model = open_model(spec.having(max_tokens=24, continues="prefix"))
    try:
        reply = await _reply(model, Request(messages=_ASKED, prefix=_BEGUN))
    finally:
        await model.close()
    if reply is None:
        return "turns", "the server refused to continue an unfinished turn"
    reply_words = reply.text.lower().split()
    if reply_words[:1] == [_NEXT]:
        repeats = "; the server repeats its beginning, which is cut off" if REPEATED_PREFIX in reply.notes else ""
        return "prefix", f"the model continued its turn{repeats}"
    if reply_words[:1] in (["one"], ["counting:"]):
        return "turns", "the server began a new turn"
    return "turns", f"unclear, so the safe way is used: after {_BEGUN!r} came {reply.text[:60]!r}"


async def _reply(model: Model, request: Request) -> Reply | None:
    try:
        return await model.complete(request, [])
    except (CallFailed, CannotTake):
        return None
