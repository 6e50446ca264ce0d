"""Sessions with MCP servers: which failures of a call end a session that other calls share."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from ragrounds.base.errors import GaveUp
from ragrounds.base.settings import McpServer
from ragrounds.tools import mcp_servers
from ragrounds.tools.mcp_servers import McpSource, use_tool


class ServerError(Exception):
    """An error that a server answers, as the library raises it."""

    def __init__(self, code):
        super().__init__(f"code {code}")
        self.error = SimpleNamespace(code=code)


@pytest.fixture
def source(tmp_path):
    return McpSource("doses", McpServer(command="doses"), tmp_path)


@pytest.fixture
def opened(monkeypatch):
    """The sessions that were opened. Each answers by the list's function `answer`."""

    class Session:
        def __init__(self):
            self.closed = False
            self.calls = 0

        async def call_tool(self, tool, arguments):
            self.calls += 1
            return await sessions.answer(self, tool)

    class Sessions(list):
        answer = None

    sessions = Sessions()

    @contextlib.asynccontextmanager
    async def open_session(source):
        sessions.append(Session())
        yield sessions[-1]
        sessions[-1].closed = True

    monkeypatch.setattr(mcp_servers, "_session", open_session)
    monkeypatch.setattr(mcp_servers, "_SESSIONS", mcp_servers._Sessions())
    monkeypatch.setattr(mcp_servers.asyncio, "sleep", lambda seconds, sleep=asyncio.sleep: sleep(0))
    return sessions


def answer_of(text):
    return SimpleNamespace(content=[SimpleNamespace(text=text, type="text")], isError=False)


async def test_an_error_that_the_server_answers_keeps_its_session(source, opened):
    async def answer(session, tool):
        if tool == "unknown":
            raise ServerError(-32602)
        return answer_of("5 mg")

    opened.answer = answer
    with pytest.raises(GaveUp, match="code -32602"):
        await use_tool(source, "unknown", {})
    assert await use_tool(source, "dose", {}) == "5 mg"
    assert len(opened) == 1
    assert not opened[0].closed


@pytest.mark.parametrize("problem", [ServerError(-32000), ConnectionResetError("gone"), TimeoutError()])
async def test_a_broken_session_is_opened_again(source, opened, problem):
    async def answer(session, tool):
        if session is opened[0]:
            raise problem
        return answer_of("5 mg")

    opened.answer = answer
    assert await use_tool(source, "dose", {}) == "5 mg"
    assert len(opened) == 2


async def test_calls_that_fail_with_one_session_open_one_other(source, opened):
    first_fails, second_fails = asyncio.Event(), asyncio.Event()

    async def answer(session, tool):
        if session is opened[0]:
            await (first_fails if tool == "first" else second_fails).wait()
            raise ConnectionResetError("gone")
        second_fails.set()  # only when the other call has another session already
        return answer_of(tool)

    opened.answer = answer
    first, second = (asyncio.create_task(use_tool(source, tool, {})) for tool in ("first", "second"))
    first_fails.set()
    assert [await first, await second] == ["first", "second"]
    assert len(opened) == 2, "the session that the first call has opened is kept"
