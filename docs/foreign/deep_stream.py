"""A deep agent over Anthropic's form, streamed; its tool is a plain function."""

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic
from plain_notes import ASKED, search_notes

graph = create_deep_agent(
    model=ChatAnthropic(model="claude-sonnet-4-5-20250929", streaming=True), tools=[search_notes], system_prompt=ASKED
)
