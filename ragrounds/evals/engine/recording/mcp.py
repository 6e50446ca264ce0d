"""MCP servers over streamable HTTP: what an attempt says to them before and beside the use of their tools.

The use of a tool is recorded and replayed as a model call is. All else (the greeting, the list of tools) is sent
whenever it may be, because a server refuses who did not greet it; its latest answer is kept, for replays.
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
"""What a server may ask its client for in the middle of an answer, which is read whole here."""
_JSON = "application/json"
_SERVER = "io.modelcontextprotocol/serverInfo"
"""Where a server names itself since the protocol of 2026."""
_VERSIONS = 100
"""Different answers to one greeting that are kept."""


class McpServers:
    """The MCP servers of one attempt."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}
        """Address → the name and the version that the server gave there."""
        self._asking: set[str] = set()

    def may_ask(self, call: ModelCall) -> bool:
        """Whether a server may ask its client back: then its calls pass, and are not recorded."""
        if _ASKING & object_in(object_in(call.body, "params"), "capabilities").keys():
            self._asking.add(call.address)
        return call.address in self._asking

    def use(self, call: ModelCall) -> ModelCall | None:
        """The use of a tool, with the server's name and version in its key; ``None``: the call is none."""
        if call.body["method"] not in _USES:
            return None
        return replace(call, body={**call.body, "server": self.named.get(call.address, "")})

    async def greeted(
        self,
        call: ModelCall,
        journal: StoreJournal,
        send: Callable[[], Awaitable[WireResponse]] | None,
        redact: Callable[[str], str],
    ) -> WireResponse | None:
        """The answer to what is no use of a tool.

        Args:
            call: what is said.
            journal: keeps the latest answer.
            send: sends it; ``None``: nothing may be sent.
            redact: takes keys out of what is kept.

        Returns:
            The answer; ``None``: nothing may be sent, and none is kept.
        """
        response = await send() if send is not None else None
        body = None if response is None else redact(response.body.decode("utf-8", "replace"))
        answer = {} if response is None or body is None else mcp_answer(body.encode(), response.content_type)
        kept: RecordedReply | None = None
        for number in range(_VERSIONS):
            key = hashlib.sha256(call_key(call, 0) + number.to_bytes(8, "big")).hexdigest()
            entry = Entry(key=key, kind="tool", actor=call.actor, request=call.request())
            found = await journal.drawn(entry, RecordedReply)
            if found is None and response is not None and response.status < 500:
                said, kind = (as_json(answer), _JSON) if answer else (body or "", response.content_type)
                made = RecordedReply(text="", status=response.status, content_type=kind, body=said)
                if kept is None or (kept.status, kept.body) != (made.status, made.body):
                    journal.draw(entry, made)
            if found is None:
                break
            kept = found[0]
        if response is None and kept is not None:
            answer = mcp_answer(kept.body.encode(), kept.content_type)
            told = as_json({**answer, "id": call.id}) if answer else kept.body
            response = WireResponse(kept.status, kept.content_type, told.encode())
        result = object_in(answer, "result")
        server = object_in(result, "serverInfo") or object_in(object_in(result, "_meta"), _SERVER)
        if server or call.address not in self.named:
            self.named[call.address] = f"{server.get('name')} {server.get('version')}" if server else ""
        return response
