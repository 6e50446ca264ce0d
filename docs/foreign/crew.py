"""A crew of one that searches the notes (CrewAI)."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from plain_notes import ASKED, search_notes


def ask(question: str) -> str:
    """Run the crew on a question."""
    doctor = Agent(role="doctor", goal="answer", backstory=ASKED, tools=[tool(search_notes)], llm=LLM("gpt-4o-mini"))
    task = Task(description=question, expected_output="The letter of an option.", agent=doctor)
    return str(Crew(agents=[doctor], tasks=[task]).kickoff())
