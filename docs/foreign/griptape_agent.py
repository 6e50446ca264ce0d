"""A griptape agent without tools, in a function that is not async."""

from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent


def ask(question: str) -> str:
    """Ask an agent of this question's own."""
    driver = OpenAiChatPromptDriver(model="gpt-4o-mini", temperature=0)
    return str(Agent(prompt_driver=driver).run(question).output.value)
