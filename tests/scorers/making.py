"""Small records for the tests of scorers."""

from ragrounds.base.records import Attempt, Gold, Question

FOUR = {"A": "Rickets", "B": "Scurvy", "C": "Vitamin A deficiency", "D": "None of the above"}


def question(options=None, **more):
    made = {"id": "x/1", "benchmark": "x", "text": "Which?", "options": FOUR if options is None else options}
    return Question(**{**made, **more})


def attempt(text, status="completed", **more):
    return Attempt(run="r", question_id="x/1", epoch=0, status=status, text=text, **more)


def gold(answer="A", **more):
    return Gold(question_id="x/1", answer=answer, **more)


SHIPPED = (
    "mirage", "strict", "robust", "mirage-pmc-llama", "facts", "rouge-l", "triplets",
    "equivalent", "comprehensiveness", "contradiction", "hallucination-rate",
)  # fmt: skip
"""Scorers that tests of order name; one that somebody adds stands beside them and turns none of these tests red."""


def shipped(names):
    """Those of some names that are shipped, or ragas', in their order."""
    return tuple(name for name in names if name.partition("[")[0] in SHIPPED or name.startswith("ragas_"))
