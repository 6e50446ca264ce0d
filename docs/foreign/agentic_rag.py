"""Agentic RAG by LangGraph's recipe: the model decides whether to search, what was found is graded, a question that
found nothing of use is written anew."""

import os
from typing import Literal

from langchain_core.messages import HumanMessage
from langchain_core.tools import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from notes import documents
from pydantic import BaseModel, Field

model = ChatOpenAI(
    model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0, streaming=bool(os.environ.get("STREAM"))
)
embeddings = OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False)
store = InMemoryVectorStore.from_documents(documents(), embeddings)
search = create_retriever_tool(store.as_retriever(search_kwargs={"k": 3}), "search_notes", "Search clinical notes.")


class Grade(BaseModel):
    """Whether a passage helps to answer a question."""

    relevant: Literal["yes", "no"] = Field(description="'yes' where the passage helps, else 'no'")


def decide(state: MessagesState) -> dict:
    """Search, or answer at once."""
    return {"messages": [model.bind_tools([search]).invoke(state["messages"])]}


def grade(state: MessagesState) -> Literal["answer", "rewrite"]:
    """Go on to the answer where what was found is of use."""
    asked, found = state["messages"][0].content, state["messages"][-1].content
    prompt = f"Does this passage help with the question?\n\nQuestion: {asked}\n\nPassage: {found}"
    verdict = model.with_structured_output(Grade).invoke(prompt)
    return "answer" if verdict.relevant == "yes" or len(state["messages"]) > 5 else "rewrite"


def rewrite(state: MessagesState) -> dict:
    """Ask the question in other words."""
    asked = state["messages"][0].content
    reply = model.invoke(f"Write this question anew, so that a search finds more:\n{asked}")
    return {"messages": [HumanMessage(reply.content)]}


def answer(state: MessagesState) -> dict:
    """Answer from what was found."""
    asked, found = state["messages"][0].content, state["messages"][-1].content
    return {"messages": [model.invoke(f"Answer with a letter.\n\nQuestion: {asked}\n\nNotes: {found}")]}


builder = StateGraph(MessagesState)
builder.add_node("decide", decide)
builder.add_node("retrieve", ToolNode([search]))
builder.add_node("rewrite", rewrite)
builder.add_node("answer", answer)
builder.add_edge(START, "decide")
builder.add_conditional_edges("decide", tools_condition, {"tools": "retrieve", END: END})
builder.add_conditional_edges("retrieve", grade)
builder.add_edge("rewrite", "decide")
builder.add_edge("answer", END)
graph = builder.compile()
