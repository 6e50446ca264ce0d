"""LangChain's `create_agent`: the same idea as a ReAct agent, with middleware where one wants it."""

import os

from langchain.agents import create_agent
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from notes import WordRetriever

search = create_retriever_tool(WordRetriever(), "search_notes", "Search short notes on clinical medicine.")
graph = create_agent(
    ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), streaming=bool(os.environ.get("STREAM"))),
    [search],
    system_prompt="Search the notes before you answer. End with the letter of the option that you choose.",
)
