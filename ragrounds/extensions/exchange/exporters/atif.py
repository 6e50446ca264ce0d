"""ATIF trajectories (version 1.7; Harbor's agent trajectory format): a JSON object an attempt, a line each.

The first step is the question as it was asked. Every call of a model is a step with its reply, tokens and cost; every
search and use of a tool is one without a model, with what it gave. Gold and scores are ``extra``.
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
    """A clean attempt as a trajectory."""
    attempt, run = trace.attempt, trace.run
    steps: list[dict[str, Any]] = [{"source": "user", "message": asked_text(trace.question)}]
    for number, node in enumerate(trace_nodes(trace)):
        if node.kind in ("model", "search", "tool"):
            at = datetime.fromtimestamp(node.start, UTC).isoformat()
            steps.append({"timestamp": at, "source": "agent", **_called(node, f"call-{number}")})
    if steps[-1]["message"] != attempt.text or len(steps) == 1:  # an answer that no reply is word for word
        steps.append({"source": "agent", "message": attempt.text, "llm_call_count": 0})
    model = next(map(str, (run.identity.get("models") or {}).values()), None)
    return {
        "schema_version": VERSION,
        "session_id": run.id,
        "trajectory_id": trace_digest(trace).hex()[:32],
        "agent": {"name": run.agent, "version": run.fingerprint[:12], **_known({"model_name": model})},
        "steps": [{"step_id": place, **step} for place, step in enumerate(steps, 1)],
        "final_metrics": _known(
            {**_tokens(attempt.usage, "total_"), "total_cost_usd": attempt.cost_uncached, "total_steps": len(steps)}
        ),
        "extra": attempt_facts(trace),
    }


def _called(node: TraceNode, id: str) -> dict[str, Any]:
    """What a call says of its step."""
    extra = {"extra": {"error": node.error}} if node.error else {}
    if node.kind == "model":
        reply = node.call.reply if node.call else None
        calls = [_tool_call(one, f"{id}-{place}") for place, one in enumerate(reply.calls if reply else ())]
        made = {
            "message": reply.text if reply else "",
            "model_name": node.model,
            "reasoning_content": (reply.reasoning if reply else "") or None,
            "tool_calls": calls or None,
            "metrics": _known({**_tokens(node.usage), "cost_usd": node.cost}) or None,
        }
        return {**_known(made), "llm_call_count": 1, **extra}
    given = node.input if isinstance(node.input, dict) else {"query" if node.kind == "search" else "input": node.input}
    found: object = node.output
    if node.kind == "search" and node.call is not None:
        found = [{"id": one.id, "title": one.title, "text": one.text} for one in node.call.passages]
    content = found if isinstance(found, str) else msgspec.json.encode(found).decode()
    return {
        "message": "",
        "tool_calls": [{"tool_call_id": id, "function_name": node.name, "arguments": {**given, **node.parameters}}],
        "observation": {"results": [{"source_call_id": id, "content": content}]},
        "llm_call_count": 0,
        **extra,
    }


def _tool_call(call: ToolCall, id: str) -> dict[str, Any]:
    """A model's wish, whose arguments are whatever it wrote."""
    try:
        given = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError):
        given = call.arguments
    arguments = given if isinstance(given, dict) else {"arguments": given}
    return {"tool_call_id": call.id or id, "function_name": call.name, "arguments": arguments}


def _tokens(usage: Usage | None, prefix: str = "") -> dict[str, Any]:
    named = {"prompt_tokens": "input", "completion_tokens": "output", "cached_tokens": "cached"}
    return {} if usage is None else {f"{prefix}{name}": getattr(usage, field) for name, field in named.items()}


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _parts(export: Export[NoOptions]) -> Iterator[ExportPart]:
    traces = TraceCleaner().traces(export.store, export.runs)
    yield lines_file(lambda: (msgspec.json.encode(trajectory(one)) + b"\n" for one in traces))


FORMAT = ExportFormat(
    name="atif",
    summary="ATIF trajectories (v1.7, Harbor's format): an attempt a line, with its calls as steps.",
    writes="file",
    options=NoOptions,
    parts=_parts,
)
