"""An agno agent with a tool, whose library writes the present time into the system prompt."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from plain_notes import ASKED, search_notes


async def ask(question: str) -> str:
    """Ask an agent of this question's own."""
    model = OpenAIChat(id="gpt-4o-mini", temperature=0)
    agent = Agent(model=model, tools=[search_notes], instructions=ASKED, add_datetime_to_context=True, telemetry=False)
    return str((await agent.arun(question)).content)
