"""A mirascope call that uses a tool until it has its answer."""

from mirascope import llm
from plain_notes import ASKED
from plain_notes import search_notes as search


@llm.tool
async def search_notes(query: str) -> str:
    """Search short notes on clinical medicine."""
    return search(query)


@llm.call("openai/gpt-4o-mini:completions", tools=[search_notes])
async def answer(question: str) -> str:
    """Write the prompt."""
    return f"{ASKED}\n\n{question}"


async def ask(question: str) -> str:
    """Answer, with as many searches as the model wants."""
    reply = await answer(question)
    while reply.tool_calls:
        reply = await reply.resume(await reply.execute_tools())
    return reply.text()
