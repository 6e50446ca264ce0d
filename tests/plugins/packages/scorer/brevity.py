"""Scorer ``brevity``: how many words an answer takes."""

from ragrounds.extend import AnswerRead, ScorerRecord, no_text


class Brevity(ScorerRecord):
    def score(self, attempt, question, gold):
        read = no_text(attempt) or AnswerRead("answered")
        return self.scored(attempt, float(len(attempt.text.split())), read)


BREVITY = Brevity(
    name="brevity",
    summary="words of the answer",
    method="the number of words of an answer",
    kinds=("choice", "long"),
    unit="words",
    direction="lower",
)
