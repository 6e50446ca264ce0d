"""Graphs on the attempt's own model, as somebody who knows LangChain writes them: agents for the tests beside this."""

from __future__ import annotations

import asyncio
import contextvars
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Literal, TypedDict

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AnyMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import create_react_agent
from langgraph.types import Send
from pydantic import BaseModel, Field

from ragrounds.base.contracts import Context
from ragrounds.graphs.langchain import ContextModel, search
from ragrounds.graphs.user_graph import agent

STEM = {"messages": "stem"}


class Verdict(BaseModel):
    """The option that is right, and why."""

    letter: Literal["A", "B", "C"]
    why: str = Field(description="One sentence.")


class State(TypedDict, total=False):
    question: str
    answer: str


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    answer: str


def one_node(node, state=State):
    graph = StateGraph(state, context_schema=Context)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph


def sync_invoke():
    """A plain function as a node, and a prompt in front of the model."""

    def node(state):
        chain = ChatPromptTemplate([("system", "Be brief."), ("user", "{question}")]) | ContextModel(
            temperature=0.25, seed=7, max_tokens=50, stop=["###"], logprobs=True, top_logprobs=2
        )
        reply = chain.invoke({"question": state["question"]})
        tokens = reply.response_metadata.get("logprobs", {"content": []})["content"]
        return {"answer": f"{reply.text}|{tokens}"}

    return one_node(node)


def sync_batch():
    def node(state):
        replies = ContextModel().batch([f"{state['question']} {number}" for number in range(12)])
        return {"answer": " ".join(reply.text for reply in replies)}

    return one_node(node)


def async_batch():
    async def node(state):
        replies = await ContextModel().abatch([f"{state['question']} {number}" for number in range(12)])
        return {"answer": " ".join(reply.text for reply in replies)}

    return one_node(node)


def invoke_on_the_loop():
    async def node(state):
        return {"answer": ContextModel().invoke(state["question"]).text}

    return one_node(node)


def batch_on_the_loop():
    async def node(state):
        return {"answer": str(ContextModel().bind(seed=1).batch([state["question"]] * 3))}

    return one_node(node)


def unknown_argument():
    async def node(state):
        return {"answer": (await ContextModel().bind(top_p=0.9).ainvoke(state["question"])).text}

    return one_node(node)


def wrong_choice():
    async def node(state):
        return {"answer": (await ContextModel().bind_tools([search], tool_choice="serch").ainvoke("x")).text}

    return one_node(node)


@agent(searches=True, question_only=False, input={"question": "question"})
def sync_search():
    """Many nodes at the same time, each of which waits in its own thread for a search, which runs in a thread too."""

    def one(state):
        time.sleep(0.01)
        return {"messages": [("user", search.invoke({"query": state["question"]}))]}

    def gather(state):
        return {"answer": str(len(state["messages"]))}

    class Many(Chat, total=False):
        question: str

    graph = StateGraph(Many, context_schema=Context)
    graph.add_node("one", one)
    graph.add_node("gather", gather)
    graph.add_conditional_edges(START, lambda state: [Send("one", {"question": f"q{i}"}) for i in range(12)], ["one"])
    graph.add_edge("one", "gather")
    graph.add_edge("gather", END)
    return graph


def never_ending():
    """A plain function that asks again and again, whatever becomes of it."""

    def node(state):
        for number in range(1000):
            ContextModel().invoke(f"{state['question']} {number}")
        return {"answer": "never"}

    return one_node(node)


@agent(searches=True, question_only=False, input={"question": "question"})
def own_loop():
    """A plain function that begins an event loop of its own, as code from elsewhere does."""

    async def both(question):
        found, reply = await asyncio.gather(search.ainvoke({"query": question}), ContextModel().ainvoke(question))
        return f"{found[:13]}|{reply.text}"

    def node(state):
        return {"answer": f"{asyncio.run(both(state['question']))}|{asyncio.run(both('Again?'))}"}

    return one_node(node)


def own_thread():
    def node(state):
        with ThreadPoolExecutor(1) as pool:
            # In no context: where an attempt was cut off before in this process, threads have that of who starts them.
            asked = contextvars.Context().run(pool.submit, ContextModel().invoke, state["question"])
            return {"answer": asked.result().text}

    return one_node(node)


def by_function_calling():
    model = ContextModel(temperature=0.0).with_structured_output(Verdict, include_raw=True)
    return one_node(lambda state: {"answer": model.invoke(state["question"])["parsed"].letter})


def by_typed_dict():
    class Choice(TypedDict):
        """What is right."""

        letter: str

    async def node(state):
        found = await ContextModel().with_structured_output(Choice).ainvoke(state["question"])
        return {"answer": found["letter"]}

    return one_node(node)


@tool
def second_opinion(question: str) -> str:
    """Ask a colleague."""
    return ContextModel(role="reading").invoke(f"Colleague: {question}").text


@agent(searches=True, question_only=False, input={"messages": "messages"}, output="messages")
def react():
    return create_react_agent(
        ContextModel(), [search, second_opinion], context_schema=Context, response_format=Verdict, prompt="Search."
    )


@agent(searches=True, question_only=False, input={"messages": "messages"}, output="structured_response")
def tool_strategy():
    return create_agent(
        ContextModel(), [search], context_schema=Context, response_format=ToolStrategy(Verdict), system_prompt="Search."
    )


@agent(searches=True, question_only=False, input={"messages": "messages"}, output="structured_response")
def provider_strategy():
    return create_agent(
        ContextModel(), [search], context_schema=Context, response_format=ProviderStrategy(Verdict, strict=True)
    )
