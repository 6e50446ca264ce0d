"""A DSPy module: notes are found, then a chain of thought answers from them."""

import dspy
from plain_notes import search_notes

dspy.configure(lm=dspy.LM("openai/gpt-4o-mini", temperature=0))


class Notes(dspy.Module):
    """Search, then answer."""

    def __init__(self) -> None:
        super().__init__()
        self.respond = dspy.ChainOfThought("context: list[str], question -> answer")

    def forward(self, question: str) -> dspy.Prediction:
        """Answer a question."""
        found = search_notes(question).split("\n\n")
        return dspy.Prediction(context=found, answer=self.respond(context=found, question=question).answer)


program = Notes()
