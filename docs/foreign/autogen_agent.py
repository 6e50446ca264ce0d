"""An AutoGen assistant with a tool, async."""

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from plain_notes import ASKED, search_notes


async def ask(question: str) -> str:
    """Ask an assistant of this question's own."""
    client = OpenAIChatCompletionClient(model="gpt-4o-mini", temperature=0)
    doctor = AssistantAgent("doctor", client, tools=[search_notes], system_message=ASKED, reflect_on_tool_use=True)
    done = await doctor.run(task=question)
    await client.close()
    return str(done.messages[-1].content)
