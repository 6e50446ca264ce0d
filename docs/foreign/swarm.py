"""Two agents that hand a question to each other, kept apart by threads of a checkpointer."""

import os

from langchain.agents import create_agent
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_swarm import create_handoff_tool, create_swarm
from notes import WordRetriever

model = ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini"), streaming=bool(os.environ.get("STREAM")))
search = create_retriever_tool(WordRetriever(), "search_notes", "Search short notes on clinical medicine.")
to_clinician = create_handoff_tool(agent_name="clinician", description="Hand over to the clinician, who answers.")
to_librarian = create_handoff_tool(agent_name="librarian", description="Hand over to the librarian, who searches.")
librarian = create_agent(model, [search, to_clinician], system_prompt="Search, then hand over.", name="librarian")
clinician = create_agent(
    model, [to_librarian], system_prompt="Answer; end with the letter of the option that you choose.", name="clinician"
)
graph = create_swarm([librarian, clinician], default_active_agent="librarian").compile(checkpointer=InMemorySaver())
