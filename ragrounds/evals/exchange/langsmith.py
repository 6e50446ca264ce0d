"""Runs sent to a LangSmith server: attempts as traces to its OpenTelemetry endpoint, scores as feedback on them.

LangSmith reads the OpenInference conventions, and some attributes of its own beside them. The id of a run there is made
of its span's, so that sending again doubles nothing and feedback finds its trace.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ragrounds.evals.exchange.delivery import Delivery, Refusal, check_server
from ragrounds.evals.exchange.formats import Export, ExportFormat
from ragrounds.evals.exchange.openinference import Attributes, chat_input, openinference
from ragrounds.evals.exchange.otlp import OtlpExporter, span_id
from ragrounds.evals.exchange.trace_nodes import TraceNode, by_judge, score_facts, score_words
from ragrounds.evals.store.traces import Trace
from ragrounds.http import HttpAnswer, read_json
from ragrounds.records import Score

_KEY = "LANGSMITH_API_KEY"


def span_attributes(trace: Trace, node: TraceNode) -> Attributes:
    """The attributes of a node of a clean trace."""
    made = openinference(trace, node)
    if node.kind in ("model", "embedding") and node.input is not None:
        asked = chat_input(node)
        made["input.value"] = _json(asked if isinstance(asked, dict) else {"messages": asked})
        made["output.value"] = None if node.output is None else _json({"messages": [node.output]})
        made["llm.system"] = node.provider or None
    if node.usage is not None:
        usage = node.usage
        known = {} if node.cost is None else {"total_cost": node.cost}
        made["langsmith.usage_metadata"] = _json(
            {
                "input_tokens": usage.input,
                "output_tokens": usage.output,
                "total_tokens": usage.input + usage.output,
                "input_token_details": {"cache_read": usage.cached},
                "output_token_details": {"reasoning": usage.reasoning},
                **known,
            }
        )
    return made


def feedback_fields(trace: Trace, score: Score, project: str, session: str) -> dict[str, object]:
    """A score of a clean attempt as LangSmith's feedback on its trace; `session` is the project's id there."""
    root = uuid.UUID(bytes=span_id(trace, (), project).rjust(16, b"\0"))
    return {
        "id": str(uuid.uuid5(root, score.scorer)),
        "run_id": str(root),
        "trace_id": str(root),
        "session_id": session or None,
        "start_time": datetime.fromtimestamp(trace.attempt.at or trace.run.created, UTC).isoformat(),
        "key": score.scorer,
        # It takes four decimals and refuses more.
        "score": None if score.value is None else round(score.value, 4),
        "value": score.answer_status,
        "comment": score_words(score, trace.gold),
        "feedback_source": {"type": "model" if by_judge(score) else "api", "metadata": score_facts(score)},
    }


class _Session:
    """The project's id, as the server gives it; feedback without it is not found by newer ones."""

    id = ""

    def read(self, answer: HttpAnswer) -> Refusal | None:
        try:
            found = read_json(answer.body)
        except ValueError:
            return None
        given = found.get("id") if isinstance(found, dict) else None
        self.id = given if isinstance(given, str) and len(given) < 100 else ""
        return None


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class LangSmithOptions(Struct, frozen=True):
    """Which server, and which of its projects."""

    endpoint: Annotated[
        str, Meta(description="Send to this LangSmith server, such as https://api.smith.langchain.com; questions, "
                              "answers and passages go there. Its key is read from LANGSMITH_API_KEY.")
    ] = ""  # fmt: skip
    project: Annotated[str, Meta(description="The project there.")] = "ragrounds"


def _check(options: LangSmithOptions, to_file: bool) -> None:
    check_server(options.endpoint, "LangSmith", "https://api.smith.langchain.com", _KEY)


def _send(export: Export[LangSmithOptions]) -> str:
    key, project = os.environ.get(_KEY, "").strip(), export.options.project
    place, own, session = export.options.endpoint.rstrip("/"), {"x-api-key": key}, _Session()
    opened = Delivery[dict[str, object]](
        f"{place}/sessions?upsert=true", "projects", headers=own, secrets=[key], read=session.read
    )
    opened.deliver([[{"name": project}]])

    def scored(trace: Trace) -> Iterator[dict[str, object]]:
        """Feedback on an attempt."""
        return (feedback_fields(trace, score, project, session.id) for score in trace.scores)

    scores = Delivery[dict[str, object]](
        f"{place}/feedback", "scores", headers=own, secrets=[key], progress=export.progress, at_once=8
    )
    exporter, named = OtlpExporter(span_attributes, project), {**own, "Langsmith-Project": project}
    said = exporter.send_runs(export, f"{place}/otel/v1/traces", named, [key], scored, scores)
    return f"{said}: {export.options.endpoint}, project {project}"


FORMAT = ExportFormat(
    name="langsmith",
    summary="Traces and scores sent to a LangSmith server. Needs --endpoint, and the key in LANGSMITH_API_KEY.",
    writes="nothing",
    extra="export",
    options=LangSmithOptions,
    send=_send,
    check=_check,
)
