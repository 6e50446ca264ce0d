"""Two agents of smolagents: one that calls tools (an object of the module, shared by all questions), one that codes."""

import os

from plain_notes import search_notes
from smolagents import CodeAgent, LiteLLMModel, OpenAIServerModel, ToolCallingAgent, tool

model = OpenAIServerModel("gpt-4o-mini", os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"])
shared = ToolCallingAgent([tool(search_notes)], model, max_steps=3, verbosity_level=0)


def ask(question: str) -> str:
    """Ask the agent that all questions share."""
    return str(shared.run(question))


def code(question: str) -> str:
    """Ask an agent that writes code, made for this question."""
    llm = LiteLLMModel("openai/gpt-4o-mini", os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"])
    return str(CodeAgent([], llm, max_steps=1, verbosity_level=0).run(question))
