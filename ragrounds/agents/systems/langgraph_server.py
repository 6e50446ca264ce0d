"""A LangGraph server (`langgraph dev`, LangSmith deployments) asked over its API: one thread and one streamed run for
a question.

The run's events tell what models, retrievers and nodes behind the address do: from these come the tokens of every call,
inner ones too, and the passages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragrounds.agents.systems.endpoint_card import EndpointCard, at_path
from ragrounds.agents.systems.endpoint_replies import (
    MOST_PASSAGES,
    EndpointReply,
    RemoteModelCall,
    RemoteSearch,
    RemoteStep,
    check_answered,
    passages_from,
)
from ragrounds.http import REPLY, HttpAnswer, check_json, read_json, too_large
from ragrounds.models.faults import CallFailed, Transient
from ragrounds.models.reply_parts import as_json, counted_usage, noted, read_content, words
from ragrounds.models.transport import Transport
from ragrounds.records import Usage
from ragrounds.text import wellformed

if TYPE_CHECKING:
    from ragrounds.agents.card import Card

MOST_RESUMES = 20
"""Times that one run is resumed with the answer for a person."""
_MOST = 2000
"""Models' calls, searches and nodes of one run that are kept, together."""
_THREAD = re.compile(r"[0-9A-Za-z-]{1,64}")


def run_body(card: Card, endpoint: EndpointCard, given: dict[str, object]) -> dict[str, object]:
    """What starts a run on an input."""
    body: dict[str, object] = {"assistant_id": endpoint.assistant, "input": given}
    if card.config:
        limit = {key: value for key, value in card.config.items() if key == "recursion_limit"}
        body["config"] = {**limit, "configurable": {k: v for k, v in card.config.items() if k not in limit}}
    if card.context:
        body["context"] = card.context
    return body


async def run_remotely(
    transport: Transport,
    endpoint: EndpointCard,
    body: Mapping[str, object],
    person: Callable[[object], object] | None = None,
) -> EndpointReply:
    """Run a graph on a thread of its own, which is deleted at the end; `person` answers what it asks.

    Raises:
        CallFailed: the graph failed, or the request is wrong.
        Transient: worth another try.
        StopRun: every further call would fail alike.
    """
    prefix = endpoint.path.rstrip("/")
    made = _checked(await transport.post(f"{prefix}/threads", {}), endpoint, transport)
    thread = words(at_path(_value(made), "thread_id"), 65)
    if not _THREAD.fullmatch(thread):
        raise Transient("malformed", "the server made a thread without an id", made.status)
    modes = ["values", "events"] if endpoint.events else ["values"]
    options: dict[str, object] = {"stream_mode": modes, "on_disconnect": "cancel"}
    reply: EndpointReply | None = None
    sent = {**body, **options}
    try:
        for _ in range(MOST_RESUMES):
            stream = RunStream(endpoint.spec)
            answered = await transport.post(f"{prefix}/threads/{thread}/runs/stream", sent, stream)
            _checked(answered, endpoint, transport)
            reply = joined(reply, stream.reply(transport))
            if not stream.stopped or person is None:
                break
            sent = {**{key: value for key, value in body.items() if key != "input"}, **options}
            sent["command"] = {"resume": person(stream.asked)}
    finally:
        await _deleted(transport, f"{prefix}/threads/{thread}")
    return reply or EndpointReply(text="")


async def _deleted(transport: Transport, path: str) -> None:
    """Delete a thread; a server that does not let us keeps it."""
    with_time = asyncio.wait_for(transport.delete(path), 10)
    try:
        await with_time
    except Exception:  # the reply was given: whatever this is, it is not worth an attempt
        return


def _checked(answered: HttpAnswer, endpoint: EndpointCard, transport: Transport) -> HttpAnswer:
    if answered.status >= 400:
        check_answered(answered, endpoint, transport.redact)
        raise CallFailed("bad_request", f"{answered.status}")
    return answered


def _value(answered: HttpAnswer) -> object:
    try:
        return read_json(answered.body)
    except ValueError as error:
        raise Transient("malformed", f"the reply is no JSON ({error})", answered.status) from error


def joined(before: EndpointReply | None, after: EndpointReply) -> EndpointReply:
    """Two parts of one run, before and after a person answered."""
    if before is None:
        return after
    usage = before.usage + after.usage if before.usage and after.usage else before.usage or after.usage
    return replace(
        after,
        usage=usage,
        steps=(*before.steps, *after.steps),
        notes=(*before.notes, *after.notes),
    )


class RunStream:
    """The stream of a run's events, of which the last state and what its models and retrievers did are kept (contract:
    :class:`ragrounds.http.Sink`)."""

    def __init__(self, spec: str) -> None:
        self.ends_in: float | None = None
        self.begun = False
        self._spec = spec
        self._tail = b""
        self._data: list[bytes] = []
        self._held = 0
        self._event = ""
        self._state: object = None
        self._failed = ""
        self._open: set[str] = set()
        self._steps: list[RemoteStep] = []
        self._kept = 0
        self._notes: list[str] = []

    def feed(self, part: bytes) -> None:
        """Take the next part.

        Raises:
            Transient: an event is no JSON.
            BadReply: an event is too large.
        """
        self.begun = True
        *lines, self._tail = (self._tail + part).split(b"\n")
        if len(self._tail) > REPLY.size:
            raise too_large(REPLY.size, "in one event")
        for line in lines:
            self._line(line.rstrip(b"\r"))

    @property
    def stopped(self) -> bool:
        """Whether the run ended to ask a person."""
        return isinstance(self._state, Mapping) and "__interrupt__" in self._state

    @property
    def asked(self) -> object:
        """What it asked a person."""
        return at_path(self._state, "__interrupt__.0.value")

    def reply(self, transport: Transport) -> EndpointReply:
        """The reply that it held.

        Raises:
            CallFailed: the graph failed.
            Transient: it ended before a state was told.
        """
        self._line(self._tail.rstrip(b"\r"))
        self._line(b"")
        if self._failed:
            raise CallFailed("agent", f"the graph failed: {transport.redact(self._failed)}")
        if not isinstance(self._state, Mapping):
            raise Transient("malformed", "the run's stream ended before a state was told", 200)
        usages = [model.usage for step in self._steps for model in step.models]
        unknown = None in usages or bool(self._open) or not usages
        asked = self.asked
        held = at_path(self._state, "messages.-1.content")
        said = read_content(held)
        reply = EndpointReply(
            text=wellformed(said.text) if said else "",
            usage=None if unknown else sum((usage for usage in usages if usage), Usage()),
            raw=as_json({key: value for key, value in self._state.items() if key != "__interrupt__"}),
            steps=tuple(self._steps),
            asked=(asked if isinstance(asked, str) else as_json(asked)) if self.stopped else "",
        )
        return noted(reply, dict.fromkeys(self._notes))

    def _line(self, line: bytes) -> None:
        if line.startswith(b"event:"):
            self._event = line[6:].strip().decode("utf-8", "replace")
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._held += len(line)
            if self._held > REPLY.size:
                raise too_large(REPLY.size, "in one event")
        elif not line and self._data:
            data, self._data, self._held = b"\n".join(self._data), [], 0
            check_json(data)
            try:
                self._take(self._event, read_json(data))
            except ValueError as error:
                raise Transient("malformed", f"an event of the run is no JSON ({error})", 200) from error

    def _take(self, event: str, data: object) -> None:
        if event == "values":
            self._state = data
        elif event == "error":
            said = f"{words(at_path(data, 'error'), 200)}: {words(at_path(data, 'message'), 2000)}"
            self._failed = " ".join(said.split()) if isinstance(data, Mapping) else as_json(data)[:2000]
        elif event == "events" and isinstance(data, Mapping):
            self._happened(data)

    def _happened(self, data: Mapping[str, object]) -> None:
        kind, node = data.get("event"), words(at_path(data, "metadata.langgraph_node"), 200)
        run = words(data.get("run_id"), 100)
        if self._kept >= _MOST:
            self._open.add("more")  # what is not kept is not counted either
            return
        if kind == "on_chain_start" and node and data.get("name") == node:
            self._kept += 1
            self._steps.append(RemoteStep(node=node))
        elif kind in ("on_chat_model_start", "on_llm_start"):
            self._open.add(run)
        elif kind in ("on_chat_model_end", "on_llm_end"):
            self._open.discard(run)
            step = self._step(node)
            self._steps[step] = replace(self._steps[step], models=(*self._steps[step].models, self._model(data)))
        elif kind == "on_retriever_end":
            step = self._step(node)
            self._steps[step] = replace(self._steps[step], searches=(*self._steps[step].searches, self._search(data)))

    def _step(self, node: str) -> int:
        """The place of the last step of a node, one more thing of which is kept."""
        self._kept += 1
        for place in reversed(range(len(self._steps))):
            if self._steps[place].node == node:
                return place
        self._steps.append(RemoteStep(node=node))
        return len(self._steps) - 1

    def _model(self, data: Mapping[str, object]) -> RemoteModelCall:
        output = at_path(data, "data.output")
        given = at_path(output, "usage_metadata")
        usage: Usage | None = None
        if isinstance(given, Mapping):
            counts = (
                "input_tokens",
                "output_tokens",
                "input_token_details.cache_read",
                "output_token_details.reasoning",
            )
            usage, note = counted_usage(*(at_path(given, path) for path in counts))
            self._notes += [note] if note else []
        provider = at_path(data, "metadata.ls_provider") or at_path(output, "response_metadata.model_provider")
        name = at_path(output, "response_metadata.model_name") or at_path(data, "metadata.ls_model_name")
        return RemoteModelCall(provider=words(provider, 100), name=words(name, 200), usage=usage)

    def _search(self, data: Mapping[str, object]) -> RemoteSearch:
        listed = at_path(data, "data.output")
        documents = listed if isinstance(listed, list) else at_path(listed, "documents")
        tool = words(data.get("name"), 200)
        passages = passages_from(
            (
                (
                    words(at_path(document, "page_content"), REPLY.size),
                    _first(document, "metadata.title", "metadata.source"),
                    _first(document, "id", "metadata.id", "metadata.source"),
                    at_path(document, "metadata.score"),
                )
                for document in (documents[:MOST_PASSAGES] if isinstance(documents, list) else ())
            ),
            self._spec,
            tool,
        )
        return RemoteSearch(query=words(at_path(data, "data.input.query"), 10_000), tool=tool, passages=passages)


def _first(value: object, *paths: str) -> str:
    return next((said for path in paths if (said := words(at_path(value, path), 1000))), "")
