"""Tools of MCP servers, as agents use them: one session a server, opened at the first call and kept.

What a server's tools are called and take is a part of a run's identity, so it is asked when an agent is opened; it is
kept under ``home/mcp``, and where the server is not there, or nothing may be sent (a replay), the kept list counts.
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
from ragrounds.base.redaction import Redactor
from ragrounds.base.settings import McpServer

if TYPE_CHECKING:
    from langchain_mcp_adapters.sessions import Connection
    from mcp import ClientSession

TRIES = 3
LISTING = 30.0
"""Seconds for a server to say what its tools are."""
LONGEST = 20_000
"""Characters of an answer that a model is given."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class McpSource:
    """A server of the settings, by its name, and where its list of tools is kept."""

    name: str
    server: McpServer
    home: Path
    closed: bool = False
    """Nothing may be sent: the kept list counts."""

    @property
    def actor(self) -> str:
        """What answers, as the journal names it."""
        return f"mcp:{self.name} {self.server.identity}"

    @property
    def price(self) -> float | None:
        """Dollars of one use; ``None``: not known."""
        return self.server.price if self.server.price is not None or self.server.url else 0.0

    @property
    def kept(self) -> Path:
        """Where the list of its tools is kept."""
        return self.home / "mcp" / f"{text_digest(self.name, self.server.identity)}.json"

    def redacted(self, text: str) -> str:
        """A text without what the settings give the server: its environment and headers."""
        given = (*self.server.env.values(), *self.server.headers.values())
        return Redactor(*(os.path.expandvars(value) for value in given))(text)


def listed_tools(source: McpSource) -> tuple[Tool, ...]:
    """The tools of a server as they are described to a model, by name.

    Raises:
        UserError: the library is not installed; the server does not answer and no list of it is kept; or it has no
            tool.
    """
    if not source.closed:
        try:
            with ThreadPoolExecutor(1, "mcp") as apart:  # a loop of its own, also where one runs in this thread
                found = apart.submit(lambda: asyncio.run(_list(source))).result()
        except UserError:
            raise
        except Exception as problem:  # processes, pipes, HTTP, and groups of their errors
            if not source.kept.is_file():
                said = _reason(source, problem)
                raise UserError(
                    f"The MCP server {source.name!r} ({source.server.identity}) does not answer: {said}."
                ) from None
        else:
            if not found:
                raise UserError(f"The MCP server {source.name!r} ({source.server.identity}) has no tools.")
            source.kept.parent.mkdir(parents=True, exist_ok=True)
            source.kept.write_bytes(msgspec.json.encode(found))
            return found
    if not source.kept.is_file():
        raise UserError(
            f"What the MCP server {source.name!r} offers is not known here, and a replay asks nobody: run once with "
            "--journal reuse."
        )
    return msgspec.json.decode(source.kept.read_bytes(), type=tuple[Tool, ...])


async def _list(source: McpSource) -> tuple[Tool, ...]:
    async with asyncio.timeout(LISTING), _session(source) as session:
        listed = await session.list_tools()
        made = [Tool(one.name, one.description or one.name, dict(one.inputSchema)) for one in listed.tools]
        return tuple(sorted(made, key=lambda tool: tool.name))


@contextlib.asynccontextmanager
async def _session(source: McpSource) -> AsyncIterator[ClientSession]:
    """A session with a server, greeted.

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
    server = source.server
    if server.url is not None:
        headers = _filled(source.name, server.headers)
        return {"transport": "streamable_http", "url": server.url, "headers": headers}
    made: dict[str, object] = {"transport": "stdio", "command": server.command, "args": list(server.args)}
    if server.env:
        made["env"] = {**os.environ, **_filled(source.name, server.env)}
    if server.cwd is not None:
        made["cwd"] = server.cwd
    return cast("Connection", made)


def _filled(server: str, given: Mapping[str, str]) -> dict[str, str]:
    """Values with ``${NAME}`` read from the environment.

    Raises:
        UserError: a variable is not set.
    """

    def _of(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UserError(
                f"[mcp.{server}] in the settings names ${{{found[1]}}}, which is not set in the environment."
            )
        return os.environ[found[1]]

    return {key: _VARIABLE.sub(_of, value) for key, value in given.items()}


def _reason(source: McpSource, problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if type(problem).__name__ in ("BrokenResourceError", "ClosedResourceError"):
        return "it ended without an answer"
    said = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    return source.redacted(said)[:500]


async def use_tool(source: McpSource, tool: str, arguments: Mapping[str, object]) -> str:
    """The text that a server's tool answers with; what the tool itself refuses stands there as its error.

    Raises:
        GaveUp: the server does not answer, also when asked again.
    """
    for number in range(1, TRIES + 1):
        try:
            session = await _SESSIONS.of(source)
            answer = await asyncio.wait_for(session.call_tool(tool, dict(arguments)), source.server.seconds)
        except (UserError, asyncio.CancelledError):
            raise
        except Exception as problem:
            await _SESSIONS.drop(source)
            if number == TRIES:
                said = _reason(source, problem)
                kind = "timeout" if isinstance(problem, TimeoutError) else "server"
                raise GaveUp(kind, f"The MCP server {source.name!r} failed {TRIES} times: {said}.") from None
            await asyncio.sleep(0.2 * 2**number)
        else:
            parts = [getattr(block, "text", f"[{block.type}]") for block in answer.content]
            text = "\n".join(map(str, parts))[:LONGEST]
            return msgspec.json.encode({"error": text}).decode() if answer.isError else text
    raise AssertionError


class _Sessions:
    """Sessions by event loop and server. Each has a task that opens and closes it, as the library demands."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, _Kept]] = WeakKeyDictionary()

    async def of(self, source: McpSource) -> ClientSession:
        """The server's session on this loop, opened where there is none."""
        here = self._open.setdefault(asyncio.get_running_loop(), {})
        if source.actor not in here:
            here[source.actor] = _Kept(source)
        return await here[source.actor].session()

    async def drop(self, source: McpSource) -> None:
        """Close the server's session on this loop: the next call opens another."""
        kept = self._open.get(asyncio.get_running_loop(), {}).pop(source.actor, None)
        if kept is not None:
            await kept.close()


_SESSIONS = _Sessions()


class _Kept:
    """One session, held open by a task."""

    def __init__(self, source: McpSource) -> None:
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[ClientSession] = loop.create_future()
        self._over = asyncio.Event()
        self._task = loop.create_task(self._hold(source))

    async def session(self) -> ClientSession:
        """The session, once it is open."""
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Close it."""
        self._over.set()
        await asyncio.wait([self._task], timeout=5)

    async def _hold(self, source: McpSource) -> None:
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
