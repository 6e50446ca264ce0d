"""Runs sent to LangSmith as experiments of a dataset (``POST /datasets/upload-experiment``): one row per attempt, with
its scores. Steps are sent as spans by ``ragrounds export otel``.

The rows' ids are those of the attempts, and every upload is a new experiment. LangSmith refuses a dataset that was not
made by such an upload.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import WITHOUT_ANSWER, Gold, Score
from ragrounds.evals.scorers.catalogue import SCORERS
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.delivery import Delivery, check_server
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner, attempt_facts, trace_digest
from ragrounds.extensions.exchange.formats import Export, ExportFormat

_KEY = "LANGSMITH_API_KEY"


def experiment(traces: list[Trace], dataset: str) -> dict[str, Any]:
    """Return the clean attempts of one run as an experiment."""
    run, rows = traces[0].run, list(map(_row, traces))
    return {
        "experiment_name": run.id,
        "experiment_description": run.agent,
        "experiment_start_time": min(row["start_time"] for row in rows),
        "experiment_end_time": max(row["end_time"] for row in rows),
        "dataset_name": dataset or f"{run.benchmark} {run.questions[:8]}",
        "experiment_metadata": {"fingerprint": run.fingerprint, "models": run.identity.get("models") or {}},
        "results": rows,
    }


def _row(trace: Trace) -> dict[str, Any]:
    attempt, question = trace.attempt, trace.question
    started = attempt.at or trace.run.created
    return {
        "row_id": str(UUID(bytes=trace_digest(trace)[:16])),
        "inputs": {"question": question.text, "options": question.options},
        "expected_outputs": {"answer": trace.gold.answer},
        "actual_outputs": {"answer": attempt.text},
        "evaluation_scores": [_feedback(score, trace.gold) for score in trace.scores],
        "start_time": datetime.fromtimestamp(started, UTC).isoformat(),
        "end_time": datetime.fromtimestamp(started + attempt.seconds, UTC).isoformat(),
        "run_name": trace.run.agent,
        "error": (attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else None,
        "run_metadata": attempt_facts(trace),
    }


def _feedback(score: Score, gold: Gold) -> dict[str, Any]:
    reading = f"read as {score.prediction}" if score.prediction else f"{score.answer_status}, nothing was read"
    gold_text = f"right is {gold.answer}" if gold.answer else ""
    fields = ("answer_status", "prediction", "code", "epoch")
    return {
        "key": score.scorer,
        # LangSmith accepts four decimals and refuses more.
        "score": None if score.value is None else round(score.value, 4),
        "value": score.answer_status,
        "comment": "; ".join(filter(None, (reading, gold_text, score.reason))),
        "feedback_source": {
            "type": "model" if _by_judge(score) else "api",
            "metadata": {name: getattr(score, name) for name in fields},
        },
    }


def _by_judge(score: Score) -> bool:
    """Return True if a model judged the score. An unknown scorer counts as code."""
    try:
        scorer = SCORERS.find(score.scorer.partition("[")[0])
    except UserError:  # of an installed package that cannot be used
        return False
    return scorer is not None and scorer.needs_judge


class LangSmithOptions(Struct, frozen=True):
    """Server and dataset that runs are sent to."""

    endpoint: Annotated[
        str, Meta(description="Send to this LangSmith server, such as https://api.smith.langchain.com; questions and "
                              "answers go there. Its key is read from LANGSMITH_API_KEY.")
    ] = ""  # fmt: skip
    dataset: Annotated[str, Meta(description="The dataset there. [default: one for each set of questions]")] = ""


def _send(export: Export[LangSmithOptions]) -> str:
    key, base_url = os.environ.get(_KEY, "").strip(), export.options.endpoint.rstrip("/")
    url = f"{base_url}/api/v1/datasets/upload-experiment"
    headers, progress = {"x-api-key": key}, export.progress
    delivery = Delivery[dict[str, Any]](url, "experiments", headers=headers, secrets=[key], progress=progress)
    traces_by_run = (list(TraceCleaner().traces(export.store, [run])) for run in export.runs)
    delivery.deliver([experiment(traces, export.options.dataset)] for traces in traces_by_run if traces)
    if not delivery.taken:
        raise UserError("None of these runs has an attempt: there is no experiment to send.")
    return f"{delivery.words()}: {export.options.endpoint}"


FORMAT = ExportFormat(
    name="langsmith",
    summary="Runs as experiments of a dataset in LangSmith, with scores. Needs --endpoint and LANGSMITH_API_KEY.",
    writes="nothing",
    options=LangSmithOptions,
    send=_send,
    check=lambda options, to_file: check_server(options.endpoint, "LangSmith", "https://api.smith.langchain.com", _KEY),
)
