"""gpt-researcher: a report on a question, from a search of its own kind (RETRIEVER)."""

from gpt_researcher import GPTResearcher


async def ask(question: str) -> str:
    """Search, then write."""
    role = "You search carefully, and end with the letter of one option."
    researcher = GPTResearcher(question, "research_report", agent="doctor", role=role, verbose=False)
    await researcher.conduct_research()
    return str(await researcher.write_report())
