"""Calls of ragas' metrics (:mod:`ragrounds.evals.scorers.ragas`): ragas' own objects with ragas' own prompts (English)
over the project's judge and embedder, its journal, its retries, its bill.

ragas takes any object of its two abstract classes, ``InstructorBaseRagasLLM`` and ``BaseRagasEmbedding``. Its own
implementation goes through Instructor, which sends a schema a second time and asks again by itself, with the error in
the prompt: such calls would be in no journal, and retried in two places. Here each prompt is ragas' own, unchanged; the
reply is read and checked, and an unusable one is requested again as a new occurrence. Values that ragas cannot compute
are missing with a reason: its NaN never enters a mean.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from ragrounds.base.contracts import json_schema
from ragrounds.base.errors import UserError
from ragrounds.base.records import Message, Reply
from ragrounds.base.replies import json_objects
from ragrounds.evals.judges.measures import (
    AskedEmbedder,
    MeasureContext,
    MeasureInputs,
    MeasureJudge,
    MeasureValue,
    measure_resources,
)
from ragrounds.evals.judges.methods import JudgeResources
from ragrounds.evals.judges.verdict import CUT, EMPTY, FAILED, TRIES, ask_until_read, spoken
from ragrounds.evals.scorers.measures import MeasureScorer
from ragrounds.evals.scorers.ragas import RagasMethod, RagasScorer
from ragrounds.models.faults import CallFailed

M = TypeVar("M", bound=BaseModel)
_FLAGS = ("verdict", "attributed", "noncommittal")
"""Fields that ragas sums or tests as 0 or 1 without checking them."""


class Unusable(Exception):
    """Error after all tries without a usable reply; its text says what was wrong with the last one."""


class AskedJudge:
    """Judge in the form that ragas' metrics take, for one metric on one answer.

    Equal prompts are samples, each a new occurrence.
    """

    def __init__(self, context: MeasureContext) -> None:
        self._context = context
        self._occurrences: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
        self.split: list[int] = []
        """Number of statements that each text was split into, in order."""

    async def agenerate(self, prompt: str, response_model: type[M]) -> M:
        """Return a reply of the requested form.

        Raises:
            Unusable: no reply was usable after all tries.
            CallFailed: a call gave no reply.
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """
        parsed, reason = await ask_until_read(
            self._context.judge,
            self._context.journal,
            [Message("user", prompt)],
            lambda reply: read(reply, response_model, self.split[-1] if self.split else None),
            self._context.calls,
            node=self._context.node,
            tries=TRIES,
            occurrences=self._occurrences[prompt],
            schema=json_schema("reply", response_model.model_json_schema()),
        )
        if parsed is None:
            raise Unusable(reason)
        statement_count = _statement_count(parsed)
        if statement_count is not None:
            self.split.append(statement_count)
        return parsed

    def generate(self, prompt: str, response_model: type[M]) -> M:
        """Raise NotImplementedError. ragas' abstract class has this method, but its metrics do not use it."""
        raise NotImplementedError("only agenerate")


def read(reply: Reply, form: type[M], statements: int | None) -> tuple[M | None, str]:
    """Return the last JSON object of a reply that has the form, or the reason why no object has it.

    The check is stricter than ragas, which computes with any reply: a flag is 0 or 1, a question is not empty, and
    there is one verdict for each of the `statements` that the judge was shown.
    """
    text = spoken(reply.text)
    reason = CUT if reply.finish == "length" else "no JSON object in the reply" if text.strip() else EMPTY
    for candidate, _, _ in reversed(list(json_objects(text))):
        try:
            parsed = form.model_validate(candidate)
        except ValidationError as error:
            first = error.errors()[0]
            if reply.finish == "length":  # the readable part belongs to an object that was cut off
                continue
            reason = f"not of the form: {'.'.join(map(str, first['loc']))[:60]}: {first['msg'][:80]}"
            continue
        reason = _form_fault(parsed.model_dump(), statements)
        if not reason:
            return parsed, ""
    return None, reason


def _statement_count(parsed: BaseModel) -> int | None:
    """Return the number of statements that a text was split into, if the reply is such a split."""
    statements: Any = getattr(parsed, "statements", getattr(parsed, "claims", None))
    return (
        len(statements)
        if isinstance(statements, list) and all(isinstance(statement, str) for statement in statements)
        else None
    )


def _form_fault(fields: dict[str, Any], statements: int | None) -> str:
    if not str(fields.get("question", "?")).strip():
        return "the question is empty"
    rows = [row for value in fields.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    for row in (fields, *rows):
        for name in _FLAGS:
            if row.get(name, 0) not in (0, 1):
                return f"{name} is {row[name]}: expected 0 or 1"
    verdicts = fields.get("statements")
    if isinstance(verdicts, list) and len(rows) == len(verdicts) and statements not in (None, len(rows)):
        return f"verdicts on {len(rows)} of {statements} statements"
    return ""


class RagasJudge(MeasureJudge, frozen=True, kw_only=True):
    """Judge of answers by ragas' metrics."""

    async def compute(self, scorer: MeasureScorer, inputs: MeasureInputs, context: MeasureContext) -> MeasureValue:
        """Return ragas' value, or the reason why it is missing.

        Raises:
            UserError: ragas is not installed, or cannot be imported.
        """
        metric, asked_judge = cast("RagasScorer", scorer), AskedJudge(context)
        metric_class = getattr(installed_ragas(), metric.ragas_class)
        vectors = {"embeddings": context.embedder} if metric.embedder else {}
        ragas_metric = metric_class(llm=asked_judge, **vectors)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a division by length 0 gives NaN, missing below
                value = float((await ragas_metric.ascore(**{name: inputs[name] for name in metric.takes})).value)
        except CallFailed:
            return MeasureValue(None, FAILED)
        except (Unusable, ValueError) as error:
            return MeasureValue(None, f"ragas: {' '.join(str(error).split())[:200]}")
        if not math.isfinite(value):
            return MeasureValue(None, "ragas: no value, since nothing was found to judge")
        if metric.metric == "factual_correctness" and asked_judge.split[-1:] == [0]:
            return MeasureValue(None, "ragas: no claims were found in the reference")
        return MeasureValue(value)


def open_judge(method: RagasMethod, means: JudgeResources) -> RagasJudge:
    """Return the judge of attempts by the metrics of this method.

    Raises:
        UserError: ragas is not installed; a metric that compares vectors has no embedder.
    """
    installed_ragas()
    return RagasJudge(**measure_resources(method, means))


def installed_ragas() -> Any:
    """Return ragas' metrics, with ragas' usage tracking switched off.

    Raises:
        UserError: ragas is not installed, or cannot be imported.
    """
    os.environ["RAGAS_DO_NOT_TRACK"] = "true"  # read once, at ragas' first event
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of the libraries that ragas imports
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
