"""Scorer ``rouge-l``: a long answer against a reference text. A secondary figure: it measures wording, not truth.

ROUGE-L (Lin 2004) is the F1 of the longest common subsequence of words; in scripts without spaces every character is
a word.
"""

from __future__ import annotations

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.base.text import words
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.base import ScorerRecord

_LONGEST = 4_000
"""Words of a text that are compared; the time grows with the product of both lengths."""


class RougeL(ScorerRecord, frozen=True, kw_only=True):
    """Scores a long answer by its overlap with the reference; no value where there is no reference."""

    name: str = "rouge-l"
    summary: str = "secondary: longest common subsequence of words, F1; wording, not truth"
    method: str = "ROUGE-L against the reference answer, a secondary figure"
    kinds: tuple[Kind, ...] = ("long",)
    beside: bool = False
    truth: str = "equivalent"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """0.0 to 1.0; an attempt without text overlaps with nothing."""
        read = read_long(attempt)
        if not gold.answer.strip():
            return self.scored(attempt, None, read, reason="the question has no reference answer")
        return self.scored(attempt, None if attempt.status == "not_run" else rouge_l(attempt.text, gold.answer), read)


def rouge_l(answer: str, reference: str) -> float:
    """ROUGE-L F1 of two texts, 0.0 where either has no words."""
    given, wanted = words(answer)[:_LONGEST], words(reference)[:_LONGEST]
    common = _longest_common(given, wanted)
    return 2 * common / (len(given) + len(wanted)) if common else 0.0


def _longest_common(one: list[str], other: list[str]) -> int:
    """Length of the longest common subsequence, by bit vectors (Hyyrö 2004): one big integer holds a row."""
    places: dict[str, int] = {}
    for index, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << index
    full = (1 << len(one)) - 1
    row = full
    for word in other:
        match = row & places.get(word, 0)
        row = (row + match | row - match) & full
    return len(one) - row.bit_count()


ROUGE_L = RougeL()
