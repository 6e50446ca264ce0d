"""Tools with which an agent searches and reads, as its ``tools=[…]`` lists them.

| tool | functions for the model | requirements |
|---|---|---|
| ``corpus`` | ``search``: the agent's corpus, by its retriever | ``--corpus`` |
| ``read`` | ``read``: a passage's neighbours in its document, or the whole of it | ``--corpus`` |
| a retriever: ``web[provider=tavily]``, ``pubmed``, ``pgvector[…]`` … | ``search_NAME`` | those of the retriever |
| ``fetch`` | ``fetch``: the text of a web page | the extra ``web`` |
| ``mcp:NAME`` | every tool of the MCP server that the settings name so | the extra ``mcp`` |

A tool that searches is a search in the trace, with its query, passages and ranks; every other use is a tool's call.
Both are journaled, so that a replay uses none of them.

A strategy that writes queries and calls no tools (``search_o1``, ``vanilla_rag`` …) asks every search of the list with
each of its queries, and takes what they find in turn: the first of each, then the second of each. ``fetch`` reads the
pages that a web search found, ``read`` the neighbours of the corpus' passages, and an MCP server is asked by those of
its tools that take one text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from ragrounds.base.contracts import Library, Searcher, Tool
from ragrounds.base.digests import code_digest, text_digest
from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Passage, ToolAnswer
from ragrounds.base.specs import Spec, check_known, parse
from ragrounds.tools.mcp_servers import McpSource, listed_tools, use_tool
from ragrounds.tools.retriever import find_retriever, needs_corpus, retrievers, searcher_codes
from ragrounds.tools.toolset import fetched_answer, read_answer

MCP = "mcp:"
CORPUS, READ, FETCH = "corpus", "read", "fetch"
DOCUMENT = "document"
"""Name of an argument that `read` gets besides the model's arguments if a search of the attempt returned it: the
passage's document.
"""
SEARCH, _SEARCHES = "search", "search_"
"""Name of the search of the corpus, and prefix of the names of other searches."""
_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_ABOUT = {
    "web": "Search the web for pages about a query.",
    "pubmed": "Search PubMed for articles about a query.",
}
_QUERY = "What to search for, in a few words."

Use = Callable[[Mapping[str, object]], Awaitable[ToolAnswer]]
"""Function that answers a call with these arguments."""


class WrongArguments(Exception):
    """A call whose arguments do not fit the tool's schema. The message names the expected arguments."""


@dataclass(frozen=True)
class AgentTool:
    """An opened tool of an agent."""

    spec: str
    """Spec of the tool in the agent's list."""
    tool: Tool
    """Description of the tool for a model."""
    actor: str
    """Canonical text of the answering component."""
    searcher: Searcher | None = None
    """Searcher of the tool; ``None`` if it does not search."""
    use: Use | None = None
    """Function that answers, for a tool that does not search."""
    price: float | None = 0.0
    """Dollars of a use; ``None`` if unknown. A search's own price is known to its searcher."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Digest of the answering code by name."""

    @property
    def argument(self) -> str:
        """Return the name of its argument if it takes a single text; else an empty string."""
        properties = self.tool.parameters.get("properties")
        needed = self.tool.parameters.get("required")
        names = list(properties) if isinstance(properties, dict) else []
        required = needed if isinstance(needed, list) else []
        if not isinstance(properties, dict) or len(required) != 1 or required[0] not in names:
            return ""
        kind = properties[required[0]]
        return str(required[0]) if isinstance(kind, dict) and kind.get("type") == "string" else ""

    def identity(self) -> dict[str, object]:
        """Return the properties that a run's results depend on."""
        record: dict[str, object] = {"tool": self.spec, "actor": self.actor, "codes": dict(self.codes)}
        if self.searcher is not None:
            return {**record, "corpus": self.searcher.corpus}
        return {**record, "described": msgspec.to_builtins(self.tool)}

    def text_argument(self, arguments: Mapping[str, object]) -> str:
        """Return the query of a call to a search.

        Raises:
            WrongArguments: the query is not set.
        """
        query = arguments.get("query")
        if not isinstance(query, str) or not query.strip():
            raise WrongArguments(f'{self.tool.name} takes one text, "query".')
        return query


@dataclass(frozen=True)
class ToolSources:
    """Sources over which tools are opened."""

    corpus: Callable[[], Searcher]
    """Function that opens the agent's corpus with its retriever."""
    retriever: Callable[[Spec], Searcher]
    """Function that opens another retriever, over the agent's corpus or over a source of its own."""
    mcp: Mapping[str, McpSource] = field(default_factory=dict)
    """MCP servers in the settings."""


def check_tools(listed: Sequence[str]) -> None:
    """Refuse names that are no tools, and tools that are listed twice.

    Raises:
        UserError: such a name is listed. The message offers the nearest.
    """
    for text, times in Counter(listed).items():
        if times > 1:
            raise UserError(f"tools=[…] lists {text!r} {times} times: once is enough.")
    for text in listed:
        if text in (CORPUS, READ) or text.startswith(MCP):
            continue
        spec = parse(text)
        if spec.name == FETCH:
            continue
        try:
            find_retriever(spec.name)
        except UserError:
            names = [CORPUS, READ, FETCH, *retrievers(), f"{MCP}NAME"]
            raise UserError(
                f"Unknown tool {text!r}.{nearest(spec.name, names)} tools=[…] lists corpus, read, fetch, mcp:NAME, or "
                "retrievers such as pubmed and web[provider=tavily]."
            ) from None


def tools_need_corpus(listed: Sequence[str]) -> bool:
    """Return True if a tool uses the agent's corpus. An empty list means its search."""
    return not listed or any(
        text in (CORPUS, READ) or (not text.startswith(MCP) and parse(text).name != FETCH and needs_corpus(parse(text)))
        for text in listed
    )


def open_tools(listed: Sequence[str], sources: ToolSources) -> tuple[AgentTool, ...]:
    """Open the tools that an agent lists, in its order.

    Nothing is searched. MCP servers are queried for their tools.

    Raises:
        UserError: a tool is unknown, or its requirements are missing.
    """
    check_tools(listed)
    tools: list[AgentTool] = []
    for text in listed:
        spec = parse(text)
        if text == CORPUS:
            tools.append(_search(text, SEARCH, sources.corpus()))
        elif text == READ:
            tools.append(_read(sources.corpus()))
        elif text.startswith(MCP):
            tools += _mcp(text, sources.mcp)
        elif spec.name == FETCH:
            tools.append(_fetch(spec))
        else:
            tools.append(_search(text, f"{_SEARCHES}{_NAME.sub('_', spec.name)}", sources.retriever(spec)))
    return tuple(_with_distinct_names(tools))


def _with_distinct_names(tools: Sequence[AgentTool]) -> list[AgentTool]:
    """Return the tools with a number after names that occur before them."""
    seen: Counter[str] = Counter()
    renamed_tools = []
    for tool in tools:
        seen[tool.tool.name] += 1
        number = seen[tool.tool.name]
        name = tool.tool.name if number == 1 else f"{tool.tool.name}_{number}"
        renamed_tools.append(AgentTool(**{**vars(tool), "tool": replace(tool.tool, name=name)}))
    return renamed_tools


def _search(text: str, name: str, searcher: Searcher) -> AgentTool:
    """Return the tool of a searcher."""
    return AgentTool(text, _search_tool(name), searcher.spec, searcher, codes=searcher_codes(searcher))


def _search_tool(name: str) -> Tool:
    about = _ABOUT.get(name.removeprefix(_SEARCHES), "Search the corpus for passages about a query.")
    return Tool.taking("query", _QUERY, name=name, description=about)


def described(name: str) -> Tool:
    """Return a tool as it is described to a model, before an agent lists it.

    Raises:
        UserError: its form is unknown beforehand: it is an MCP server's tool, or of an unknown kind.
    """
    if name == SEARCH or name.startswith(_SEARCHES):
        return _search_tool(name)
    tools_by_name = {READ: _READ_TOOL, FETCH: _FETCH_TOOL}
    if name not in tools_by_name:
        suggestion = nearest(name, [SEARCH, *tools_by_name])
        raise UserError(
            f"The form of the tool {name!r} is not known before an attempt runs.{suggestion} Known "
            "are search, search_NAME, read and fetch; inside a node, tools() gives all that the agent lists."
        )
    return tools_by_name[name]


_READ_TOOL = Tool(
    "read",
    "Read more of the document that a passage of the corpus is from.",
    {
        "type": "object",
        "properties": {
            "passage": {"type": "string", "description": "Id of a passage that a search gave."},
            "whole": {"type": "boolean", "description": "The whole document instead of the text around the passage."},
        },
        "required": ["passage"],
    },
)
_FETCH_TOOL = Tool(
    "fetch",
    "Read a web page.",
    {
        "type": "object",
        "properties": {
            "url": {"type": "string", "description": "Address of the page."},
            "looking_for": {
                "type": "string",
                "description": "Some words of it: the text around that place is given.",
            },
        },
        "required": ["url"],
    },
)


def _reading_code() -> dict[str, str]:
    """Return the digest of the code that reads documents and pages.

    It is computed when a tool is opened, not at start-up.
    """
    name = "ragrounds.tools.toolset"
    return {name: code_digest(name)}


def _read(searcher: Searcher) -> AgentTool:
    """Return the tool that reads documents of a corpus."""
    if not isinstance(searcher, Library):
        raise UserError(
            f"tools=[read] needs a corpus that can give its documents: {searcher.spec} over {searcher.corpus} cannot."
        )
    library = searcher

    async def _use(arguments: Mapping[str, object]) -> ToolAnswer:
        passage, whole_document, document = (
            arguments.get("passage"),
            arguments.get("whole", False),
            arguments.get(DOCUMENT, ""),
        )
        if not isinstance(passage, str) or not passage.strip() or not isinstance(whole_document, bool):
            raise WrongArguments('read takes a text, "passage", and a switch, "whole".')
        return read_answer(library, passage, 1, whole_document, str(document))

    actor = f"read {library.spec} over {library.corpus}"
    return AgentTool(READ, _READ_TOOL, actor, use=_use, codes={**searcher_codes(library), **_reading_code()})


def _fetch(spec: Spec) -> AgentTool:
    """Return the tool that fetches web pages."""
    from ragrounds.tools.web_pages import Fetcher, FetchLimits, need_web

    need_web()
    try:
        limits = msgspec.convert(dict(spec.parameters), FetchLimits)
    except msgspec.ValidationError as problem:
        raise UserError(f"Cannot use {str(spec)!r}: {problem}.") from None
    check_known(spec, FetchLimits.__struct_fields__)
    fetcher = Fetcher(limits=limits)

    async def _use(arguments: Mapping[str, object]) -> ToolAnswer:
        url, looking_for = arguments.get("url"), arguments.get("looking_for", "")
        if not isinstance(url, str) or not url.strip() or not isinstance(looking_for, str):
            raise WrongArguments('fetch takes a text, "url", and a text, "looking_for".')
        return await fetched_answer(fetcher, url, looking_for)

    return AgentTool(str(spec), _FETCH_TOOL, fetcher.spec, use=_use, codes=_reading_code())


def _mcp(text: str, servers: Mapping[str, McpSource]) -> list[AgentTool]:
    """Return the tools of an MCP server in the settings."""
    name = text.removeprefix(MCP)
    source = servers.get(name)
    if source is None:
        names = ", ".join(sorted(servers)) or "none"
        raise UserError(
            f"The settings name no MCP server {name!r}.{nearest(name, servers)} Known: {names}. Name one in "
            f'settings.toml: [mcp.{name}] with command = "…" and args = […], or url = "https://…".'
        )
    server = source

    def _user(tool: Tool) -> Use:
        async def _use(arguments: Mapping[str, object]) -> ToolAnswer:
            return ToolAnswer(await use_tool(server, tool.name, arguments))

        return _use

    return [AgentTool(text, tool, source.actor, use=_user(tool), price=source.price) for tool in listed_tools(source)]


def passages_of(tool: AgentTool, answer: ToolAnswer) -> tuple[Passage, ...]:
    """Return a tool's answer as passages, for a strategy that calls no tools: its own passages, or its text as one."""
    if answer.passages or not answer.text.strip():
        return answer.passages
    identity = f"{tool.spec}/{text_digest(answer.text)[:12]}"
    passage = Passage(id=identity, document=identity, title=tool.tool.name, text=answer.text, corpus=tool.spec, rank=1)
    return (passage,)


def interleave(rankings: Sequence[Sequence[Passage]], k: int) -> tuple[Passage, ...]:
    """Return the first of each list, then the second of each, and so on: `k` of different ids, ranks from 1.

    Scores stay unchanged, since scores of different searches are not comparable.
    """
    by_id: dict[str, Passage] = {}
    for rank_index in range(max(map(len, rankings), default=0)):
        for passages in rankings:
            if rank_index < len(passages):
                by_id.setdefault(passages[rank_index].id, passages[rank_index])
    return tuple(replace(passage, rank=rank) for rank, passage in enumerate(list(by_id.values())[:k], 1))
