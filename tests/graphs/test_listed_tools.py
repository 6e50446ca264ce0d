"""Agents that list their tools: a model that calls them, a strategy that asks all, a graph of one's own."""

import json
import sys

import pytest
from msgspec.structs import replace

from ragrounds.agents.agent import open_agent
from ragrounds.base.errors import UserError
from ragrounds.base.records import Called, Passage, Reply, ToolCall, Usage
from ragrounds.base.settings import McpServer
from ragrounds.tools.agent_tools import ToolSources, described, interleave, open_tools, tools_need_corpus
from ragrounds.tools.mcp_servers import McpSource
from tests.graphs.playing import ANSWER, LONG, Shelf, play

SERVER = '''
from mcp.server.fastmcp import FastMCP

server = FastMCP("doses")


@server.tool()
def dose(drug: str) -> str:
    """The usual dose of a drug."""
    return f"{drug}: 5 mg a day"


@server.tool()
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


server.run("stdio")
'''


class Elsewhere(Shelf):
    """A second searcher, of something else than the corpus."""

    def __init__(self):
        found = Passage(id="w1", document="w1", title="A page", text="Heparin first.", corpus="web@live", rank=1)
        super().__init__([found], spec="elsewhere", corpus="elsewhere@live")


def wish(name, said="", **arguments):
    call = ToolCall("x", name, json.dumps(arguments))
    return Reply(text=said, calls=(call,), finish="tool_calls", usage=Usage(input=1000, output=10))


def opened(listed, shelf, other=None, mcp=None):
    return open_tools(listed, ToolSources(lambda: shelf, lambda spec: other, mcp or {}))


@pytest.fixture
def doses(tmp_path):
    """A real MCP server over standard input and output."""
    pytest.importorskip("langchain_mcp_adapters", reason="needs ragrounds[mcp]")
    (tmp_path / "doses.py").write_text(SERVER)
    server = McpServer(command=sys.executable, args=(str(tmp_path / "doses.py"),))
    return McpSource("doses", server, tmp_path)


async def test_a_model_calls_each_tool_by_its_name():
    shelf, other = Shelf(), Elsewhere()
    tools = opened(("corpus", "read", "web[provider=searxng]"), shelf, other)
    assert [tool.tool.name for tool in tools] == ["search", "read", "search_web"]
    script = [
        wish("search", query="a"),
        wish("read", passage="p1"),
        wish("search_web", query="b"),
        "Heparin.",
        ANSWER,
    ]
    played = await play(
        "tool_agent[tools=[corpus,read,web[provider=searxng]],top_k=1]", script, shelf=shelf, tools=tools
    )
    assert played.attempt.text == ANSWER
    assert (shelf.queries, other.queries) == (["a"], ["b"])
    assert [call for call in played.calls if not call.startswith("model")] == [
        "search searching@search", "tool using@search", "search searching@search",
    ]  # fmt: skip
    assert "[p1] Title 1" in played.shown(1), "an id to read on by"
    assert json.loads(played.model.requests[2].messages[-1].content)[0]["id"] == "p1"
    assert "[w1] A page" in played.shown(3)
    assert len(played.model.requests[0].tools) == 3


async def test_uses_are_journaled_and_counted_against_the_limit():
    shelf = Shelf()
    tools = opened(("corpus", "read"), shelf)
    script = [wish("read", passage="p1"), wish("search", query="a"), "Heparin."] * 2
    agent = "tool_agent[search_limit=1,tools=[corpus,read]]"
    played = await play([agent, agent], script, LONG, shelf=shelf, tools=tools)
    calls = [event.call for event in played.attempt.events if isinstance(event, Called)]
    assert [call.cached for call in calls if call.kind == "tool"] == [True]
    assert played.notes == ["search_limit"]
    assert shelf.queries == []


@pytest.mark.parametrize("call", [wish("reed", passage="p1"), Reply(text="", calls=(ToolCall("x", "read", "["),))])
async def test_calls_of_no_tool_are_answered_with_the_names_of_all(call):
    shelf = Shelf()
    played = await play(
        "tool_agent[tools=[corpus,read]]",
        [call, "Heparin."],
        LONG,
        shelf=shelf,
        tools=opened(("corpus", "read"), shelf),
    )
    assert played.notes == ["malformed_call"]
    assert "search, read" in played.shown(1)


async def test_arguments_of_another_form_are_answered_with_the_form():
    shelf = Shelf()
    script = [wish("read", whole="yes", passage=3), wish("search", question="a"), "Heparin."]
    played = await play(
        "tool_agent[tools=[corpus,read]]", script, LONG, shelf=shelf, tools=opened(("corpus", "read"), shelf)
    )
    assert played.notes == ["malformed_call", "malformed_call"]
    assert 'a text, \\"passage\\"' in played.model.requests[1].messages[-1].content
    assert shelf.queries == []


async def test_crag_searches_its_corpus_first_and_elsewhere_with_the_last_tool():
    shelf, other = Shelf(), Elsewhere()
    tools = opened(("corpus", "read", "web[provider=searxng]"), shelf, other)
    script = ['{"scores": [-1, -1]}', "keywords", '{"scores": [1]}', ANSWER]
    played = await play("crag[tools=[corpus,read,web[provider=searxng]],top_k=2]", script, shelf=shelf, tools=tools)
    assert played.attempt.text == ANSWER
    assert (len(shelf.queries), other.queries) == (1, ["keywords"])
    assert "Heparin first." in played.shown(3)
    assert "Text of passage" not in played.shown(3)


async def test_rationale_query_takes_as_much_from_each_tool_that_searches():
    shelf, other = Shelf(), Elsewhere()
    tools = opened(("corpus", "read", "web[provider=searxng]"), shelf, other)
    agent = "rationale_query[tools=[corpus,read,web[provider=searxng]],top_k=2,filter=false]"
    played = await play(agent, ["Why.", ANSWER], shelf=shelf, tools=tools)
    assert (len(shelf.queries), other.queries) == (1, ["Why."])
    assert "Text of passage 1." in played.shown(1)
    assert "Heparin first." in played.shown(1)
    assert "Text of passage 2." not in played.shown(1)


async def test_a_strategy_without_calls_asks_all_and_takes_them_in_turn():
    shelf, other = Shelf(), Elsewhere()
    tools = opened(("corpus", "web[provider=searxng]"), shelf, other)
    played = await play("vanilla_rag[tools=[corpus,web[provider=searxng]],top_k=3]", [ANSWER], shelf=shelf, tools=tools)
    assert len(shelf.queries) == len(other.queries) == 1
    shown = played.shown(0)
    assert [shown.index(text) for text in ("Title 1", "A page", "Title 2")] == sorted(
        shown.index(text) for text in ("Title 1", "A page", "Title 2")
    )
    assert "Title 3" not in shown


async def test_read_gives_a_strategy_what_stands_around_a_passage():
    rows = [Passage(id=f"d_{n}", document="d", title="D", text=f"part {n}", corpus="shelf@1", rank=1) for n in range(3)]
    shelf = Shelf(rows)

    async def middle(query, k):
        return [rows[1]]

    shelf.search = middle
    played = await play(
        "vanilla_rag[tools=[corpus,read],top_k=1]", [ANSWER], shelf=shelf, tools=opened(("corpus", "read"), shelf)
    )
    assert "part 0\npart 1\npart 2" in played.shown(0)


async def test_an_mcp_server_s_tools_are_called_and_replayed_with_the_server_gone(doses):
    shelf = Shelf()
    tools = opened(("corpus", "mcp:doses"), shelf, mcp={"doses": doses})
    assert [tool.tool.name for tool in tools] == ["search", "add", "dose"]
    script = [wish("dose", drug="heparin"), wish("add", one="x", other=2), "5 mg."]
    agent = "tool_agent[tools=[corpus,mcp:doses]]"
    played = await play([agent, agent], script * 2, LONG, shelf=shelf, tools=tools)
    assert "heparin: 5 mg a day" in played.shown(1)
    assert "error" in played.model.requests[2].messages[-1].content, "the server's refusal is the answer"
    calls = [event.call for event in played.attempt.events if isinstance(event, Called) and event.call.kind == "tool"]
    assert [call.cached for call in calls] == [True, True]
    gone = replace_server(doses)
    assert [tool.tool for tool in opened(("mcp:doses",), shelf, mcp={"doses": gone})] == [one.tool for one in tools[1:]]


def replace_server(source):
    """The same server's kept list, with nothing that may be sent."""
    return McpSource(source.name, source.server, source.home, closed=True)


def test_a_replay_without_a_kept_list_says_so(tmp_path):
    source = McpSource("doses", McpServer(url="http://127.0.0.1:9/mcp"), tmp_path, closed=True)
    with pytest.raises(UserError, match="is unknown"):
        opened(("mcp:doses",), Shelf(), mcp={"doses": source})


def test_a_server_that_is_not_there_is_one_line(tmp_path):
    pytest.importorskip("langchain_mcp_adapters", reason="needs ragrounds[mcp]")
    source = McpSource("doses", McpServer(command="/nowhere/doses"), tmp_path)
    with pytest.raises(UserError, match=r"'doses' .* does not answer") as caught:
        opened(("mcp:doses",), Shelf(), mcp={"doses": source})
    assert "\n" not in str(caught.value)


def test_the_list_is_a_part_of_an_agent_s_text():
    agent = open_agent("tool_agent[ tools = [corpus, web[provider=tavily, pages=true], mcp:doses] ]")
    assert agent.spec == "tool_agent[tools=[corpus,web[pages=true,provider=tavily],mcp:doses]]"
    assert open_agent(agent.spec).card.tools == agent.card.tools
    assert open_agent("tool_agent[tools=corpus]").spec == open_agent("tool_agent[tools=[corpus]]").spec
    assert open_agent("tool_agent[tools=[]]").spec == "tool_agent"


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("[corpus,corpus]", "once is enough"),
        ("[corpsu]", "Did you mean 'corpus'"),
        ("[mcp:doses]", "no MCP server 'doses'"),
        ("[fetch[pauze=1]]", "Did you mean 'pause'"),
        ("[3]", "expected names"),
    ],
)
def test_what_is_no_tool_is_one_line(listed, said):
    with pytest.raises(UserError, match=said.replace("'", ".")):
        opened(open_agent(f"tool_agent[tools={listed}]").card.tools, Shelf())


def test_a_corpus_is_needed_where_a_tool_is_over_it():
    assert tools_need_corpus(())
    assert tools_need_corpus(("web[provider=x]", "read"))
    assert tools_need_corpus(("bm25",))
    assert not tools_need_corpus(("web[provider=tavily]", "fetch", "mcp:doses"))


def test_in_turn():
    def hits(*ids):
        return [Passage(id=id, document=id, title="", text="", corpus="c", rank=n) for n, id in enumerate(ids, 1)]

    assert [one.id for one in interleave([hits("a", "b"), hits("c"), hits("b", "d")], 9)] == ["a", "c", "b", "d"]
    assert [one.rank for one in interleave([hits("a", "b"), hits("c")], 2)] == [1, 2]
    assert interleave([], 3) == ()


def test_a_form_is_known_before_an_attempt_runs():
    assert described("search_pubmed").parameters["required"] == ["query"]
    assert replace(described("read"), description="").name == "read"
    with pytest.raises(UserError, match="not known before"):
        described("dose")


async def test_a_graph_of_one_s_own_has_the_tools_as_langchain_tools():
    shelf = Shelf()
    tools = opened(("corpus", "read"), shelf)
    script = [wish("search", query="a"), wish("read", passage="p1"), "Heparin."]
    agent = "tests/graphs/tool_graph.py:listed[tools=[corpus,read]]"
    played = await play(agent, script, LONG, shelf=shelf, tools=tools)
    assert played.attempt.text == "Heparin."
    assert [call.partition("@")[0] for call in played.calls] == [
        "model answering", "search searching", "model answering", "tool using", "model answering",
    ]  # fmt: skip
    assert [tool.name for tool in played.model.requests[0].tools] == ["search", "read"]


def test_read_needs_a_search_of_the_corpus(command):
    done = command("run", "--limit", "2", "--agent", "vanilla_rag[tools=[read]]")
    assert done.returncode != 0
    assert "list corpus as well" in done.stderr
