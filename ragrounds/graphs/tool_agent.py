"""`tool_agent`: a plain tool-calling loop over the search tool (ReAct: Yao et al., 2023), as it is built today.

The model asks for the tool by the provider's own tool calls; results come back as the tool's turns; a turn without a
call ends the loop. `search_limit` and `turns` are the strategy's own: over the first a notice takes the place of the
result, after the second the answer is asked for without tools.

With ``tools=[corpus,read,web[provider=…],fetch,pubmed,mcp:NAME]`` the model has these tools in place of the one search
(:mod:`ragrounds.tools.agent_tools`); each use counts against `search_limit`.

`think` writes queries, so it sees the question's stem alone. `answer`, the only node that sees the options, continues
the same conversation and asks for one of them; a long question's answer is the last turn's text.
"""

from __future__ import annotations

import json
import operator
from typing import Annotated

from typing_extensions import TypedDict

from ragrounds.base.contracts import Context, Tool
from ragrounds.base.records import Message, ToolCall
from ragrounds.graphs.answer_prompts import PROMPTS as ANSWERING
from ragrounds.graphs.answer_prompts import answer_prompt, choose_prompt
from ragrounds.graphs.continuation import asked_within
from ragrounds.graphs.documents import beginnings, render_documents
from ragrounds.graphs.model_text import written_query
from ragrounds.graphs.state import Graph, Runtime, graph_of, int_parameter
from ragrounds.graphs.state import State as Shared

PROMPTS = (
    *ANSWERING,
    "choice/choose",
    "tool_agent/think",
    "tool_agent/answer_now",
    "tool_agent/no_more_searches",
    "tool_agent/not_understood",
)
TOOL_PROMPTS = ("tool_agent/think_with_tools", "tool_agent/not_understood_tools")
"""Prompts that are rendered only if the agent lists tools."""
SEARCH = Tool.taking(
    "query",
    "What to search for, in a few words.",
    name="search",
    description="Search the corpus for passages about a query.",
)


class Wish(TypedDict):
    """A call that the model requested. Ids are numbered here, so that a repeated run sends the same messages."""

    id: str
    name: str
    arguments: str


class Turn(TypedDict, total=False):
    """Text and calls of the model, or the result of one call: passages or a notice."""

    text: str
    wishes: list[Wish]
    answers: str
    passages: list[str]
    notice: str


class State(Shared, total=False):
    conversation: Annotated[list[Turn], operator.add]
    turns: int
    searches: int
    full: bool


def build() -> Graph:
    """Build the graph START → think ⇄ search, think → answer → END."""
    nodes = {"think": think, "search": search, "answer": answer}

    def after_turn(state: State, runtime: Runtime[Context]) -> str:
        """Return the next node: the calls that the turn requested, or the answer."""
        if state.get("full") or not state["conversation"][-1].get("wishes"):
            return "answer"
        return "answer" if state["turns"] >= int_parameter(runtime.context, "turns", 10) else "search"

    return graph_of(State, nodes, {"think": (after_turn, ["search", "answer"]), "search": "think"})


async def think(state: State, runtime: Runtime[Context]) -> State:
    """Ask the model for its next turn, with the search tool available."""
    context, turn = runtime.context, state.get("turns", 0) + 1
    messages = _messages(context, state)
    reply = await asked_within(context, messages, turn, tools=context.tools or (SEARCH,))
    if reply is None:
        return {"turns": turn, "full": True}
    wishes: list[Wish] = [
        {"id": f"call_{turn}_{number}", "name": call.name, "arguments": call.arguments}
        for number, call in enumerate(reply.calls, 1)
    ]
    if wishes and turn >= int_parameter(context, "turns", 10):
        context.note("turn_limit", f"turn {turn} was the last and asked for another search")
    return {"conversation": [{"text": reply.text, "wishes": wishes}], "turns": turn}


async def search(state: State, runtime: Runtime[Context]) -> State:
    """Carry out the calls that the last turn requested, up to the limit."""
    context, done = runtime.context, state.get("searches", 0)
    language, limit = context.stem.language, int_parameter(context, "search_limit", 10, least=0)
    turns: list[Turn] = []
    for wish in state["conversation"][-1]["wishes"]:
        arguments = _parsed_arguments(context, wish)
        if arguments is None:
            context.note("malformed_call", f"{wish['name']}({wish['arguments']})"[:200])
            if names := ", ".join(tool.name for tool in context.tools):
                notice = context.prompts.text("tool_agent/not_understood_tools", language, tools=names)
            else:
                notice = context.prompts.text("tool_agent/not_understood", language)
            turns.append({"answers": wish["id"], "notice": notice})
        elif done >= limit:
            unit, request = "searches", str(arguments.get("query"))[:200]
            if context.tools:
                unit, request = "uses of tools", f"{wish['name']} {wish['arguments'][:200]}"
            context.note("search_limit", f"all {done} {unit} were used: {request}")
            notice = context.prompts.text("tool_agent/no_more_searches", language)
            turns.append({"answers": wish["id"], "notice": notice})
        else:
            turns.append(await _carry_out(context, wish, arguments))
            done += 1
    return {"conversation": turns, "searches": done}


def _parsed_arguments(context: Context, wish: Wish) -> dict[str, object] | None:
    """Return the arguments of a call to its tool; ``None`` if there is no such tool, or the arguments are invalid."""
    try:
        arguments = json.loads(wish["arguments"], strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict) or wish["name"] not in [tool.name for tool in context.tools or (SEARCH,)]:
        return None
    query = arguments.get("query")
    return arguments if context.tools or (isinstance(query, str) and query.strip()) else None


async def _carry_out(context: Context, wish: Wish, arguments: dict[str, object]) -> Turn:
    """Carry out a call."""
    query, k = arguments.get("query"), int_parameter(context, "top_k", 5)
    if isinstance(query, str):
        search_query = written_query(context, query)
        if not context.tools:
            passages = await context.search(search_query, k)
            return {"answers": wish["id"], "passages": [passage.id for passage in passages]}
        arguments = {**arguments, "query": search_query.text}
    tool_answer = await context.use(wish["name"], arguments, k=k)
    if tool_answer.text:
        return {"answers": wish["id"], "notice": tool_answer.text}
    return {"answers": wish["id"], "passages": [passage.id for passage in tool_answer.passages]}


async def answer(state: State, runtime: Runtime[Context]) -> State:
    """Ask for an option at the end of the conversation. A long answer is the last turn's text."""
    context = runtime.context
    last = state["conversation"][-1] if state.get("conversation") else Turn()
    answered_state = {**state, "conversation": state.get("conversation", [])[:-1]} if last.get("wishes") else state
    messages = _messages(context, answered_state)
    if context.question.options:
        messages = (*messages, *choose_prompt(context))
    elif last.get("text", "").strip() and not last.get("wishes"):
        return {"answer": last["text"]}
    else:
        context.note("no_answer", "the loop ended without an answer; it is asked for without tools")
        messages = (*messages, *context.prompts.render("tool_agent/answer_now", context.stem.language))
    if state.get("full") or context.room(messages) == 0:
        context.note("conversation_left_out", "the conversation does not fit the window; the answer is given directly")
        messages = answer_prompt(context)
    return {"answer": (await context.ask(messages)).text}


def _messages(context: Context, state: State) -> tuple[Message, ...]:
    """Return the conversation so far as messages."""
    prompt = "tool_agent/think_with_tools" if context.tools else "tool_agent/think"
    messages = list(context.prompts.render(prompt, context.stem.language, question=context.stem.text))
    for turn in state.get("conversation", []):
        if "answers" in turn:
            messages.append(Message("tool", _result(context, turn), answers=turn["answers"]))
        else:
            calls = tuple(ToolCall(wish["id"], wish["name"], wish["arguments"]) for wish in turn["wishes"])
            messages.append(Message("assistant", turn["text"] or ("" if calls else "…"), calls=calls))
    return tuple(messages)


def _result(context: Context, turn: Turn) -> str:
    """Return the result of a call as text for the model."""
    if "passages" not in turn:
        return turn["notice"]
    passages = [context.passage(id) for id in turn["passages"]]
    excerpts = beginnings(passages, int_parameter(context, "document_characters", 3000, least=0))
    if not context.tools:
        return render_documents(excerpts)
    # With the ids, or addresses, by which `read` and `fetch` can request more of them.
    rows = [f"[{passage.id}]{f' {passage.title}' if passage.title else ''}\n{passage.text}" for passage in excerpts]
    return "\n\n".join(rows) or "(none found)"
