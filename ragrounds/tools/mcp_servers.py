"""Tools of MCP servers, as agents use them: one session a server, opened at the first call and kept.

The names and parameters of a server's tools are part of a run's identity, so they are listed when an agent is opened.
The list is stored under ``home/mcp``, and used if the server does not respond or nothing may be sent (a replay).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

import msgspec

from ragrounds.base.contracts import Tool
from ragrounds.base.digests import text_digest
from ragrounds.base.errors import GaveUp, UserError
from ragrounds.base.settings import McpServer
from ragrounds.recorder.redaction import Redactor

if TYPE_CHECKING:
    from langchain_mcp_adapters.sessions import Connection
    from mcp import ClientSession

TRIES = 3
LISTING = 30.0
"""Seconds for a server to list its tools."""
LONGEST = 20_000
"""Number of characters of an answer that a model gets."""
_CONNECTION_CLOSED, _REQUEST_TIMEOUT = -32000, 408
"""Codes of the library's own errors, which no server has answered."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class McpSource:
    """A server of the settings, by its name, and the location of its stored list of tools."""

    name: str
    server: McpServer
    home: Path
    closed: bool = False
    """True if nothing may be sent. The stored list of tools is used."""

    @property
    def actor(self) -> str:
        """Return the answering component, as the journal names it."""
        return f"mcp:{self.name} {self.server.identity}"

    @property
    def price(self) -> float | None:
        """Return the dollars of a use; ``None`` if unknown."""
        return self.server.price if self.server.price is not None or self.server.url else 0.0

    @property
    def tools_path(self) -> Path:
        """Return the path of its stored list of tools."""
        return self.home / "mcp" / f"{text_digest(self.name, self.server.identity)}.json"

    def redacted(self, text: str) -> str:
        """Return a text without the server's environment and headers in the settings."""
        secrets = (*self.server.env.values(), *self.server.headers.values())
        return Redactor(*(os.path.expandvars(value) for value in secrets))(text)


def listed_tools(source: McpSource) -> tuple[Tool, ...]:
    """List the tools of a server as they are described to a model, by name.

    Raises:
        UserError: the library is not installed; the server does not answer and no list of it is stored; or it has no
            tool.
    """
    if not source.closed:
        try:
            with ThreadPoolExecutor(
                1, "mcp"
            ) as executor:  # a separate event loop, since one may already run in this thread
                tools = executor.submit(lambda: asyncio.run(_fetch_tools(source))).result()
        except UserError:
            raise
        except Exception as problem:  # processes, pipes, HTTP, and groups of their errors
            if not source.tools_path.is_file():
                message = _reason(source, problem)
                raise UserError(
                    f"The MCP server {source.name!r} ({source.server.identity}) does not answer: {message}."
                ) from None
        else:
            if not tools:
                raise UserError(f"The MCP server {source.name!r} ({source.server.identity}) has no tools.")
            source.tools_path.parent.mkdir(parents=True, exist_ok=True)
            source.tools_path.write_bytes(msgspec.json.encode(tools))
            return tools
    if not source.tools_path.is_file():
        raise UserError(
            f"What the MCP server {source.name!r} offers is unknown, and a replay sends no request: run once with "
            "--journal reuse."
        )
    return msgspec.json.decode(source.tools_path.read_bytes(), type=tuple[Tool, ...])


async def _fetch_tools(source: McpSource) -> tuple[Tool, ...]:
    """Ask a server for its tools, sorted by name."""
    async with asyncio.timeout(LISTING), _session(source) as session:
        listed = await session.list_tools()
        tools = [Tool(tool.name, tool.description or tool.name, dict(tool.inputSchema)) for tool in listed.tools]
        return tuple(sorted(tools, key=lambda tool: tool.name))


@contextlib.asynccontextmanager
async def _session(source: McpSource) -> AsyncIterator[ClientSession]:
    """Open and initialise a session with a server.

    Raises:
        UserError: the library is not installed, or a variable of the settings is not set.
    """
    try:
        from langchain_mcp_adapters.sessions import create_session
    except ImportError:
        raise UserError("MCP servers' tools need langchain-mcp-adapters: install ragrounds[mcp].") from None
    async with create_session(_connection(source)) as session:
        await session.initialize()
        yield session


def _connection(source: McpSource) -> Connection:
    """Return the settings of a connection to a server, as the library takes them."""
    server = source.server
    if server.url is not None:
        headers = _fill_variables(source.name, server.headers)
        return {"transport": "streamable_http", "url": server.url, "headers": headers}
    settings: dict[str, object] = {"transport": "stdio", "command": server.command, "args": list(server.args)}
    if server.env:
        settings["env"] = {**os.environ, **_fill_variables(source.name, server.env)}
    if server.cwd is not None:
        settings["cwd"] = server.cwd
    return cast("Connection", settings)


def _fill_variables(server: str, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values with ``${NAME}`` read from the environment.

    Raises:
        UserError: a variable is not set.
    """

    def variable_value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise UserError(
                f"[mcp.{server}] in the settings names ${{{match[1]}}}, which is not set in the environment."
            )
        return os.environ[match[1]]

    return {key: _VARIABLE.sub(variable_value, value) for key, value in values.items()}


def _reason(source: McpSource, problem: BaseException) -> str:
    """Return an error's message in short, without secrets of the settings."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if type(problem).__name__ in ("BrokenResourceError", "ClosedResourceError"):
        return "it ended without an answer"
    message = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return source.redacted(message)[:500]


async def use_tool(source: McpSource, tool: str, arguments: Mapping[str, object]) -> str:
    """Return the text of a tool's answer. An error that the tool reports is returned as JSON with the key ``error``.

    Raises:
        GaveUp: the server does not answer, even after repeated requests.
    """
    for number in range(1, TRIES + 1):
        shared = _SESSIONS.session_of(source)
        try:
            session = await shared.session()
            answer = await asyncio.wait_for(session.call_tool(tool, dict(arguments)), source.server.seconds)
        except (UserError, asyncio.CancelledError):
            raise
        except Exception as problem:
            # Other calls may wait for answers in the same session: a server that answers with an error keeps it.
            code = getattr(getattr(problem, "error", None), "code", None)
            if code in (None, _CONNECTION_CLOSED, _REQUEST_TIMEOUT):
                await _SESSIONS.drop(source, shared)
            if number == TRIES:
                message = _reason(source, problem)
                kind = "timeout" if isinstance(problem, TimeoutError) else "server"
                raise GaveUp(kind, f"The MCP server {source.name!r} failed {TRIES} times: {message}.") from None
            await asyncio.sleep(0.2 * 2**number)
        else:
            parts = [getattr(block, "text", f"[{block.type}]") for block in answer.content]
            text = "\n".join(map(str, parts))[:LONGEST]
            return msgspec.json.encode({"error": text}).decode() if answer.isError else text
    raise AssertionError


class _Sessions:
    """Sessions by event loop and server. Each has a task that opens and closes it, as the library requires."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _OpenSession]] = WeakKeyDictionary()

    def session_of(self, source: McpSource) -> _OpenSession:
        """Return the server's session on this loop, which is opened if needed."""
        sessions = self._open.setdefault(asyncio.get_running_loop(), {})
        if source.actor not in sessions:
            sessions[source.actor] = _OpenSession(source)
        return sessions[source.actor]

    async def drop(self, source: McpSource, broken: _OpenSession) -> None:
        """Close a session on this loop. The next call opens another, unless a call has done so already."""
        sessions = self._open.get(asyncio.get_running_loop(), {})
        if sessions.get(source.actor) is broken:
            del sessions[source.actor]
            await broken.close()


_SESSIONS = _Sessions()


class _OpenSession:
    """A session that a task holds open."""

    def __init__(self, source: McpSource) -> None:
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[ClientSession] = loop.create_future()
        self._over = asyncio.Event()
        self._task = loop.create_task(self._hold(source))

    async def session(self) -> ClientSession:
        """Return the session once it is open."""
        # Shielded, so that a cancelled call does not cancel the session of the other calls.
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Close the session."""
        self._over.set()
        await asyncio.wait([self._task], timeout=5)

    async def _hold(self, source: McpSource) -> None:
        """Open the session, keep it open until :meth:`close`, and close it."""
        try:
            async with _session(source) as session:
                self._ready.set_result(session)
                await self._over.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except Exception as problem:
            if not self._ready.done():
                self._ready.set_exception(problem)
