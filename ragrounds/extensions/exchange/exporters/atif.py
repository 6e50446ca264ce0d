"""ATIF trajectories (version 1.7; Harbor's agent trajectory format): one JSON object per attempt, one per line.

The first step is the question as the agent got it. Every call of a model is a step with its reply, tokens and cost;
every search and use of a tool is one without a model, with its output. Gold and scores are ``extra``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ragrounds.base.records import ToolCall, Usage
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.exporters.trace_nodes import (
    TraceCleaner,
    TraceNode,
    asked_text,
    attempt_facts,
    trace_digest,
    trace_nodes,
)
from ragrounds.extensions.exchange.formats import Export, ExportFormat, ExportPart, NoOptions, lines_file

VERSION = "ATIF-v1.7"


def trajectory(trace: Trace) -> dict[str, Any]:
    """Return a clean attempt as a trajectory."""
    attempt, run = trace.attempt, trace.run
    steps: list[dict[str, Any]] = [{"source": "user", "message": asked_text(trace.question)}]
    for number, node in enumerate(trace_nodes(trace)):
        if node.kind in ("model", "search", "tool"):
            timestamp = datetime.fromtimestamp(node.start, UTC).isoformat()
            steps.append({"timestamp": timestamp, "source": "agent", **_call_fields(node, f"call-{number}")})
    if steps[-1]["message"] != attempt.text or len(steps) == 1:  # the answer differs from every reply
        steps.append({"source": "agent", "message": attempt.text, "llm_call_count": 0})
    model = next(map(str, (run.identity.get("models") or {}).values()), None)
    return {
        "schema_version": VERSION,
        "session_id": run.id,
        "trajectory_id": trace_digest(trace).hex()[:32],
        "agent": {"name": run.agent, "version": run.fingerprint[:12], **_without_none({"model_name": model})},
        "steps": [{"step_id": index, **step} for index, step in enumerate(steps, 1)],
        "final_metrics": _without_none(
            {**_tokens(attempt.usage, "total_"), "total_cost_usd": attempt.cost_uncached, "total_steps": len(steps)}
        ),
        "extra": attempt_facts(trace),
    }


def _call_fields(node: TraceNode, id: str) -> dict[str, Any]:
    """Return the fields of a step that describe its call."""
    extra = {"extra": {"error": node.error}} if node.error else {}
    if node.kind == "model":
        reply = node.call.reply if node.call else None
        calls = [_tool_call(call, f"{id}-{index}") for index, call in enumerate(reply.calls if reply else ())]
        fields = {
            "message": reply.text if reply else "",
            "model_name": node.model,
            "reasoning_content": (reply.reasoning if reply else "") or None,
            "tool_calls": calls or None,
            "metrics": _without_none({**_tokens(node.usage), "cost_usd": node.cost}) or None,
        }
        return {**_without_none(fields), "llm_call_count": 1, **extra}
    arguments = (
        node.input if isinstance(node.input, dict) else {"query" if node.kind == "search" else "input": node.input}
    )
    output: object = node.output
    if node.kind == "search" and node.call is not None:
        output = [{"id": passage.id, "title": passage.title, "text": passage.text} for passage in node.call.passages]
    content = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return {
        "message": "",
        "tool_calls": [{"tool_call_id": id, "function_name": node.name, "arguments": {**arguments, **node.parameters}}],
        "observation": {"results": [{"source_call_id": id, "content": content}]},
        "llm_call_count": 0,
        **extra,
    }


def _tool_call(call: ToolCall, id: str) -> dict[str, Any]:
    """Return a model's tool call. Its arguments are whatever the model wrote."""
    try:
        parsed = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        parsed = call.arguments
    arguments = parsed if isinstance(parsed, dict) else {"arguments": parsed}
    return {"tool_call_id": call.id or id, "function_name": call.name, "arguments": arguments}


def _tokens(usage: Usage | None, prefix: str = "") -> dict[str, Any]:
    field_by_name = {"prompt_tokens": "input", "completion_tokens": "output", "cached_tokens": "cached"}
    return {} if usage is None else {f"{prefix}{name}": getattr(usage, field) for name, field in field_by_name.items()}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    traces = TraceCleaner().traces(export.store, export.runs)
    yield lines_file(lambda: (msgspec.json.encode(trajectory(trace)) + b"\n" for trace in traces))


FORMAT = ExportFormat(
    name="atif",
    summary="ATIF trajectories (v1.7, Harbor's format): an attempt a line, with its calls as steps.",
    writes="file",
    options=NoOptions,
    parts=_parts,
)
