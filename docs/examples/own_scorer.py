"""A custom scorer: how many words an answer takes. No model is asked again."""

import ragrounds as rr
from ragrounds.extend import Attempt, Gold, Kind, Question, Score, ScorerRecord, read_long


class Words(ScorerRecord):
    """Counts words; fewer are better."""

    name: str = "words"
    summary: str = "words of the answer"
    method: str = "the number of words of an answer"
    kinds: tuple[Kind, ...] = ("long",)
    unit: str = "words"
    direction: str = "lower"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """The number of words, split at blanks."""
        value = None if attempt.status == "not_run" else float(len(attempt.text.split()))
        return self.scored(attempt, value, read_long(attempt))


WORDS = Words()

if __name__ == "__main__":
    rr.run("sample", ["vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"], progress=False)
    for agent in ("vanilla_rag[top_k=1]", "vanilla_rag[top_k=8]"):
        scores = rr.score(agent, scorers=f"{__file__}:WORDS").to_pandas("scores").query("scorer == 'words'")
        print(f"{agent}: {scores.value.mean():.1f} words an answer, n = {len(scores)}")
