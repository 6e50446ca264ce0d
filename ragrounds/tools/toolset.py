"""Tools for agents, as LangChain tools: usable in any LangGraph agent, journaled where a journal is given, so that a
run with web searches is replayed with the network off.

A tool answers with JSON: titles and texts of documents and pages stand inside strings, so that nothing in them — an end
marker, a tag, a template — can be taken for a part of the answer's form. Tools of MCP servers come in beside them."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec.structs import replace
from pydantic import BaseModel, Field

from ragrounds.contracts import Entry, Journal, Library, Searcher
from ragrounds.errors import UserError
from ragrounds.records import Passage, ToolAnswer, ToolRequest

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from ragrounds.tools.web.pages import Fetched, Fetcher
    from ragrounds.tools.web.providers import SearchProvider, WebHit
    from ragrounds.tools.web.pubmed import PubMed, PubMedArticle


T = TypeVar("T", bound=msgspec.Struct)


async def recorded(
    journal: Journal | None, actor: str, request: ToolRequest, make: Callable[[], Awaitable[T]], kind: type[T]
) -> T:
    """The recorded response of a tool, or the response of `make`, recorded before it is given.

    Args:
        journal: Where calls are recorded; ``None``: nowhere, every call is made.
        actor: Canonical text of what answers: a provider, a searcher with its corpus, the fetcher with its limits.
        request: What is asked. With `actor`, all that the response depends on.
        make: Makes the call.
        kind: What the response is.

    Raises:
        ragrounds.errors.StopRun: the journal only replays and does not hold the call; the message has the query.
    """
    if journal is None:
        return await make()
    digest = hashlib.blake2b(msgspec.msgpack.encode(["tool", actor, request]), digest_size=20).hexdigest()
    entry = Entry(key=digest, kind="tool", actor=actor, request=request)
    response, _ = await journal.once(entry, make, kind)
    return response


H = TypeVar("H")
MOST = 100
PAGE = 20_000
"""Characters of a page or a document that a tool gives at once."""

_Query = Annotated[str, Field(min_length=1, max_length=50_000, description="What to search for.")]
_K = Annotated[int, Field(default=5, ge=1, le=MOST, description="How many results.")]


class SearchArguments(BaseModel):
    """What a search tool takes."""

    query: _Query
    k: _K = 5


class ReadArguments(BaseModel):
    """What ``corpus_read`` takes."""

    passage: Annotated[str, Field(min_length=1, description="Id of a passage that corpus_search gave.")]
    around: Annotated[int, Field(default=1, ge=0, le=50, description="Neighbours before and after it.")] = 1
    whole: Annotated[bool, Field(default=False, description="The whole document in place of the neighbours.")] = False


class PageArguments(BaseModel):
    """What ``fetch_page`` takes."""

    url: Annotated[str, Field(min_length=1, max_length=4000, description="Address of the page.")]
    looking_for: Annotated[
        str, Field(default="", max_length=4000, description="A snippet of it: the text around that place is given.")
    ] = ""


def corpus_search(searcher: Searcher, journal: Journal | None = None) -> BaseTool:
    """The tool ``corpus_search``: the best passages of a corpus."""

    async def _search(query: str, k: int = 5) -> tuple[str, list[Passage]]:
        async def _make() -> ToolAnswer:
            hits = tuple(await searcher.search(query, k))
            return ToolAnswer(_shown([_row(hit) for hit in hits]), hits)

        actor = f"{searcher.spec} over {searcher.corpus}"
        return await _answer(journal, actor, ToolRequest(tool="corpus_search", query=query, k=k), _make)

    return _tool("corpus_search", "Search the corpus for passages.", SearchArguments, _search)


def corpus_read(library: Library, journal: Journal | None = None) -> BaseTool:
    """The tool ``corpus_read``: a passage's neighbours in its document, or the whole document."""

    async def _read(passage: str, around: int = 1, whole: bool = False) -> tuple[str, list[Passage]]:
        async def _make() -> ToolAnswer:
            return read_answer(library, passage, around, whole)

        asked = msgspec.json.encode([passage, around, whole]).decode()
        actor = f"{library.spec} over {library.corpus}"
        return await _answer(journal, actor, ToolRequest(tool="corpus_read", query=asked), _make)

    return _tool("corpus_read", "Read more of the document around a passage.", ReadArguments, _read)


def web_search(provider: SearchProvider, journal: Journal | None = None) -> BaseTool:
    """The tool ``web_search``: titles, addresses and snippets."""

    def _passage(hit: WebHit) -> Passage:
        return Passage(
            id=hit.url, document=hit.url, title=hit.title, text=hit.snippet, corpus="web", retriever=provider.spec
        )

    def _row_of(hit: WebHit) -> dict[str, object]:
        return {"url": hit.url, "title": hit.title, "snippet": hit.snippet}

    return _search_tool("web_search", "Search the web.", provider.spec, provider.search, _passage, _row_of, journal)


def fetch_page(fetcher: Fetcher, journal: Journal | None = None) -> BaseTool:
    """The tool ``fetch_page``: a page's text, or the part of it around a snippet."""

    async def _fetch(url: str, looking_for: str = "") -> tuple[str, list[Passage]]:
        from ragrounds.tools.web.pages import Fetched

        async def _get() -> Fetched:
            return await _fetched(fetcher, url)

        # The answer as it came is recorded, not what was made of it: a better extraction needs no new fetch.
        got = await recorded(journal, fetcher.spec, ToolRequest(tool="fetch_page", query=url), _get, Fetched)
        answer = _page_answer(got, looking_for)
        return answer.text, list(answer.passages)

    return _tool("fetch_page", "Read a web page.", PageArguments, _fetch)


async def _fetched(fetcher: Fetcher, url: str) -> Fetched:
    """A page as it came, or why it did not."""
    from ragrounds.tools.web.pages import Fetched, FetchFailed

    try:
        return await fetcher.fetch(url)
    except FetchFailed as problem:
        return Fetched(url=url, type="error", charset="utf-8", content=str(problem).encode())


def _page_answer(got: Fetched, looking_for: str) -> ToolAnswer:
    from ragrounds.tools.web.pages import FetchFailed, WebPage, excerpt, extract

    try:
        if got.type == "error":
            raise FetchFailed(got.content.decode())
        page: WebPage = extract(got)
    except FetchFailed as problem:
        return ToolAnswer(_shown({"error": str(problem)}))
    text = excerpt(page.text, looking_for) if looking_for else page.text
    passage = Passage(id=page.url, document=page.url, title=page.title, text=text, corpus="web", rank=1)
    row = {"url": page.url, "title": page.title, "text": text[:PAGE], "characters": len(page.text)}
    return ToolAnswer(_shown(row), (passage,))


async def fetched_answer(fetcher: Fetcher, url: str, looking_for: str = "") -> ToolAnswer:
    """A page's text, or the part of it around a snippet; a page that cannot be had is an answer that says why."""
    return _page_answer(await _fetched(fetcher, url), looking_for)


def read_answer(library: Library, passage: str, around: int, whole: bool, document: str = "") -> ToolAnswer:
    """A passage's neighbours in its document, or the whole document; an answer says so where there is none. `document`
    is the document's id, where it is known."""
    found = _neighbours(library, passage, around, whole, document)
    if not found:
        return ToolAnswer(_shown({"error": f"There is no passage {passage!r} in the corpus."}))
    return ToolAnswer(_shown(_fitting(found)), tuple(found))


def literature_search(pubmed: PubMed, journal: Journal | None = None) -> BaseTool:
    """The tool ``literature_search``: titles and abstracts of PubMed."""

    def _passage(one: PubMedArticle) -> Passage:
        return Passage(
            id=one.pmid, document=one.pmid, title=one.title, text=one.abstract, corpus="pubmed", retriever=pubmed.spec
        )

    return _search_tool(
        "literature_search",
        "Search PubMed for articles.",
        pubmed.spec,
        pubmed.search,
        _passage,
        msgspec.to_builtins,
        journal,
    )


def _search_tool(
    name: str,
    about: str,
    actor: str,
    find: Callable[[str, int], Awaitable[Sequence[H]]],
    passage: Callable[[H], Passage],
    row: Callable[[H], dict[str, object]],
    journal: Journal | None,
) -> BaseTool:
    async def _search(query: str, k: int = 5) -> tuple[str, list[Passage]]:
        from ragrounds.tools.web.providers import SearchFailed

        async def _make() -> ToolAnswer:
            try:
                hits = await find(query, k)
            except SearchFailed as problem:
                return ToolAnswer(_shown({"error": str(problem)}))
            ranked = [replace(passage(hit), score=1 / rank, rank=rank) for rank, hit in enumerate(hits, 1)]
            return ToolAnswer(_shown([row(hit) for hit in hits]), tuple(ranked))

        return await _answer(journal, actor, ToolRequest(tool=name, query=query, k=k), _make)

    return _tool(name, about, SearchArguments, _search)


def _tool(name: str, about: str, arguments: type[BaseModel], run: Callable[..., Awaitable[object]]) -> BaseTool:
    from langchain_core.tools import StructuredTool

    return StructuredTool.from_function(
        coroutine=run, name=name, description=about, args_schema=arguments, response_format="content_and_artifact"
    )


async def _answer(
    journal: Journal | None, actor: str, request: ToolRequest, make: Callable[[], Awaitable[ToolAnswer]]
) -> tuple[str, list[Passage]]:
    found = await recorded(journal, actor, request, make, ToolAnswer)
    return found.text, list(found.passages)


def _neighbours(library: Library, identity: str, around: int, whole: bool, known: str = "") -> Sequence[Passage]:
    """The passages around one; the document is the `known` one, what the id names before its last ``_NUMBER``, or the
    id itself."""
    for document in dict.fromkeys((known, identity, identity.rpartition("_")[0])):
        passages = library.document(document) if document else []
        places = [place for place, passage in enumerate(passages) if passage.id == identity]
        if places:
            return passages if whole else passages[max(0, places[0] - around) : places[0] + around + 1]
        if passages and document == identity:
            return passages if whole else passages[: around + 1]
    return []


def _fitting(passages: Sequence[Passage]) -> list[dict[str, object]]:
    """Rows until :data:`PAGE` characters are full; the first is cut where it alone is longer, and what is left out is
    said."""
    rows: list[dict[str, object]] = []
    room = PAGE
    for passage in passages:
        if rows and len(passage.text) > room:
            rows.append({"left_out": len(passages) - len(rows)})
            break
        rows.append({**_row(passage), "text": passage.text[:room]})
        room -= len(passage.text)
    return rows


def _row(passage: Passage) -> dict[str, object]:
    return {"id": passage.id, "title": passage.title, "text": passage.text}


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


class _McpAnswer(msgspec.Struct, frozen=True):
    text: str


async def mcp_tools(servers: Mapping[str, Mapping[str, object]], journal: Journal | None = None) -> list[BaseTool]:
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

    async def _run(**arguments: object) -> str:
        async def _make() -> _McpAnswer:
            return _McpAnswer(_text(await tool.ainvoke(arguments)))

        asked = ToolRequest(tool=tool.name, query=msgspec.json.encode(arguments, order="deterministic").decode())
        return (await recorded(journal, f"mcp {server}", asked, _make, _McpAnswer)).text

    return StructuredTool.from_function(
        coroutine=_run, name=tool.name, description=tool.description, args_schema=tool.args_schema
    )


def _text(answer: object) -> str:
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
