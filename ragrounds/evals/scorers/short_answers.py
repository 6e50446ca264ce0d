"""Scorers ``exact-match``, ``answer-within`` and ``word-f1``: a short answer against a reference, word by word.

They are the measures of the search agents' papers: Search-R1's reward (exact match, and whether the answer contains the
reference; verl/utils/reward_score/qa_em.py) and Search-o1's evaluation (these two and the F1 of words;
scripts/evaluate.py). Both normalise in the same way: lower case, no ASCII punctuation, no articles, plain spaces. If a
question lists one fact, its wordings are references too, and the best of them counts. The scorers measure wording: on
long answers they say little. :mod:`ragrounds.evals.scorers.short_answers_robust` has the same measures without the
faults of this normalisation.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable

from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.base.text import between_marks
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.base import ScorerRecord

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class ShortAnswer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer of a short answer by its words; it gives no value without a reference."""

    measure: Callable[[str, str], float]
    """Function from answer and reference, both normalised, to 0.0 to 1.0."""
    kinds: tuple[Kind, ...] = ("long",)
    beside: bool = False
    on_request: bool = True

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return the best value over all references; 0.0 for an attempt without text."""
        reading, expected = read_long(attempt), references(gold)
        if not expected:
            return self.scored(attempt, None, reading, reason="the question has no reference answer")
        tagged = last_answer(attempt.text)
        answer = normalised(attempt.text if tagged is None else tagged)
        value = max(self.measure(answer, normalised(reference)) for reference in expected) if answer else 0.0
        return self.scored(attempt, None if attempt.status == "not_run" else value, reading, answer[:200])


def references(gold: Gold) -> list[str]:
    """Return the reference answer and, if the question lists one fact, its wordings."""
    wordings = gold.facts[0] if len(gold.facts) == 1 else ()
    return [text for text in (gold.answer, *wordings) if text.strip()]


def normalised(text: str) -> str:
    """Return the text in lower case, without ASCII punctuation (words on both sides join) and articles, with plain
    spaces."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def last_answer(text: str, least: int = 1) -> str | None:
    """Return the text in the last answer tag, stripped; ``None`` if there are fewer than `least` tags.

    Search-R1 requires two tags, because its prompt, which is part of the text that it scores, contains one.
    """
    tagged = between_marks(text, "<answer>", "</answer>")
    return tagged[-1].strip() if len(tagged) >= least else None


def exact(answer: str, reference: str) -> float:
    """Return 1.0 if both are the same."""
    return float(answer == reference)


def within(answer: str, reference: str) -> float:
    """Return 1.0 if the answer contains the reference, also inside a word. Every answer contains an empty reference."""
    return float(reference in answer)


def word_f1(answer: str, reference: str) -> float:
    """Return F1 of the words of both, each as often as it occurs; 0.0 if they share none."""
    answer_words, reference_words = answer.split(), reference.split()
    shared = (Counter(answer_words) & Counter(reference_words)).total()
    return 2 * shared / (len(answer_words) + len(reference_words)) if shared else 0.0


EXACT_MATCH = ShortAnswer(
    name="exact-match",
    accuracy=True,
    summary="short answers: equal but for case, articles, punctuation",
    method="exact match of the raw reply with the reference answer, normalised as Search-R1 and Search-o1 do",
    measure=exact,
)
ANSWER_WITHIN = ShortAnswer(
    name="answer-within",
    shares=True,
    summary="short answers: the answer contains the reference",
    method="whether the raw reply contains the normalised reference (Search-R1's looser match, Search-o1's accuracy)",
    measure=within,
)
WORD_F1 = ShortAnswer(
    name="word-f1",
    summary="short answers: F1 of the words with the reference",
    method="the F1 of words of the raw reply with the reference answer, normalised as Search-o1 does",
    measure=word_f1,
)
