"""MCP servers over streamable HTTP: the messages of an attempt other than the use of tools.

The use of a tool is recorded and replayed like a model call. All other messages (the greeting, the list of tools) are
sent whenever that is allowed, because a server refuses clients that have not greeted it. Its latest answer is stored
for replays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ragrounds.base.contracts import Entry
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.models.reply_parts import as_json
from ragrounds.models.wire_forms import ModelCall, RecordedReply, call_key
from ragrounds.models.wire_parts import object_in
from ragrounds.models.wire_replies import mcp_answer
from ragrounds.recorder.wire import WireResponse

_USES = ("tools/call", "resources/read", "prompts/get")
_ASKING = frozenset({"sampling", "elicitation", "roots"})
"""Requests that a server may send to its client in the middle of an answer, which this recorder reads as a whole."""
_JSON = "application/json"
_SERVER = "io.modelcontextprotocol/serverInfo"
"""Key under which a server names itself since the protocol of 2026."""
_VERSIONS = 100
"""Largest number of different answers to one greeting that are stored."""


class McpServers:
    """MCP servers of one attempt."""

    def __init__(self) -> None:
        self.server_names: dict[str, str] = {}
        """Map from an address to the name and the version that the server reported there."""
        self._asking: set[str] = set()

    def may_ask(self, call: ModelCall) -> bool:
        """Return True if a server may send requests to its client: then its calls pass, and are not recorded."""
        if _ASKING & object_in(object_in(call.body, "params"), "capabilities").keys():
            self._asking.add(call.address)
        return call.address in self._asking

    def use(self, call: ModelCall) -> ModelCall | None:
        """Return the use of a tool, with the server's name and version in its key; ``None`` if the call is no use of a
        tool.
        """
        if call.body["method"] not in _USES:
            return None
        return replace(call, body={**call.body, "server": self.server_names.get(call.address, "")})

    async def greeted(
        self,
        call: ModelCall,
        journal: StoreJournal,
        send: Callable[[], Awaitable[WireResponse]] | None,
        redact: Callable[[str], str],
    ) -> WireResponse | None:
        """Return the answer to a message that is no use of a tool.

        Args:
            call: the message.
            journal: stores the latest answer.
            send: sends it; ``None``: nothing may be sent.
            redact: removes keys from stored texts.

        Returns:
            The answer; ``None``: nothing may be sent, and no answer is stored.
        """
        response = await send() if send is not None else None
        body = None if response is None else redact(response.body.decode("utf-8", "replace"))
        answer = {} if response is None or body is None else mcp_answer(body.encode(), response.content_type)
        stored: RecordedReply | None = None
        for number in range(_VERSIONS):
            key = hashlib.sha256(call_key(call, 0) + number.to_bytes(8, "big")).hexdigest()
            entry = Entry(key=key, kind="tool", actor=call.actor, request=call.request())
            record = await journal.recorded_values(entry, RecordedReply)
            if record is None and response is not None and response.status < 500:
                body_text, kind = (as_json(answer), _JSON) if answer else (body or "", response.content_type)
                new_reply = RecordedReply(text="", status=response.status, content_type=kind, body=body_text)
                if stored is None or (stored.status, stored.body) != (new_reply.status, new_reply.body):
                    journal.draw(entry, new_reply)
            if record is None:
                break
            stored = record[0]
        if response is None and stored is not None:
            answer = mcp_answer(stored.body.encode(), stored.content_type)
            reply_text = as_json({**answer, "id": call.id}) if answer else stored.body
            response = WireResponse(stored.status, stored.content_type, reply_text.encode())
        result = object_in(answer, "result")
        server = object_in(result, "serverInfo") or object_in(object_in(result, "_meta"), _SERVER)
        if server or call.address not in self.server_names:
            self.server_names[call.address] = f"{server.get('name')} {server.get('version')}" if server else ""
        return response
