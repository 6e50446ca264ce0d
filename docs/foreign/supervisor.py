"""A supervisor that hands a question to one of two experts and gives the final answer."""

import os

from langchain.agents import create_agent
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph_supervisor import create_supervisor
from notes import WordRetriever

model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), streaming=bool(os.environ.get("STREAM")))
search = create_retriever_tool(WordRetriever(), "search_notes", "Search short notes on clinical medicine.")
librarian = create_agent(model, [search], system_prompt="You search the notes and report.", name="librarian")
clinician = create_agent(model, [], system_prompt="You weigh what was found.", name="clinician")
graph = create_supervisor(
    [librarian, clinician],
    model=model,
    prompt="Ask the librarian, then the clinician. End with the letter of the option that you choose.",
).compile()
