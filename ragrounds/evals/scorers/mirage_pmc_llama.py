"""Scorer ``mirage-pmc-llama``: the patterns published with MIRAGE for PMC-LLaMA, which completes a text and writes no
JSON.

A text that they do not match counts as "A".
"""

from __future__ import annotations

from ragrounds.base.records import Question
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.choice import ChoiceScorer
from ragrounds.evals.scorers.mirage import matched, stated

_MARK = "Answer:"
_TEMPLATES = (r"[Oo]ption (X)", r"OPTION (X)", r'^\s*(X)"', r"^\s*(X):")
"""Patterns in the order of trial; X is a placeholder for any option letter."""


def completion(text: str) -> str:
    """Return the text after the last "Answer:" of a completion; the whole text without one.

    As in the published evaluation, a text that states its choice as JSON is first reduced to that choice.
    """
    return stated(text).rpartition(_MARK)[2]


def read_completion(text: str, question: Question) -> AnswerRead:
    """Read the letter by the patterns for PMC-LLaMA. A text that they do not match has its status by its wording."""
    return matched(completion(text), _TEMPLATES, text, question)


MIRAGE_PMC_LLAMA = ChoiceScorer(
    name="mirage-pmc-llama",
    accuracy=True,
    summary="MIRAGE's patterns for PMC-LLaMA: unreadable counts as A",
    method="the patterns that MIRAGE published for PMC-LLaMA, on the raw reply (an answer that cannot be read counts "
    "as option A)",
    read=read_completion,
    otherwise="A",
    on_request=True,
    beside=False,
)
