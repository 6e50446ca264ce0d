"""A ReAct agent of LangGraph's prebuilt ones: a chat model that calls a search tool until it can answer."""

import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from notes import WordRetriever

retriever = WordRetriever()


@tool
def search_notes(query: str) -> str:
    """Search short notes on clinical medicine."""
    return "\n\n".join(note.page_content for note in retriever.invoke(query))


graph = create_react_agent(
    ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), temperature=0, streaming=bool(os.environ.get("STREAM"))),
    [search_notes],
    prompt="Search the notes before you answer. End with the letter of the option that you choose.",
)
