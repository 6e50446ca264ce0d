"""ragas' figures of a long answer and of what was retrieved for it (Es et al. 2024; ragas 0.4.3, extra ``ragas``).

* ``ragas_faithfulness``: share of the answer's statements that follow from the passages;
* ``ragas_answer_relevancy``: mean cosine of the question with three questions made from the answer, 0 where the answer
  commits to nothing;
* ``ragas_context_precision``: average precision of the passages in their order, as useful for the reference answer;
* ``ragas_context_recall``: share of the reference answer's statements that the passages hold;
* ``ragas_factual_correctness``: F1 of the answer's claims and the reference's.

The metrics are ragas' own objects with ragas' own prompts (English); who is asked, and how often, is ours
(:mod:`.ragas_asking`). Whatever ragas cannot give a number for is missing with a reason: its NaN never meets a mean.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.evals.judges.asking import FAILED, TRIES
from ragrounds.evals.judges.grade import Grade
from ragrounds.evals.judges.ragas_asking import AskedEmbedder, AskedJudge, Unusable
from ragrounds.evals.scorers.long import read_long
from ragrounds.models.faults import CallFailed
from ragrounds.models.prices import Price
from ragrounds.records import Attempt, Call, Gold, Passage, Question, Score, Verdict
from ragrounds.tools.cards import NamedEmbedder
from ragrounds.tools.embedders import joined


class Metric(Struct, frozen=True):
    """One of ragas' metrics, and what it cannot be computed without."""

    name: str
    answer: bool = False
    passages: bool = False
    reference: bool = False
    embedder: bool = False
    silent: float | None = None
    """The value of an attempt without a text; ``None``: it has none, there is nothing to break into statements."""

    @property
    def scorer(self) -> str:
        return f"ragas_{self.name}"


METRICS = (
    Metric("faithfulness", answer=True, passages=True),
    Metric("answer_relevancy", answer=True, embedder=True, silent=0.0),
    Metric("context_precision", passages=True, reference=True),
    Metric("context_recall", passages=True, reference=True),
    Metric("factual_correctness", answer=True, reference=True, silent=0.0),
)
PROTOCOLS = tuple(metric.scorer for metric in METRICS)


class Ragas(Struct, frozen=True, kw_only=True):
    """Grades answers by ragas' metrics, one score each."""

    passages: Callable[[Attempt], Sequence[Passage]]
    """What an attempt retrieved, best first."""
    metrics: tuple[Metric, ...] = METRICS
    embedder: NamedEmbedder | None = None
    prices: Mapping[str, Price] = {}
    """The user's own, for the embedder."""
    tries: int = TRIES

    @property
    def scorers(self) -> tuple[str, ...]:
        return tuple(metric.scorer for metric in self.metrics)

    async def grade(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> Grade:
        """Compute every metric that the attempt has the parts for.

        Raises:
            UserError: ragas is not installed.
            ragrounds.errors.StopRun: the judge cannot be asked at all.
        """
        contexts = [joined(passage.title, passage.text, "sentence") for passage in self.passages(attempt)]
        scores: list[Score] = []
        verdicts: list[Verdict] = []
        calls: list[Call] = []
        failed = False
        for metric in self.metrics:
            value, why = self._without(metric, attempt, gold, contexts)
            if value is None and not why:
                asked = AskedJudge(judge, journal, f"ragas/{metric.name}", self.tries)
                vectors = (
                    AskedEmbedder(self.embedder, journal, f"ragas/{metric.name}", self.prices)
                    if metric.embedder and self.embedder
                    else None
                )
                parts = {
                    "user_input": question.text,
                    "response": attempt.text,
                    "reference": gold.answer,
                    "retrieved_contexts": contexts,
                }
                try:
                    value, why = await _computed(metric, asked, vectors, parts)
                except CallFailed:
                    why, failed = FAILED, True
                calls += asked.calls + (vectors.calls if vectors else [])
                outcome = "" if value is None else f"{value:.4f}"
                verdicts.append(
                    Verdict(
                        question_id=question.id,
                        judge=judge.spec,
                        axis=metric.name,
                        first=attempt.run,
                        outcome=outcome,
                        reason=why,
                    )
                )
                why = f"ragas: {why}" if why else ""
            scores.append(_score(metric, attempt, value, why))
        return Grade(scores=tuple(scores), verdicts=tuple(verdicts), calls=tuple(calls), failed=failed)

    def _without(
        self, metric: Metric, attempt: Attempt, gold: Gold, contexts: Sequence[str]
    ) -> tuple[float | None, str]:
        """The value, or why there is none, where nobody needs to be asked; neither: somebody does."""
        read = read_long(attempt)
        if attempt.status == "not_run":
            return None, read.reason or "not run"
        if metric.reference and not gold.answer.strip():
            return None, "the question has no reference answer"
        if metric.passages and not contexts:
            return None, "the attempt retrieved no passages, or the journal does not hold them"
        if metric.answer and not attempt.text.strip():
            return metric.silent, read.reason or "there is no answer"
        if metric.embedder and self.embedder is None:
            return None, "no embedder was named"
        return None, ""


async def _computed(
    metric: Metric, asked: AskedJudge, vectors: AskedEmbedder | None, parts: Mapping[str, Any]
) -> tuple[float | None, str]:
    """ragas' value, or why there is none."""
    made, takes = _open(metric, asked, vectors)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a division by no length gives NaN, which is told below
            value = float((await made.ascore(**{name: parts[name] for name in takes})).value)
    except Unusable as error:
        return None, str(error)
    except ValueError as error:
        return None, f"{' '.join(str(error).split())[:200]}"
    if not math.isfinite(value):
        return None, "no value, since nothing was found to judge"
    if metric.name == "factual_correctness" and asked.split[-1:] == [0]:
        return None, "no claims were found in the reference"
    return value, ""


def _open(metric: Metric, asked: AskedJudge, vectors: AskedEmbedder | None) -> tuple[Any, tuple[str, ...]]:
    """ragas' object for a metric, and the names of what it scores.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    ragas = installed()
    match metric.name:
        case "faithfulness":
            return ragas.Faithfulness(llm=asked), ("user_input", "response", "retrieved_contexts")
        case "answer_relevancy":
            return ragas.AnswerRelevancy(llm=asked, embeddings=vectors), ("user_input", "response")
        case "context_precision":
            return ragas.ContextPrecision(llm=asked), ("user_input", "reference", "retrieved_contexts")
        case "context_recall":
            return ragas.ContextRecall(llm=asked), ("user_input", "retrieved_contexts", "reference")
        case _:
            return ragas.FactualCorrectness(llm=asked), ("response", "reference")


def installed() -> Any:
    """ragas' metrics; nothing of ragas reports home.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read once, at ragas' first event
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries that it imports
            from ragas.embeddings.base import BaseRagasEmbedding
            from ragas.llms.base import InstructorBaseRagasLLM
            from ragas.metrics import collections
    except ImportError as error:
        raise UserError(
            f"ragas' figures need ragas ({error}): install ragrounds[ragas], best in an environment of its own, since "
            "it holds other packages back."
        ) from None
    InstructorBaseRagasLLM.register(AskedJudge)
    BaseRagasEmbedding.register(AskedEmbedder)
    return collections


def _score(metric: Metric, attempt: Attempt, value: float | None, why: str) -> Score:
    read = read_long(attempt)
    return Score(
        question_id=attempt.question_id,
        epoch=attempt.epoch,
        scorer=metric.scorer,
        value=value,
        answer_status=read.answer_status,
        reason=why or read.reason,
    )
