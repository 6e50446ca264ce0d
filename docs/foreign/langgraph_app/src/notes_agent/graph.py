"""The graph of the app, as a langgraph.json names it: its own package, a context, a function that builds it."""

import os
from typing import Annotated, TypedDict

from langchain_core.messages import AnyMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.runtime import Runtime

from notes_agent.tools import search_notes


class Context(TypedDict, total=False):
    """What a caller may choose."""

    model: str


class State(TypedDict):
    """The conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


async def call_model(state: State, runtime: Runtime[Context]) -> dict:
    """Ask the model, with the tool at hand."""
    chosen = (runtime.context or {}).get("model") or os.environ.get("MODEL", "gpt-4o-mini")
    model = ChatOpenAI(model=chosen, streaming=bool(os.environ.get("STREAM"))).bind_tools([search_notes])
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(State, context_schema=Context)
builder.add_node("call_model", call_model)
builder.add_node("tools", ToolNode([search_notes]))
builder.add_edge(START, "call_model")
builder.add_conditional_edges("call_model", tools_condition)
builder.add_edge("tools", "call_model")
graph = builder.compile(name="notes")
