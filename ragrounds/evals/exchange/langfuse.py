"""Runs sent to a Langfuse server: attempts as traces to its OpenTelemetry endpoint, scores to its scores API.

A trace has the attempt's question and answer, its session is the run. Scores belong to traces and have ids of their
own, so that sending again replaces them.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ragrounds.evals.exchange.delivery import Delivery, check_server
from ragrounds.evals.exchange.formats import Export, ExportFormat
from ragrounds.evals.exchange.openinference import chat_input, passage_facts
from ragrounds.evals.exchange.otlp import OtlpExporter, span_id, trace_id
from ragrounds.evals.exchange.trace_nodes import (
    TraceNode,
    score_facts,
    score_words,
    trace_digest,
)
from ragrounds.evals.store.traces import Trace
from ragrounds.records import Score

_SPACE = uuid.UUID("1f0c2f0a-6f3b-5b9c-8a57-3f0e6a2d9b40")
_KINDS = {
    "attempt": "agent",
    "step": "chain",
    "model": "generation",
    "embedding": "embedding",
    "search": "retriever",
    "tool": "tool",
}
_KEYS = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")
_VERSION = {"x-langfuse-ingestion-version": "4"}
"""What Langfuse asks of those who send spans without its own SDK."""


def span_attributes(trace: Trace, node: TraceNode) -> dict[str, object]:
    """The attributes of a node of a clean trace, in Langfuse's own names. What a trace is filtered by stands on every
    span of it, as Langfuse asks."""
    made: dict[str, object] = {
        "langfuse.observation.type": _KINDS[node.kind],
        "langfuse.observation.input": _text(chat_input(node)),
        "langfuse.observation.output": _text(_output(node)),
        "langfuse.observation.level": "ERROR" if node.error else "DEFAULT",
        "langfuse.observation.status_message": node.error or None,
        "langfuse.trace.name": trace.run.agent,
        "langfuse.session.id": trace.run.id,
        "langfuse.trace.tags": [trace.run.benchmark, trace.question.benchmark, trace.attempt.status],
        "langfuse.version": trace.run.version or None,
        "langfuse.trace.metadata.run": trace.run.id,
        "langfuse.trace.metadata.question_id": trace.question.id,
    }
    if node.kind == "attempt":
        made["langfuse.trace.input"], made["langfuse.trace.output"] = _text(node.input), _text(node.output)
        about = {**node.facts, "options": trace.question.options, "identity": trace.run.identity}
        made |= {f"langfuse.trace.metadata.{key}": _text(value) for key, value in about.items()}
    else:
        facts = node.facts if node.kind in ("model", "embedding") else {**node.facts, **node.parameters}
        made |= {f"langfuse.observation.metadata.{key}": _text(value) for key, value in facts.items()}
    if node.kind in ("model", "embedding"):
        made["langfuse.observation.model.name"] = node.model
        made["langfuse.observation.model.parameters"] = _text(
            {key: value if isinstance(value, str) else _text(value) for key, value in node.parameters.items()}
        )
    if node.usage is not None:
        usage = node.usage
        # It adds the parts up and prices each by its name: no token stands in two of them.
        made["langfuse.observation.usage_details"] = _text(
            {
                "input": max(0, usage.input - usage.cached),
                "input_cached_tokens": usage.cached,
                "output": max(0, usage.output - usage.reasoning),
                "output_reasoning_tokens": usage.reasoning,
                "total": usage.input + usage.output,
            }
        )
    if node.cost is not None:
        made["langfuse.observation.cost_details"] = _text({"total": node.cost})
    return made


def score_requests(trace: Trace) -> Iterator[dict[str, object]]:
    """The scores of a clean attempt that have a value."""
    return (score_request(trace, score) for score in trace.scores if score.value is not None)


def score_request(trace: Trace, score: Score) -> dict[str, object]:
    """A score of a clean attempt as the scores API takes it."""
    return {
        "id": str(uuid.uuid5(_SPACE, f"{trace_digest(trace).hex()} {score.scorer}")),
        "traceId": trace_id(trace).hex(),
        "observationId": span_id(trace, ()).hex(),
        "name": score.scorer,
        "value": score.value,
        "dataType": "NUMERIC",
        "comment": score_words(score, trace.gold),
        "metadata": {**score_facts(score), "run": trace.run.id},
    }


def _output(node: TraceNode) -> object:
    if node.kind != "search" or node.call is None:
        return node.output
    return [
        {"id": one.id, "score": float(one.score), **passage_facts(one), "text": one.text} for one in node.call.passages
    ]


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


class LangfuseOptions(Struct, frozen=True):
    """Which server."""

    endpoint: Annotated[
        str, Meta(description="Send to this Langfuse server, such as https://cloud.langfuse.com; questions, answers "
                              "and passages go there. Its keys are read from LANGFUSE_PUBLIC_KEY and "
                              "LANGFUSE_SECRET_KEY.")
    ] = ""  # fmt: skip


def _check(options: LangfuseOptions, to_file: bool) -> None:
    check_server(options.endpoint, "Langfuse", "https://cloud.langfuse.com", *_KEYS)


def _send(export: Export[LangfuseOptions]) -> str:
    public, secret = (os.environ.get(name, "").strip() for name in _KEYS)
    place, login = export.options.endpoint.rstrip("/"), base64.b64encode(f"{public}:{secret}".encode()).decode()
    own, secrets = {"Authorization": f"Basic {login}"}, [secret, login]
    url = f"{place}/api/public/scores"  # which takes one a request
    scores = Delivery[dict[str, object]](
        url, "scores", headers=own, secrets=secrets, progress=export.progress, at_once=8
    )
    where, headers = f"{place}/api/public/otel/v1/traces", {**own, **_VERSION}
    said = OtlpExporter(span_attributes).send_runs(export, where, headers, secrets, score_requests, scores)
    return f"{said}: {export.options.endpoint}"


FORMAT = ExportFormat(
    name="langfuse",
    summary="Traces and scores sent to a Langfuse server. Needs --endpoint, and the keys in LANGFUSE_PUBLIC_KEY and "
    "LANGFUSE_SECRET_KEY.",
    writes="nothing",
    extra="export",
    options=LangfuseOptions,
    send=_send,
    check=_check,
)
