"""Agent ``look_once``: search once, answer from what was found."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.contracts import Context
from ragrounds.graphs.answer_prompts import answer_prompt
from ragrounds.graphs.documents import written
from ragrounds.graphs.user_graph import agent
from ragrounds.records import Query


class State(TypedDict, total=False):
    answer: str


async def look(state: State, runtime: Runtime[Context]) -> State:
    context = runtime.context
    found = await context.search(Query.of(context.stem), int(context.parameters["top_k"]))
    reply = await context.ask(answer_prompt(context, written(found)))
    return {"answer": reply.text}


@agent(summary="Search once, answer from what was found.", searches=True, parameters={"top_k": 2})
def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    return graph
