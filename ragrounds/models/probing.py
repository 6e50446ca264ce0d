"""What a server can do, found by asking it: how a model goes on with its own text, what becomes of stop strings."""

from __future__ import annotations

from msgspec import Struct

from ragrounds.contracts import Continuation, Model, Request, Tool
from ragrounds.errors import StopRun
from ragrounds.models.faults import CallFailed
from ragrounds.models.opening import open_model
from ragrounds.records import Message, Reply
from ragrounds.specs import Spec, parse

_ASKED = (Message("user", "Write out the numbers from one to nine as words, separated by spaces, and nothing else."),)
_BEGUN, _NEXT, _STOP = "one two three four", "five", "seven"
_TOOL = Tool.taking("word", "The word.", name="look_up", description="Looks up a word. Use it for every question.")


class ServerCapabilities(Struct, frozen=True, kw_only=True):
    """What was found. ``None``: the server gave no answer from which it could be told."""

    spec: str
    continues: Continuation
    """The way that works: what to write into the model's name as ``continues=…``."""
    why: str
    stops: bool | None = None
    """Stop strings end the text."""
    names_stop: bool | None = None
    """The server says which stop string it was (vLLM)."""
    keeps_stop: bool | None = None
    """The stop string stands in the text; otherwise it is put back here."""
    tools: bool | None = None
    """The server takes tools."""


async def probe(text: str | Spec) -> ServerCapabilities:
    """Ask a model's server a few short questions, each at most some twenty tokens long.

    Raises:
        StopRun: the server cannot be reached, refuses the key or does not know the model.
        UserError: the model's spec is wrong.
    """
    spec = parse(text) if isinstance(text, str) else text
    model = open_model(spec.having(max_tokens=24))
    try:
        plain = await _reply(model, Request(messages=_ASKED, stop=(_STOP,)))
        if plain is None:
            raise StopRun(f"{spec}: the server gave no reply to a plain question.")
        tools = await _reply(model, Request(messages=_ASKED, tools=(_TOOL,)))
        way, why = await _continuation(spec)
    finally:
        await model.close()
    return ServerCapabilities(
        spec=str(spec),
        continues=way,
        why=why,
        stops=_STOP in plain.text or "eight" not in plain.text,
        names_stop=plain.stopped_at == _STOP,
        keeps_stop=plain.text.rstrip().endswith(_STOP),
        tools=tools is not None,
    )


async def _continuation(spec: Spec) -> tuple[Continuation, str]:
    model = open_model(spec.having(max_tokens=24, continues="prefix"))
    try:
        reply = await _reply(model, Request(messages=_ASKED, prefix=_BEGUN))
    finally:
        await model.close()
    if reply is None:
        return "turns", "the server refused to go on with an unfinished turn"
    said = reply.text.lower().split()
    if said[:1] == [_NEXT]:
        return "prefix", "the model went on in the middle of its turn"
    if said[:1] == ["one"]:
        return "turns", "the server began the turn anew"
    return "turns", f"after {_BEGUN!r} came {reply.text[:60]!r}"


async def _reply(model: Model, request: Request) -> Reply | None:
    try:
        return await model.complete(request, [])
    except CallFailed:
        return None
