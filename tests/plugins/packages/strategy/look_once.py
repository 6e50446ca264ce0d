"""Agent ``look_once``: search once, answer from what was found."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from ragrounds.extend import Context, Query, agent, answer_prompt, format_passages


class State(TypedDict, total=False):
    answer: str


async def look(state: State, runtime: Runtime[Context]) -> State:
    context = runtime.context
    found = await context.search(Query.from_stem(context.stem), int(context.parameters["top_k"]))
    reply = await context.ask(answer_prompt(context, format_passages(found)))
    return {"answer": reply.text}


@agent(summary="Search once, answer from what was found.", searches=True, parameters={"top_k": 2})
def build():
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    graph.add_edge("look", END)
    return graph
