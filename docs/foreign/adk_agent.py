"""An agent of Google's ADK over Gemini, in a session whose id the runner draws."""

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai import types
from plain_notes import ASKED, search_notes


async def ask(question: str) -> str:
    """Ask an agent of this question's own."""
    agent = LlmAgent(name="doctor", model="gemini-2.0-flash", instruction=ASKED, tools=[search_notes])
    runner = InMemoryRunner(agent, app_name="notes")
    session = await runner.session_service.create_session(app_name="notes", user_id="reader")
    message = types.Content(role="user", parts=[types.Part(text=question)])
    last = ""
    async for event in runner.run_async(user_id="reader", session_id=session.id, new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            last = event.content.parts[0].text or ""
    return last
