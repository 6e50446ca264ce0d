"""A deep agent: it plans, keeps files, and may hand parts of the work to a sub-agent that searches."""

import os

from deepagents import create_deep_agent
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from notes import WordRetriever

search = create_retriever_tool(WordRetriever(), "search_notes", "Search short notes on clinical medicine.")
reader = {
    "name": "reader",
    "description": "Reads the notes on one narrow question and reports what they say.",
    "system_prompt": "Search the notes, then report what you found in two sentences.",
    "tools": [search],
}
graph = create_deep_agent(
    model=ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), streaming=bool(os.environ.get("STREAM"))),
    tools=[search],
    subagents=[reader],
    system_prompt="Send a reader to the notes first. End with the letter of the option that you choose.",
)
