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
    takes: tuple[str, ...]
    """What it scores, by the names of ragas' arguments; it cannot be computed without any of them."""
    silent: float | None = None
    """The value of an attempt without a text; ``None``: it has none, there is nothing to break into statements."""

    @property
    def ragas_class(self) -> str:
        """The name of ragas' class for it."""
        return "".join(part.title() for part in self.metric.split("_"))


def _ragas(metric: str, what: str, *parts: str, embedder: bool = False, silent: float | None = None) -> RagasScorer:
    name = f"ragas_{metric}"
    return RagasScorer(
        name=name,
        judging=name,
        metric=metric,
        summary=f"ragas: {what}",
        method=f"ragas' {metric.replace('_', ' ')} by a judge ({what})",
        reads=", ".join(_PARTS[part] for part in parts),
        takes=parts,
        embedder=embedder,
        silent=silent,
    )


_PARTS = {
    "user_input": "the question",
    "response": "the final answer",
    "retrieved_contexts": "the passages",
    "reference": "the reference",
}
"""What ragas scores, by the names of its arguments."""
RAGAS = (
    _ragas(
        "faithfulness",
        "share of the answer's statements that follow from the passages",
        *("user_input", "response", "retrieved_contexts"),
    ),
    _ragas(
        "answer_relevancy",
        "cosine of the question with questions made from the answer",
        *("user_input", "response"),
        embedder=True,
        silent=0.0,
    ),
    _ragas(
        "context_precision",
        "average precision of the passages, as useful for the reference",
        *("user_input", "reference", "retrieved_contexts"),
    ),
    _ragas(
        "context_recall",
        "share of the reference's statements that the passages hold",
        *("user_input", "retrieved_contexts", "reference"),
    ),
    _ragas("factual_correctness", "F1 of the answer's and the reference's claims", "response", "reference", silent=0.0),
)
"""All of them, in the order that they are asked for."""
FAITHFULNESS, ANSWER_RELEVANCY, CONTEXT_PRECISION, CONTEXT_RECALL, FACTUAL_CORRECTNESS = RAGAS


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
