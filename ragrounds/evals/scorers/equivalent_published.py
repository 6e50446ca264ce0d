"""Scorer ``equivalent-published``: OGCaReBench's judge by what its paper prints (Fig. 11), beside ``equivalent``.

The paper's judge sees two texts, the reference answer and the response, and not the question; doses, frequencies and
techniques do not count unless they make another kind of action of it; another stage or intent of care (watching in
place of intervening, a drug in place of surgery) is a mismatch. ``equivalent`` shows the question too, has the judge
say first what both texts conclude, and rules out an answer that advises against the reference's action. Wording and
examples are ours in both, and both are read from a JSON object, where the paper asks for the one word.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ragrounds.evals.scorers.equivalent import Equivalence
from ragrounds.evals.scorers.judged import JudgedScorer, JudgeQuestion, Said, VerdictForm, fenced
from ragrounds.records import Attempt, Gold, Question, Score

_AXIS = "grade"
_FORM = VerdictForm((_AXIS,), ("equivalent", "mismatch"))

EQUIVALENT_PUBLISHED = JudgedScorer(
    name="equivalent-published",
    accuracy=True,
    judging="equivalence-published",
    summary="share of answers that the judge finds equivalent to the reference, by the paper's own rules",
    method="the share of answers that a judge found equivalent to the reference by OGCaReBench's published rules, "
    "without sight of the question",
)


class PublishedEquivalence(Equivalence, frozen=True, kw_only=True):
    """As :class:`~ragrounds.evals.scorers.equivalent.Equivalence`, with the two texts alone."""

    def unasked(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[Score, ...]:
        """No answer is a mismatch, and free."""
        return _own(super().unasked(attempt, question, gold))

    def questions(self, attempt: Attempt, question: Question, gold: Gold) -> tuple[JudgeQuestion, ...]:
        """The answer beside the reference."""
        texts = {"reference": fenced(gold.answer), "answer": fenced(attempt.text)}
        return (JudgeQuestion(prompt=self.prompts[0], texts=texts, form=_FORM, subjects=(_AXIS,)),)

    def scores(self, attempt: Attempt, gold: Gold, said: Sequence[Said]) -> tuple[Score, ...]:
        """1.0 where the one verdict is ``equivalent``."""
        return _own(super().scores(attempt, gold, said))


def _own(scores: tuple[Score, ...]) -> tuple[Score, ...]:
    return tuple(replace(score, scorer=EQUIVALENT_PUBLISHED.name) for score in scores)


EQUIVALENCE_PUBLISHED = PublishedEquivalence(
    name="equivalence-published",
    scorers=(EQUIVALENT_PUBLISHED,),
    labels=_FORM.values,
    needs="a reference answer in words",
    prompts=("judge/equivalent_published",),
)
