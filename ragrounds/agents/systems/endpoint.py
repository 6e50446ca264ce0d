"""An endpoint as a system: an OpenAI-compatible agent, or any JSON endpoint, configured in an agent's file.

A question is one call by ragrounds' own transport. It is journaled before it is used, replayed without the server,
capped before it is sent, and retried as a model's call is. The journal stores the whole reply, so that another field
map can read it again without a new call.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from ragrounds.agents.systems.endpoint_card import EndpointCard, UsageMap, filled, keys_of
from ragrounds.agents.systems.endpoint_replies import (
    EndpointReply,
    EndpointRequest,
    check_answered,
    clean,
    letter_of,
    passages_of,
)
from ragrounds.agents.systems.in_process import to_recorder_question
from ragrounds.base.contracts import Observation, Request
from ragrounds.base.errors import StopRun
from ragrounds.base.http import HttpAnswer, read_json, text_of
from ragrounds.base.records import Answer, Fault, Message, Question
from ragrounds.base.text import wellformed
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.openai_protocol import CHAT, CompletionStream, read_reply
from ragrounds.models.reply_parts import as_json, counted_usage, noted, read_content, words
from ragrounds.models.retries import RetryPolicy, with_retries
from ragrounds.models.traffic import Rates, traffic_of
from ragrounds.models.transport import Transport
from ragrounds.recorder.answers import at_path, fed


class EndpointSystem:
    """An endpoint that answers questions (contract: :class:`ragrounds.base.contracts.System`)."""

    kind = "HTTP endpoint"
    takes_context = True

    def __init__(self, endpoint: EndpointCard) -> None:
        self.endpoint = endpoint
        self.spec = endpoint.spec
        self._rates = Rates(endpoint.rpm)
        self._slots = asyncio.Semaphore(endpoint.concurrency) if endpoint.concurrency else contextlib.nullcontext()
        self._transport: Transport | None = None

    async def answer(self, question: Question, seen: Observation) -> Answer:
        """Send the question to the endpoint.

        Raises:
            CallFailed: no reply after all retries, or no reply that the field map can read.
        """
        values = {
            **fed(to_recorder_question(question)),
            "choices": dict(question.options),
            "id": question.id,
            **seen.context.parameters,
        }
        # The id of the attempt differs every time. It is sent, but is not part of the call's key.
        body = self._body({**values, "thread": "{thread}"})
        sent = self._body({**values, "thread": seen.thread})
        request = EndpointRequest(
            messages=_trace_messages(self.endpoint.form, body),
            form=self.endpoint.form,
            address=self._address,
            body=body,
        )
        reply = await seen.ask(_EndpointServer(self, sent), request, EndpointReply)
        return self._read(reply, question, seen)

    async def close(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    def price(self, reply: EndpointReply) -> float | None:
        """Return the price of a reply in US dollars: as the server reports it, or from the price in the agent's
        file.
        """
        if reply.cost is not None:
            return reply.cost
        return None if self.endpoint.price is None else self.endpoint.price.dollars(reply.usage, reply.busy)

    def transport(self) -> Transport:
        """Return the connections, opened at the first call. A replay therefore needs no key.

        Raises:
            StopRun: an environment variable for a key is not set.
        """
        if self._transport is None:
            card = self.endpoint
            values = {name: os.environ.get(name, "").strip() for name in card.variables}
            if missing := [name for name, value in values.items() if not value]:
                raise StopRun(
                    f"{card.base_url} is asked with a key, and the environment variable {missing[0]} is not set."
                )
            headers = {header: values[name] for header, name in card.headers.items()}
            if card.key:
                headers["Authorization"] = f"Bearer {values[card.key]}"
            self._transport = Transport(card.base_url, "", card.timeout, headers=headers, setting="`url` in its file")
        return self._transport

    async def complete(self, body: Mapping[str, object], faults: list[Fault]) -> EndpointReply:
        """Send a body, with retries.

        Raises:
            CallFailed: no reply after all tries, or the request is wrong.
            StopRun: every further call would fail in the same way.
        """
        policy = RetryPolicy(tries=self.endpoint.tries, seconds=self.endpoint.patience)
        return await with_retries(lambda: self._try(body), policy, faults)

    async def _try(self, body: Mapping[str, object]) -> EndpointReply:
        async with self._slots, traffic_of(self.endpoint.base_url).call(self._rates):
            transport = self.transport()
            stream = CompletionStream()
            is_openai = self.endpoint.form == "openai"
            path = self.endpoint.path.rstrip("/") + CHAT if is_openai else self.endpoint.path
            answered = await transport.post(path, body, stream if is_openai else None)
            if answered.status >= 400:
                return check_answered(answered, self.endpoint, transport.redact)
            reply = _chat_reply(answered, stream) if is_openai else _json_reply(answered)
            reply = clean(_with_usage(reply, self.endpoint.usage), transport.redact)
            answer_text = self._answer_text(reply)
            return reply if answer_text is None else replace(reply, text=answer_text)

    @property
    def _path(self) -> str:
        """Return the path of the answer's text. Empty for the location in chat completions."""
        return self.endpoint.answer or ("answer" if self.endpoint.form == "json" else "")

    def _answer_text(self, reply: EndpointReply) -> str | None:
        """Return the text of the answer, or ``None`` if the path contains none."""
        if not self._path:
            return reply.text
        answer_value = at_path(read_json(reply.raw) if reply.raw else None, self._path)
        content = read_content(answer_value)
        return None if content is None else wellformed(content.text)

    @property
    def _address(self) -> str:
        return self.endpoint.alias or self.endpoint.url

    def _body(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the request body for a question."""
        card = self.endpoint
        request_fields = filled(card.request, values)
        extra_fields = dict(request_fields) if isinstance(request_fields, Mapping) else {}
        if card.form == "openai":
            body = {"model": card.model, "messages": values["messages"], **extra_fields}
            return body | ({"stream": True, "stream_options": {"include_usage": True}} if card.stream else {})
        return extra_fields or {"question": values["prompt"]}

    def _read(self, reply: EndpointReply, question: Question, seen: Observation) -> Answer:
        """Read the answer from a reply by the field map.

        Raises:
            CallFailed: the path of the answer contains nothing.
        """
        card, text = self.endpoint, self._answer_text(reply)
        reply_value = read_json(reply.raw) if reply.raw else None
        if text is None:
            raise CallFailed("malformed", f"the reply has nothing at {self._path!r}: it is {keys_of(reply_value)}")
        choice, note = letter_of(at_path(reply_value, card.choice), question) if card.choice else ("", "")
        if note:
            seen.note("choice", note)
        passages = passages_of(reply_value, card.passages, self._address) if card.passages else ()
        if card.passages:
            seen.searched(question.text, passages, self.spec)
        return Answer(text=text, choice=choice, passages=passages)


class _EndpointServer:
    """An endpoint with the body of one attempt (contract: :class:`ragrounds.base.contracts.Server`)."""

    def __init__(self, system: EndpointSystem, body: Mapping[str, object]) -> None:
        self._system = system
        self._body = body
        self.spec = system.spec

    async def complete(self, request: Request, faults: list[Fault]) -> EndpointReply:
        """Send the body."""
        return await self._system.complete(self._body, faults)

    def price(self, reply: EndpointReply) -> float | None:
        """Return the price of the reply in US dollars."""
        return self._system.price(reply)


def _trace_messages(form: str, body: Mapping[str, object]) -> tuple[Message, ...]:
    """Return a request as a trace shows it: its chat messages, or the body itself."""
    messages = body.get("messages")
    roles: dict[object, Literal["system", "user", "assistant"]] = {
        "system": "system", "user": "user", "assistant": "assistant",
    }  # fmt: skip
    turns = messages if form == "openai" and isinstance(messages, list) else []
    if turns and all(isinstance(turn, Mapping) and turn.get("role") in roles for turn in turns):
        return tuple(Message(roles[turn["role"]], str(turn.get("content", ""))) for turn in turns)
    return (Message("user", as_json(body)),)


def _chat_reply(answered: HttpAnswer, stream: CompletionStream) -> EndpointReply:
    if stream.has_begun:
        return EndpointReply(**msgspec.structs.asdict(stream.reply()))
    kind = answered.headers.get("content-type", "")
    fields = msgspec.structs.asdict(read_reply(answered.body, kind))
    return EndpointReply(**fields, raw=_as_text(answered))


def _json_reply(answered: HttpAnswer) -> EndpointReply:
    """Read a reply of any JSON endpoint. A reply that is not JSON is a text.

    Raises:
        Transient: the reply is declared as JSON, but is not.
    """
    raw = _as_text(answered)
    try:
        value = read_json(raw)
    except ValueError as error:
        if "json" in answered.headers.get("content-type", "").lower():
            raise Transient("malformed", f"the reply is no JSON ({error})", 200) from error
        return EndpointReply(text=raw, raw=as_json(raw))
    return EndpointReply(text=value if isinstance(value, str) else raw, raw=raw)


def _as_text(answered: HttpAnswer) -> str:
    return wellformed(text_of(answered.body, answered.headers.get("content-type", "")))


def _with_usage(reply: EndpointReply, where: UsageMap | None) -> EndpointReply:
    """Return the reply with its reported tokens and US dollars."""
    if where is None or not reply.raw:
        return reply
    value, note = read_json(reply.raw), ""
    if where.input:
        parts = (where.input, where.output, where.cached, where.reasoning)
        counts = [at_path(value, path) if path else None for path in parts]
        usage, note = (None, "") if counts[0] is None and counts[1] is None else counted_usage(*counts)
        reply = replace(reply, usage=usage)
    cost = at_path(value, where.cost) if where.cost else None
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e6:
        reply = replace(reply, cost=float(cost))
    elif cost is not None:
        note = note or "the server reported an impossible cost: the cost is unknown"
    if where.model:
        reply = replace(reply, model=words(at_path(value, where.model), 200))
    return noted(reply, [note])
