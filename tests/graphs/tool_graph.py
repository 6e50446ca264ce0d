"""A graph of one's own whose node hands the agent's tools to LangChain's agent."""

from langchain.agents import create_agent
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from ragrounds.base.contracts import Context
from ragrounds.graphs.langchain import ContextModel, tools
from ragrounds.graphs.user_graph import agent


class State(TypedDict, total=False):
    question: str
    answer: str


@agent(searches=True, question_only=False)
def listed():
    async def node(state):
        inner = create_agent(ContextModel(), tools())
        made = await inner.ainvoke({"messages": [("user", state["question"])]})
        return {"answer": made["messages"][-1].text}

    graph = StateGraph(State, context_schema=Context)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph
