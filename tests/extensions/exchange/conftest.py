import asyncio

import msgspec
import pytest

from ragrounds.base.contracts import Entry, Request, Tool
from ragrounds.base.records import (
    Call,
    Called,
    Entered,
    Fault,
    Left,
    Message,
    Noted,
    Reply,
    ToolAnswer,
    ToolCall,
    ToolRequest,
    Usage,
)
from ragrounds.evals.store.journal import StoreJournal
from tests.compare.making import add_run, questions
from tests.servers.http_script import HttpScript, Told
from tests.ui.report.making import passage, traced_events

SECRET = "sk-proj-abcdefghijklmnopqrstuvwx"


@pytest.fixture
def run(store):
    """Four attempts: one with a search and a model call, one plain, one failed, one not made."""
    asked = [msgspec.structs.replace(question, group="heart") for question in questions(4)]
    events = traced_events(
        store, 1, passages=[passage(1), passage(2, "Other text."), passage(1, "Again.")], prompt=f"My key: {SECRET}"
    )
    return add_run(
        store, "rag[k=3]", asked, [1, 0, 0, ...], events={0: events}, status={2: "failed"},
        answer_statuses={2: "empty"},
        cost_uncached=0.02,
    )  # fmt: skip


ACTOR = 'openai:tiny[base_url="http://127.0.0.1:9/v1",temperature=0.2]'
WISH = ToolCall("call-1", "corpus_search", '{"query": "scurvy"}')
SEARCH = Tool("corpus_search", "Finds passages.", {"type": "object", "properties": {"query": {"type": "string"}}})


@pytest.fixture
def tool_run(store):
    """An attempt that embeds, asks a model with tools, uses one, and fails at another call."""
    asked = Request(
        messages=(
            Message("user", "What cures scurvy?"),
            Message("assistant", "", calls=(WISH,)),
            Message("tool", "Vitamin C\x00.", answers="call-1"),
        ),
        tools=(SEARCH,),
        max_tokens=50,
    )
    reply = Reply(text="Again.", calls=(WISH,), usage=Usage(100, 20, 40, 5), model="tiny-1", finish="tool_calls")
    embedded = Request(messages=(Message("user", "scurvy"),))
    used = ToolRequest(tool="corpus_search", query='{"query": "scurvy"}')
    entries = [
        (Entry(key="01" * 32, kind="model", actor="openai:embed", request=embedded), Reply(text="", usage=Usage(2, 0))),
        (Entry(key="02" * 32, kind="model", actor=ACTOR, request=asked), reply),
        (Entry(key="03" * 32, kind="tool", actor="corpus_search", request=used), ToolAnswer("found")),
    ]

    async def keep():
        journal = StoreJournal(store)
        for entry, response in entries:

            async def made(response=response):
                return response

            await journal.once(entry, made, type(response))
        journal.close()

    asyncio.run(keep())
    common = {"node": "think", "at": 10.0, "seconds": 1.0}
    events = (
        Entered(step=0, node="think", at=10.0),
        Called(step=0, call=Call(key="01" * 32, kind="model", role="embedding", actor="openai:embed",
                                 usage=Usage(2, 0), cost_uncached=0.001, **common)),
        Called(step=0, call=Call(key="02" * 32, kind="model", role="answering", actor=ACTOR, usage=reply.usage,
                                 faults=(Fault(kind="server", message="busy", status=503),), **common)),
        Called(step=0, call=Call(key="03" * 32, kind="tool", role="searching", actor="corpus_search", **common)),
        Called(step=0, call=Call(key="", kind="model", role="answering", actor=ACTOR, error="no reply", **common)),
        Noted(step=0, what="passage_cut", text="one was cut"),
        Left(step=0, seconds=4.0, changes={"answer": "A"}),
    )  # fmt: skip
    return add_run(store, "agent", questions(1), [1], events={0: events})


class Listening(HttpScript):
    """A server that takes everything. `answer` gives status and content for a path and a body."""

    def __init__(self):
        self.status, self.headers = 200, {}
        self.answer = lambda path, body: (self.status, {"version": "0", "batch_ingest_config": {}})
        super().__init__(self._told, is_json=False)

    def _told(self, asked, before):
        status, content = self.answer(asked.path, asked.body)
        kind = "application/x-protobuf" if isinstance(content, bytes) else "application/json"
        return Told(content, status, {**self.headers, "Content-Type": kind})

    @property
    def requests(self):
        """What was sent to it: (method, path, headers, body)."""
        return [(one.method, one.path, one.headers, one.body) for one in self.asked]


@pytest.fixture
def listening():
    server = Listening()
    yield server
    server.close()
