"""MCP servers over HTTP are recorded as models are: greeted while they are there, replayed when they are gone."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import requests

from ragrounds.evals.engine.recording.recorder import AttemptRecorder
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.recorder.wire import NotSent, WireRequest
from tests.engine.doubles import context_of
from tests.servers.http_script import Asked, HttpScript, Told, answering

FOUND = "It binds antithrombin."
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Notes:
    """A server of notes. One with sessions speaks the protocol of 2025, and answers in streams."""

    def __init__(self, sessions: bool) -> None:
        self.sessions = sessions
        self.version = "1"

    def __call__(self, asked: Asked, before: int) -> Told:
        if asked.method != "POST":
            return Told(b"", 405)
        method, greets = asked.body["method"], asked.body["method"] in ("initialize", "server/discover")
        if self.sessions and not greets and asked.headers.get("mcp-session-id") != "s1":
            return Told({"error": "who are you?"}, 400)
        if "id" not in asked.body:
            return Told(b"", 202)
        if method == "tools/call":
            result: dict[str, Any] = {"content": [{"type": "text", "text": f"{FOUND} ({self.version}, {before})"}]}
        elif method == "tools/list":
            result = {"tools": [{"name": "search", "inputSchema": {}}]}
        else:
            result = {"serverInfo": {"name": "notes", "version": self.version}}
        answer = {"jsonrpc": "2.0", "id": asked.body["id"], "result": result}
        if not self.sessions:
            return Told(answer)
        noise = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        body = b"".join(b"event: message\ndata: %s\n\n" % json.dumps(one).encode() for one in (noise, answer))
        return Told(body, headers={"Content-Type": "text/event-stream", "Mcp-Session-Id": "s1"})


def client(server: HttpScript, sessions: bool, first: int, uses: int = 1, asks: dict[str, object] | None = None) -> Any:
    """A system that uses a tool of the server; its ids begin with `first`."""
    ids, place = iter(range(first, first + 100)), f"{server.url}/mcp"

    def work() -> str:
        headers = dict(ACCEPT)

        def say(method: str, number: bool = True, **params: object) -> Any:
            meta = {"progressToken": next(ids)}
            said = {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": meta}}
            said |= {"id": next(ids)} if number else {}
            came = requests.post(place, json=said, headers=headers, timeout=10)
            came.raise_for_status()
            if "mcp-session-id" in came.headers:
                headers["mcp-session-id"] = came.headers["mcp-session-id"]
            if not number:
                return None
            lines = [line[6:] for line in came.text.splitlines() if line.startswith("data: ")]
            answer = json.loads(lines[-1] if lines else came.text)
            assert answer["id"] == said["id"]
            return answer["result"]

        say("initialize" if sessions else "server/discover", capabilities=asks or {})
        if sessions:
            say("notifications/initialized", False)
            assert requests.get(place, headers=headers, timeout=10).status_code == 405
        assert say("tools/list")["tools"]
        gave = [say("tools/call", name="search", arguments={"query": "heparin"}) for _ in range(uses)]
        return " ".join(one["content"][0]["text"] for one in gave)

    return lambda _: asyncio.to_thread(work)


@pytest.mark.parametrize("sessions", [False, True], ids=["2026", "2025, with sessions"])
def test_a_tool_is_used_once_and_replayed_with_the_server_gone(sessions: bool, attempt: Any) -> None:
    notes = Notes(sessions)
    with answering(notes) as server:
        made = attempt(client(server, sessions, 0, uses=2))
        assert made.error is None
        assert made.text.count(FOUND) == 2
        assert len(set(made.text.split(") "))) == 2, "used again is another use"
        assert [(call.kind, call.actor) for call in made.calls] == [
            ("tool", f"mcp:search[server={server.url}/mcp]")
        ] * 2
        again = attempt(client(server, sessions, 7, uses=2), id="another")
        assert (again.text, [call.cached for call in again.calls]) == (made.text, [True, True])
        notes.version = "2"
        changed = attempt(client(server, sessions, 7))
        assert "(2," in changed.text, "a server of another version gives answers of its own"
    replayed = attempt(client(server, sessions, 3), "replay")
    assert (replayed.error, replayed.text) == (None, changed.text)
    assert made.context.missed == replayed.context.missed == 0


def test_a_use_that_failed_is_a_call_of_a_tool(attempt: Any) -> None:
    notes = Notes(False)

    def answer(asked: Asked, before: int) -> Told:
        return Told(b"", 500) if asked.body["method"] == "tools/call" else notes(asked, before)

    with answering(answer) as server:
        made = attempt(client(server, False, 0))
    assert [(call.kind, call.role, [fault.status for fault in call.faults]) for call in made.calls] == [
        ("tool", "tool", [500])
    ]


def test_a_greeting_that_comes_late_is_not_sent_in_a_replay(home: Path) -> None:
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}).encode()
    request = WireRequest("POST", "http://127.0.0.1:1/mcp", {"accept": ACCEPT["Accept"]}, said)

    async def late() -> None:
        with Store(home) as store:
            journal = StoreJournal(store, "replay")
            recorder = AttemptRecorder(context_of(journal), journal)
            recorder.close()
            with pytest.raises(NotSent):  # what it gives back would let the client send
                await recorder.exchange(request, pytest.fail)
            journal.close()

    asyncio.run(late())


def test_a_server_that_may_ask_its_client_back_is_not_recorded(attempt: Any) -> None:
    with answering(Notes(False)) as server:
        made = attempt(client(server, False, 0, asks={"sampling": {}}))
        assert FOUND in made.text
        assert (made.calls, made.context.missed) == ([], 3)
