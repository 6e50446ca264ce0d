"""Serves an index over HTTP, in the form that Search-R1's training and inference scripts ask for, and as an MCP server.

``POST /retrieve`` with ``{"queries": [...], "topk": 3, "return_scores": true}`` answers
``{"result": [[{"document": {"id", "contents"}, "score"}, …], …]}``, one list a query; without ``return_scores`` the
documents stand there themselves. ``contents`` is the title in quotes on the first line, then the text, as Search-R1's
Wikipedia has it. ``GET /`` says what is served.

On a loopback address anybody on this machine may ask, but no web page (the name asked for must be this machine's).
Anywhere else every request needs ``Authorization: Bearer TOKEN``.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import msgspec
from aiohttp import web
from pydantic import Field

from ragrounds.contracts import Library, Searcher
from ragrounds.errors import UserError
from ragrounds.records import Passage
from ragrounds.tools.toolset import read_answer, search_answer

if TYPE_CHECKING:
    from mcp.server.fastmcp import FastMCP

MOST_QUERIES = 1024
MOST = 1000
_BODY = 16 * 2**20


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def application(searcher: Searcher, *, host: str, token: str = "", topk: int = 3) -> web.Application:
    """The HTTP application.

    Args:
        searcher: What is searched.
        host: Where it will listen: an address that is not loopback demands a token.
        token: Every request must carry it; empty: none is needed.
        topk: Passages a query, where a request does not say.

    Raises:
        UserError: no token for an address that others can reach.
    """
    check_address(host, token)

    @web.middleware
    async def _check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return web.json_response({"error": "expected Authorization: Bearer TOKEN"}, status=401)
        if not token and not is_loopback(_host(request.host)):
            return web.json_response({"error": "this name is not this machine's"}, status=403)
        return await handler(request)

    async def _about(request: web.Request) -> web.Response:
        return web.json_response({"corpus": searcher.corpus, "retriever": searcher.spec})

    async def _retrieve(request: web.Request) -> web.Response:
        try:
            asked = msgspec.json.decode(await request.read(), type=_Asked)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
            return web.json_response({"error": str(problem)}, status=400)
        k = asked.topk if asked.topk is not None else topk
        if len(asked.queries) > MOST_QUERIES or not 1 <= k <= MOST:
            reason = f"expected at most {MOST_QUERIES} queries and a topk from 1 to {MOST}"
            return web.json_response({"error": reason}, status=400)
        result = [[_shown(hit, asked.return_scores) for hit in await searcher.search(one, k)] for one in asked.queries]
        return web.Response(body=msgspec.json.encode({"result": result}), content_type="application/json")

    made = web.Application(middlewares=[_check], client_max_size=_BODY)
    made.add_routes([web.get("/", _about), web.post("/retrieve", _retrieve)])
    return made


def check_address(host: str, token: str) -> None:
    """Refuse to be open to others.

    Raises:
        UserError: no token for an address that others can reach.
    """
    if not token and not is_loopback(host):
        raise UserError(
            f"Serving on {host!r} can be reached from other machines: give a token with --token, or serve on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _host(header: str) -> str:
    """The name of a Host header, without the port."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0]


def _shown(passage: Passage, scores: bool) -> dict[str, object]:
    document: dict[str, object] = {"id": passage.id, "contents": f'"{passage.title}"\n{passage.text}'}
    return {"document": document, "score": passage.score} if scores else document


def mcp_server(searcher: Searcher) -> FastMCP:
    """An MCP server with the tools ``corpus_search`` and, where documents can be read, ``corpus_read``.

    Raises:
        UserError: the library is not installed.
    """
    try:
        from mcp.server.fastmcp import FastMCP
    except ImportError:
        raise UserError("Serving MCP needs its library: install ragrounds[mcp].") from None

    server = FastMCP("ragrounds", log_level="WARNING")

    @server.tool(name="corpus_search", description=f"Search {searcher.corpus} for passages. Answers with JSON.")
    async def _search(
        query: Annotated[str, Field(min_length=1, max_length=50_000)], k: Annotated[int, Field(ge=1, le=100)] = 5
    ) -> str:
        return search_answer(await searcher.search(query, k)).text

    if isinstance(searcher, Library):
        library = searcher

        @server.tool(name="corpus_read", description="Read more of the document around a passage. Answers with JSON.")
        async def _read(
            passage: Annotated[str, Field(min_length=1)],
            around: Annotated[int, Field(ge=0, le=50)] = 1,
            whole: bool = False,
        ) -> str:
            return read_answer(library, passage, around, whole).text

    return server
