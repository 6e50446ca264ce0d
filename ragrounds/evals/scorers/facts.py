"""Scorer ``facts``: long answers to questions that list the facts of a good answer.

The value is the share of a question's required facts that the answer contains. A fact is contained if one of its
accepted wordings occurs as whole words, whatever the case, spacing and hyphens. Numbers are compared as numbers with
their units: "1,500 mg" contains "1.5 g" and not "500 mg" (:mod:`ragrounds.base.quantities`). It is a cheap, repeatable
figure, not a judgement: a wording inside a negation counts, and an unlisted paraphrase does not. It is never averaged
with the accuracy of multiple choice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property

from ragrounds.base.quantities import OPEN, decimal_mark, mark_quantities, quantity_pattern
from ragrounds.base.records import Attempt, Gold, Kind, Question, Score
from ragrounds.base.replies import plain_text
from ragrounds.evals.benchmarks.benchmark import has_judged_facts
from ragrounds.evals.scorers.answer_status import AnswerRead, answer_text, no_text, read_long
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.scorers.short_answers_robust import spelled

_HYPHENS = re.compile(r"[-\u2010-\u2015\u2212]")
_SPACES = re.compile(r"\s{2,}|[^\S ]")
"""Blanks that are not one space already."""


class FactScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer of a long answer by the facts in it, 0.0 to 1.0; it gives no value if the question lists no facts."""

    name: str = "facts"
    summary: str = "share of the required facts that the answer holds"
    method: str = "the share of required facts that the answer holds"
    kinds: tuple[Kind, ...] = ("long",)
    usual: bool = True
    shares: bool = True

    def default(self, question: Question) -> bool:
        """Return True for long answers whose facts are wordings.

        Statements for a judge (K-QA) are sentences, and no answer contains them word for word.
        """
        return not has_judged_facts(question) and ScorerRecord.default(self, question)

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Score an answer.

        The prediction is ``contained/all``; the reason names the missing facts by their first wording.
        """
        facts = () if has_judged_facts(question) else gold.facts
        mark = decimal_mark("\n".join((question.text, gold.answer, *(wording for fact in facts for wording in fact))))
        answer = AnswerText(answer_text(attempt, question))
        contained = [answer.contains(wordings, mark) for wordings in facts]
        missing = [wordings[0] for wordings, is_contained in zip(facts, contained, strict=True) if not is_contained]
        # An answer without any required fact is still an answer, unless it refuses or abstains.
        reading = no_text(attempt) or (AnswerRead("answered") if any(contained) else read_long(attempt, question))
        if not contained:
            return self.scored(attempt, None, reading, reason="the question lists no facts as wordings")
        reason = reading.reason or (f"missing: {'; '.join(missing)}" if missing else "")
        value = None if attempt.status == "not_run" else sum(contained) / len(contained)
        return self.scored(attempt, value, reading, f"{sum(contained)}/{len(contained)}", reason)


class AnswerText:
    """Text in which several facts are looked for. It is folded once, since it may be long."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _folded(self) -> str:
        return _folded(self._text)

    @cached_property
    def _mark(self) -> str:
        return decimal_mark(self._text)

    @cached_property
    def _marked(self) -> str:
        return _folded(mark_quantities(self._text, self._mark))

    def contains(self, wordings: tuple[str, ...], mark: str = "") -> bool:
        """Return True if one of the wordings occurs in the text as whole words, numbers by their value.

        `mark` is the decimal mark of the wordings; by default that of the text.
        """
        for wording in wordings:
            if not wording.strip():
                continue
            marked_wording = mark_quantities(wording, decimal_mark(wording) or mark or self._mark)
            if OPEN in marked_wording:
                text, pattern = self._marked, _with_boundaries(_folded(marked_wording), quantity_pattern)
            elif (folded := _folded(wording)) in self._folded:  # far quicker than a search for the pattern
                text, pattern = self._folded, _with_boundaries(folded, re.escape)
            else:
                continue
            if re.search(pattern, text):
                return True
        return False


def _folded(text: str) -> str:
    return _SPACES.sub(" ", _HYPHENS.sub(" ", spelled(plain_text(text))).casefold()).strip()


def _with_boundaries(wording: str, pattern: Callable[[str], str]) -> str:
    """Return a wording's pattern, with word boundaries if its edges are letters of a script that has them; Chinese has
    none."""
    before = r"(?<![^\W_])" if _is_spaced_script(wording[:1]) else ""
    after = r"(?![^\W_])" if _is_spaced_script(wording[-1:]) else ""
    return f"{before}{pattern(wording)}{after}"


def _is_spaced_script(letter: str) -> bool:
    return letter.isalnum() and not "\u3040" <= letter <= "\u9fff"


FACTS = FactScorer()
