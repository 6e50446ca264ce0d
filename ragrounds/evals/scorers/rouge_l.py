"""Scorer ``rouge-l``: overlap of a long answer with a reference text. It is a secondary figure of wording, not truth.

ROUGE-L (Lin 2004) is the F1 of the longest common subsequence of words; in scripts without spaces every character is a
word.
"""

from __future__ import annotations

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.base.text import words
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.base import ScorerRecord

_LONGEST = 4_000
"""Largest number of words of a text that are compared; the time grows with the product of both lengths."""


class RougeL(ScorerRecord, frozen=True, kw_only=True):
    """Scorer of a long answer by its overlap with the reference; it gives no value without a reference."""

    name: str = "rouge-l"
    summary: str = "secondary: longest common subsequence, F1; not truth"
    method: str = "ROUGE-L against the reference answer, a secondary figure"
    kinds: tuple[Kind, ...] = ("long",)
    beside: bool = False
    truth: str = "equivalent"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return the overlap, 0.0 to 1.0. An attempt without text overlaps with nothing."""
        reading = read_long(attempt, question)
        if not gold.answer.strip():
            return self.scored(attempt, None, reading, reason="the question has no reference answer")
        return self.scored(
            attempt,
            None if attempt.status == "not_run" else rouge_l(answer_text(attempt, question), gold.answer),
            reading,
        )


def rouge_l(answer: str, reference: str) -> float:
    """Return ROUGE-L F1 of two texts, 0.0 if either has no words."""
    answer_words, reference_words = words(answer, _LONGEST), words(reference, _LONGEST)
    common = _longest_common(answer_words, reference_words)
    return 2 * common / (len(answer_words) + len(reference_words)) if common else 0.0


def _longest_common(first: list[str], second: list[str]) -> int:
    """Return the length of the longest common subsequence, by bit vectors (Hyyrö 2004): one large integer holds a
    row."""
    bits_by_word: dict[str, int] = {}
    for index, word in enumerate(first):
        bits_by_word[word] = bits_by_word.get(word, 0) | 1 << index
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        match = row & bits_by_word.get(word, 0)
        row = (row + match | row - match) & full
    return len(first) - row.bit_count()


ROUGE_L = RougeL()
