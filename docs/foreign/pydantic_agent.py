"""A pydantic-ai agent over Anthropic's form, streamed, with an httpx2 client of its own."""

import httpx2
from plain_notes import ASKED, search_notes
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider


async def ask(question: str) -> str:
    """Stream an answer."""
    async with httpx2.AsyncClient() as client:
        model = AnthropicModel("claude-3-haiku-20240307", provider=AnthropicProvider(http_client=client))
        agent = Agent(model, instructions=ASKED, tools=[search_notes])
        async with agent.run_stream(question) as streamed:
            return str(await streamed.get_output())
