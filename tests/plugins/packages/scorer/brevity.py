"""Scorer ``brevity``: how many words an answer takes."""

from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.scorers.base import ScorerRecord


class Brevity(ScorerRecord):
    def score(self, attempt, question, gold):
        return self.scored(attempt, float(len(attempt.text.split())), read_long(attempt))


BREVITY = Brevity(
    name="brevity",
    summary="words of the answer",
    method="the number of words of an answer",
    kinds=("choice", "long"),
    unit="words",
    direction="lower",
)
