"""Tools of any MCP server, journaled like the rest (langchain-mcp-adapters, extra ``mcp``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ragrounds.contracts import Journal
from ragrounds.errors import UserError
from ragrounds.tools.recording import ToolRequest, recorded

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


class _Answer(msgspec.Struct, frozen=True):
    text: str


async def mcp_tools(servers: Mapping[str, Mapping[str, Any]], journal: Journal | None = None) -> list[BaseTool]:
    """The tools of some MCP servers.

    Args:
        servers: Name → connection, as langchain-mcp-adapters takes it: ``{"transport": "stdio", "command": …, "args":
            […]}`` or ``{"transport": "streamable_http", "url": …}``.
        journal: Where their calls are recorded.

    Raises:
        UserError: the library is not installed, or a server does not answer.
    """
    try:
        from langchain_mcp_adapters.client import MultiServerMCPClient
    except ImportError:
        raise UserError("MCP servers' tools need langchain-mcp-adapters: install ragrounds[mcp].") from None
    found: list[BaseTool] = []
    for name, connection in servers.items():
        client = MultiServerMCPClient({name: dict(connection)})  # type: ignore[dict-item]
        try:
            tools = await client.get_tools()
        except Exception as problem:  # processes, pipes, HTTP, and groups of their errors
            raise UserError(f"The MCP server {name!r} does not answer: {_reason(problem)}.") from None
        found += [_journaled(name, tool, journal) for tool in tools]
    return found


def _journaled(server: str, tool: BaseTool, journal: Journal | None) -> BaseTool:
    from langchain_core.tools import StructuredTool

    async def run(**arguments: Any) -> str:
        async def make() -> _Answer:
            return _Answer(_text(await tool.ainvoke(arguments)))

        asked = ToolRequest(tool=tool.name, query=msgspec.json.encode(arguments, order="deterministic").decode())
        return (await recorded(journal, f"mcp {server}", asked, make, _Answer)).text

    return StructuredTool.from_function(
        coroutine=run, name=tool.name, description=tool.description, args_schema=tool.args_schema
    )


def _text(answer: Any) -> str:
    """The text of an answer: its text blocks one after another, other blocks by their kind."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, list):
        return "\n".join(
            str(block.get("text", f"[{block.get('type')}]")) if isinstance(block, dict) else str(block)
            for block in answer
        )
    return str(answer)


def _reason(problem: BaseException) -> str:
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    return f"{type(problem).__name__}: {problem}"
