"""gpt-researcher: a report on a question, from a search of its own kind (RETRIEVER)."""

from gpt_researcher import GPTResearcher


async def ask(question: str) -> str:
    """Search, then write."""
    researcher = GPTResearcher(query=question, report_type="research_report", verbose=False)
    await researcher.conduct_research()
    return str(await researcher.write_report())
