"""ragas' figures of a long answer and of what was retrieved for it (Es et al. 2024; ragas 0.4.3, extra ``ragas``).

* ``ragas_faithfulness``: share of the answer's statements that follow from the passages;
* ``ragas_answer_relevancy``: mean cosine of the question with three questions made from the answer, 0 where the answer
  commits to nothing;
* ``ragas_context_precision``: average precision of the passages in their order, as useful for the reference answer;
* ``ragas_context_recall``: share of the reference answer's statements that the passages hold;
* ``ragas_factual_correctness``: F1 of the answer's claims and the reference's.

:mod:`ragrounds.evals.judges.ragas` asks the judge for them.
"""

from __future__ import annotations

from ragrounds.evals.scorers.measures import MeasureMethod, MeasureScorer


class RagasScorer(MeasureScorer, frozen=True, kw_only=True):
    """Scorer of one of ragas' metrics."""

    @property
    def metric(self) -> str:
        """Name of the metric in ragas."""
        return self.name.removeprefix("ragas_")

    @property
    def ragas_class(self) -> str:
        """Name of ragas' class for the metric."""
        return "".join(part.title() for part in self.metric.split("_"))


FAITHFULNESS = RagasScorer(
    name="ragas_faithfulness",
    judging="ragas_faithfulness",
    summary="share of statements that follow from passages",
    method="ragas 0.4.3, faithfulness, by a judge (share of the answer's statements that follow from the passages)",
    takes=("user_input", "response", "retrieved_contexts"),
)
ANSWER_RELEVANCY = RagasScorer(
    name="ragas_answer_relevancy",
    judging="ragas_answer_relevancy",
    summary="cosine of question and questions from the answer",
    method="ragas 0.4.3, answer relevancy, by a judge (cosine of the question with questions made from the answer)",
    takes=("user_input", "response"),
    embedder=True,
    silent=0.0,
)
CONTEXT_PRECISION = RagasScorer(
    name="ragas_context_precision",
    judging="ragas_context_precision",
    summary="average precision of the useful passages",
    method="ragas 0.4.3, context precision, by a judge "
    "(average precision of the passages, as useful for the reference)",
    takes=("user_input", "reference", "retrieved_contexts"),
)
CONTEXT_RECALL = RagasScorer(
    name="ragas_context_recall",
    judging="ragas_context_recall",
    summary="share of reference's statements in the passages",
    method="ragas 0.4.3, context recall, by a judge (share of the reference's statements that the passages hold)",
    takes=("user_input", "retrieved_contexts", "reference"),
)
FACTUAL_CORRECTNESS = RagasScorer(
    name="ragas_factual_correctness",
    judging="ragas_factual_correctness",
    summary="F1 of the answer's and the reference's claims",
    method="ragas 0.4.3, factual correctness, by a judge (F1 of the answer's and the reference's claims)",
    takes=("response", "reference"),
    silent=0.0,
)
RAGAS = (FAITHFULNESS, ANSWER_RELEVANCY, CONTEXT_PRECISION, CONTEXT_RECALL, FACTUAL_CORRECTNESS)
"""All of ragas' metrics, in the order in which they are requested."""


class RagasMethod(MeasureMethod, frozen=True, kw_only=True):
    """Judge method by ragas' metrics: all of them, or one."""

    asked_by: str = "ragrounds.evals.judges.ragas:open_judge"


ALL_METRICS = RagasMethod(name="ragas", scorers=RAGAS)
BY_FAITHFULNESS = RagasMethod(name=FAITHFULNESS.name, scorers=(FAITHFULNESS,))
BY_ANSWER_RELEVANCY = RagasMethod(name=ANSWER_RELEVANCY.name, scorers=(ANSWER_RELEVANCY,))
BY_CONTEXT_PRECISION = RagasMethod(name=CONTEXT_PRECISION.name, scorers=(CONTEXT_PRECISION,))
BY_CONTEXT_RECALL = RagasMethod(name=CONTEXT_RECALL.name, scorers=(CONTEXT_RECALL,))
BY_FACTUAL_CORRECTNESS = RagasMethod(name=FACTUAL_CORRECTNESS.name, scorers=(FACTUAL_CORRECTNESS,))
