"""A Strands agent with a tool, streamed."""

from plain_notes import ASKED, search_notes
from strands import Agent, tool
from strands.models.openai import OpenAIModel


async def ask(question: str) -> str:
    """Ask an agent of this question's own."""
    agent = Agent(OpenAIModel(model_id="gpt-4o-mini"), tools=[tool(search_notes)], system_prompt=ASKED)
    agent.callback_handler = lambda **_: None
    return str(await agent.invoke_async(question))
