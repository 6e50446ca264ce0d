"""The agent that is measured: three nodes, of which one asks the model. Its state holds the documents' numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.base.contracts import Context
from ragrounds.graphs.answer_prompts import PROMPTS as PROMPTS
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.user_graph import agent

sys.path.insert(0, str(Path(__file__).resolve().parent))

from questions import documents, written


class State(TypedDict, total=False):
    question: str
    chosen: list[int]
    reply: str
    answer: str


@agent(summary="Three nodes, one call.", input={"question": "question"}, output="answer", nests=False)
def build() -> StateGraph[State, Context, State, State]:
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("prepare", prepare)
    graph.add_node("ask", ask)
    graph.add_node("settle", settle)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "ask")
    graph.add_edge("ask", "settle")
    graph.add_edge("settle", END)
    return graph


async def prepare(state: State, runtime: Runtime[Context]) -> State:
    return {"chosen": documents(runtime.context.stem.text)}


async def ask(state: State, runtime: Runtime[Context]) -> State:
    reply = await runtime.context.ask(answer_prompt(runtime.context, written(state["chosen"])))
    return {"reply": reply.text}


async def settle(state: State, runtime: Runtime[Context]) -> State:
    return {"answer": state["reply"]}
