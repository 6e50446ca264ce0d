"""Scorers ``robust-match`` and ``robust-f1``: a short answer against a reference, as a careful reader compares them.

They are to ``exact-match`` and ``word-f1`` what ``robust`` is to ``mirage``. Numbers are equal by value and unit
(:mod:`ragrounds.base.quantities`): 1.5 mg is 1500 mcg and not 15 mg. Signs of words count (HER2+, HER2-), and so does a
letter that is a name (hepatitis A). Case, typography, punctuation and articles do not. Words are those of the script:
Chinese and Japanese are compared by characters.
"""

from __future__ import annotations

import re

from ragrounds.base.quantities import CLOSE, OPEN, decimal_mark, mark_quantities, quantity_pattern
from ragrounds.base.records import Attempt, Gold, Question, Score
from ragrounds.base.text import words
from ragrounds.evals.scorers.answer_status import answer_text, read_long
from ragrounds.evals.scorers.option_marks import plain
from ragrounds.evals.scorers.short_answers import ShortAnswer, last_answer, references, word_f1

_LONGEST = 20_000
"""Number of characters of an answer that are read: a longer one is no short answer."""
_LEAD = re.compile(
    r"^\W*(?:(?:the |my )?(?:final |short |correct )?answer(?: is\b:?|:| -)|(?:正确|最终)?答案(?:是|为)?[:：]?)\s*",
    re.I,
)
_MARKED = re.compile(
    r"\\boxed\s?\{((?:[^{}]|\{[^{}]{0,200}\}){1,300})\}|[\"'](?:final_)?answer[\"']\s?:\s?\"((?:[^\"\\]|\\.){1,2000})\"",
    re.I,
)
"""Box, or field of a JSON object, that states the answer."""
_ARTICLE = re.compile(r"(?<![\w-])(?:the|an?|The|An|A(?=\s[a-z]))\s+(?=\w)")
_SIGN = re.compile(r"(?<=[^\W_])\s?(?:\((?:\+|[-\u2212\u2013])\)|\+|(?<!\s)[-\u2212\u2013])(?!\w)")
_GREEK = dict(zip(map(ord, "αβγδεκλω"), "alpha beta gamma delta epsilon kappa lambda omega".split(), strict=True))
_WRITTEN = re.compile(rf"{OPEN}([<>\u2264\u2265]?)[^|]*\|")
_TOKENS = re.compile(rf"{OPEN}[^{CLOSE}]*{CLOSE}|\S+")


class RobustShortAnswer(ShortAnswer, frozen=True, kw_only=True):
    """Scorer of a short answer by its words and numbers; `measure` gets both as :func:`tokens`."""

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return the best value over all references; 0.0 for an attempt without text."""
        reading, expected = read_long(attempt, question), references(gold)
        if not expected:
            return self.scored(attempt, None, reading, reason="the question has no reference answer")
        text = answer_text(attempt, question)
        tagged, marked = last_answer(text), _MARKED.findall(text[-_LONGEST:])
        stated = tagged if tagged is not None else "".join(marked[-1]) if marked else text
        stated = _LEAD.sub("", stated)[:_LONGEST]
        mark = decimal_mark("\n".join((question.text, *expected)))
        answer = tokens(stated, mark)
        value = max(self.measure(answer, tokens(reference, mark)) for reference in expected) if answer else 0.0
        prediction = " ".join(stated.split())[:200]
        return self.scored(attempt, None if attempt.status == "not_run" else value, reading, prediction)


def tokens(text: str, mark: str = "") -> str:
    """Return a text's words and quantities, with single blanks between them.

    `mark` is the decimal mark if the text does not show its own.
    """
    parts = list[str]()
    marked = mark_quantities(text, decimal_mark(text) or mark)
    for part in re.split(f"({OPEN}[^{CLOSE}]*{CLOSE})", marked):
        if part.startswith(OPEN):
            parts.append(part)
        elif part.strip():
            parts += words(_ARTICLE.sub("", spelled(plain(part)).replace("'", "")))
    return " ".join(parts)


def spelled(text: str) -> str:
    """Return a text with its words' signs (HER2+, HER2-) and Greek letters as words."""
    signed = _SIGN.sub(lambda sign: " positive " if "+" in sign[0] else " negative ", text)
    return signed if signed.isascii() else signed.translate(_GREEK)


def same(answer: str, reference: str) -> float:
    """Return 1.0 if both have the same words and quantities; a number without unit in the reference fits any unit."""
    return float(re.fullmatch(quantity_pattern(reference), answer) is not None)


def token_f1(answer: str, reference: str) -> float:
    """Return F1 of the words and quantities of both."""
    return word_f1(_as_words(answer), _as_words(reference))


def _as_words(text: str) -> str:
    """Return tokens as words without blanks in them, a quantity in its base unit."""
    return " ".join(_WRITTEN.sub(rf"{OPEN}\1", token).replace(" ", "_") for token in _TOKENS.findall(text))


ROBUST_MATCH = RobustShortAnswer(
    name="robust-match",
    accuracy=True,
    summary="short answers: the same words and numbers as the reference",
    method="a match with the reference answer, numbers by value and unit, words without case and typography",
    measure=same,
)
ROBUST_F1 = RobustShortAnswer(
    name="robust-f1",
    summary="short answers: F1 of words and numbers with the reference",
    method="the F1 of words and numbers with the reference answer, numbers by value and unit, Chinese by characters",
    measure=token_f1,
)
