"""OpenAI's Agents SDK, streamed, over the responses form."""

from agents import Agent, Runner, function_tool, set_tracing_disabled
from plain_notes import ASKED, search_notes

set_tracing_disabled(True)
doctor = Agent(name="doctor", instructions=ASKED, model="gpt-4o-mini", tools=[function_tool(search_notes)])


async def ask(question: str) -> str:
    """Stream a run, and give its last word."""
    run = Runner.run_streamed(doctor, question)
    async for _ in run.stream_events():
        pass
    return str(run.final_output)
