"""ragas' figures of a long answer and of what was retrieved for it (Es et al. 2024; ragas 0.4.3, extra ``ragas``).

* ``ragas_faithfulness``: share of the answer's statements that follow from the passages;
* ``ragas_answer_relevancy``: mean cosine of the question with three questions made from the answer, 0 where the answer
  commits to nothing;
* ``ragas_context_precision``: average precision of the passages in their order, as useful for the reference answer;
* ``ragas_context_recall``: share of the reference answer's statements that the passages hold;
* ``ragas_factual_correctness``: F1 of the answer's claims and the reference's.

How a judge is asked for them stands in :mod:`ragrounds.evals.judges.ragas`.
"""

from __future__ import annotations

from ragrounds.evals.scorers.judged import JudgedScorer, JudgeMethod
from ragrounds.records import Gold, Question


class RagasScorer(JudgedScorer, frozen=True, kw_only=True):
    """One of ragas' metrics, and what it cannot be computed without."""

    metric: str
    """ragas' own name of it."""
    question: bool = True
    answer: bool = False
    passages: bool = False
    reference: bool = False
    silent: float | None = None
    """The value of an attempt without a text; ``None``: it has none, there is nothing to break into statements."""

    @property
    def ragas_class(self) -> str:
        """The name of ragas' class for it."""
        return "".join(part.title() for part in self.metric.split("_"))

    @property
    def takes(self) -> tuple[str, ...]:
        """What ragas scores, by the names of its arguments."""
        parts = {
            "user_input": self.question,
            "response": self.answer,
            "reference": self.reference,
            "retrieved_contexts": self.passages,
        }
        return tuple(name for name, taken in parts.items() if taken)


def _ragas(
    metric: str,
    what: str,
    *,
    question: bool = True,
    answer: bool = False,
    passages: bool = False,
    reference: bool = False,
    embedder: bool = False,
    silent: float | None = None,
) -> RagasScorer:
    name = f"ragas_{metric}"
    return RagasScorer(
        name=name,
        judging=name,
        metric=metric,
        summary=f"ragas: {what}",
        method=f"ragas 0.4.3, {metric.replace('_', ' ')}, by a judge ({what})",
        reads="the final answer and the passages"
        if passages and answer
        else "the passages"
        if passages
        else "the final answer",
        question=question,
        answer=answer,
        passages=passages,
        reference=reference,
        embedder=embedder,
        silent=silent,
    )


FAITHFULNESS = _ragas(
    "faithfulness", "share of the answer's statements that follow from the passages", answer=True, passages=True
)
ANSWER_RELEVANCY = _ragas(
    "answer_relevancy",
    "cosine of the question with questions made from the answer",
    answer=True,
    embedder=True,
    silent=0.0,
)
CONTEXT_PRECISION = _ragas(
    "context_precision",
    "average precision of the passages, as useful for the reference",
    passages=True,
    reference=True,
)
CONTEXT_RECALL = _ragas(
    "context_recall", "share of the reference's statements that the passages hold", passages=True, reference=True
)
FACTUAL_CORRECTNESS = _ragas(
    "factual_correctness",
    "F1 of the answer's and the reference's claims",
    question=False,
    answer=True,
    reference=True,
    silent=0.0,
)
RAGAS = (FAITHFULNESS, ANSWER_RELEVANCY, CONTEXT_PRECISION, CONTEXT_RECALL, FACTUAL_CORRECTNESS)
"""All of them, in the order that they are asked for."""


class RagasMethod(JudgeMethod, frozen=True, kw_only=True):
    """A way of judging by ragas' metrics: all of them, or one."""

    needs: str = "a long answer"

    @property
    def metrics(self) -> tuple[RagasScorer, ...]:
        """The scorers, as ragas' metrics."""
        return tuple(scorer for scorer in self.scorers if isinstance(scorer, RagasScorer))

    def fits(self, question: Question, gold: Gold) -> bool:
        """Long answers, whatever else a metric needs."""
        return question.kind == "long"


ALL_METRICS = RagasMethod(name="ragas", scorers=RAGAS)
ONE_FAITHFULNESS, ONE_ANSWER_RELEVANCY, ONE_CONTEXT_PRECISION, ONE_CONTEXT_RECALL, ONE_FACTUAL_CORRECTNESS = (
    RagasMethod(name=scorer.name, scorers=(scorer,)) for scorer in RAGAS
)
