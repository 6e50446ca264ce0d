"""Runs sent to LangSmith as experiments of a dataset (``POST /datasets/upload-experiment``): a row an attempt, with its
scores. Their steps go there as spans, by ``ragrounds export otel``.

The rows' ids are those of the attempts, and every upload is an experiment of its own. A dataset that was not made by
such an upload is refused there.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta, Struct

from ragrounds.base.errors import UserError
from ragrounds.base.records import WITHOUT_ANSWER
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.delivery import Delivery, check_server
from ragrounds.extensions.exchange.exporters.trace_nodes import (
    TraceCleaner,
    attempt_facts,
    by_judge,
    score_facts,
    score_words,
    trace_digest,
)
from ragrounds.extensions.exchange.formats import Export, ExportFormat

_KEY = "LANGSMITH_API_KEY"


def experiment(traces: list[Trace], dataset: str) -> dict[str, Any]:
    """The clean attempts of one run as an experiment."""
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
    begun = attempt.at or trace.run.created
    return {
        "row_id": str(UUID(bytes=trace_digest(trace)[:16])),
        "inputs": {"question": question.text, "options": question.options},
        "expected_outputs": {"answer": trace.gold.answer},
        "actual_outputs": {"answer": attempt.text},
        "evaluation_scores": [
            {
                "key": one.scorer,
                # It takes four decimals and refuses more.
                "score": None if one.value is None else round(one.value, 4),
                "value": one.answer_status,
                "comment": score_words(one, trace.gold),
                "feedback_source": {"type": "model" if by_judge(one) else "api", "metadata": score_facts(one)},
            }
            for one in trace.scores
        ],
        "start_time": datetime.fromtimestamp(begun, UTC).isoformat(),
        "end_time": datetime.fromtimestamp(begun + attempt.seconds, UTC).isoformat(),
        "run_name": trace.run.agent,
        "error": (attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else None,
        "run_metadata": attempt_facts(trace),
    }


class LangSmithOptions(Struct, frozen=True):
    """Which server, and which of its datasets."""

    endpoint: Annotated[
        str, Meta(description="Send to this LangSmith server, such as https://api.smith.langchain.com; questions and "
                              "answers go there. Its key is read from LANGSMITH_API_KEY.")
    ] = ""  # fmt: skip
    dataset: Annotated[str, Meta(description="The dataset there. [default: one for each set of questions]")] = ""


def _check(options: LangSmithOptions, to_file: bool) -> None:
    check_server(options.endpoint, "LangSmith", "https://api.smith.langchain.com", _KEY)


def _send(export: Export[LangSmithOptions]) -> str:
    key, place = os.environ.get(_KEY, "").strip(), export.options.endpoint.rstrip("/")
    url = f"{place}/api/v1/datasets/upload-experiment"
    own, told = {"x-api-key": key}, export.progress
    sent = Delivery[dict[str, Any]](url, "experiments", headers=own, secrets=[key], progress=told)
    made = (list(TraceCleaner().traces(export.store, [run])) for run in export.runs)
    sent.deliver([experiment(traces, export.options.dataset)] for traces in made if traces)
    if not sent.taken:
        raise UserError("None of these runs has an attempt: there is no experiment to send.")
    return f"{sent.words()}: {export.options.endpoint}"


FORMAT = ExportFormat(
    name="langsmith",
    summary="Runs as experiments of a dataset in LangSmith, with scores. Needs --endpoint and LANGSMITH_API_KEY.",
    writes="nothing",
    options=LangSmithOptions,
    send=_send,
    check=_check,
)
