"""Runs sent to a Phoenix server: attempts as traces, scores as annotations.

Scores annotate the attempt's own span under their scorers' names, as the work of code or, where a model judged, of an
LLM. Sent again, spans stay as they are and annotations are replaced, so that runs scored anew have their new scores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ragrounds.evals.exchange.delivery import Delivery, check_server
from ragrounds.evals.exchange.formats import Export, ExportFormat
from ragrounds.evals.exchange.openinference import PROJECT, openinference
from ragrounds.evals.exchange.otlp import OtlpExporter, span_id
from ragrounds.evals.exchange.trace_nodes import by_judge, score_facts, score_words
from ragrounds.evals.store.traces import Trace

_ANNOTATIONS = 200
"""Annotations in one request."""
PATIENCE = 60.0
"""Seconds to wait for spans that the server has taken and does not hold yet: it keeps some tens to hundreds a second,
in the order in which they came, and annotations follow in the same order."""


class SpanAnnotation(Struct, frozen=True):
    """What Phoenix is told of a span."""

    span_id: str
    name: str
    annotator_kind: str
    result: dict[str, object]
    metadata: dict[str, object] = {}
    identifier: str = ""


def score_annotations(trace: Trace, project: str = "") -> Iterator[SpanAnnotation]:
    """The scores of a clean attempt. One without a value has only its answer status and its reason."""
    root = span_id(trace, (), project).hex()
    for score in trace.scores:
        result: dict[str, object] = {"label": score.answer_status, "explanation": score_words(score, trace.gold)}
        if score.value is not None:
            result["score"] = score.value
        kind = "LLM" if by_judge(score) else "CODE"
        yield SpanAnnotation(root, score.scorer, kind, result, {**score_facts(score), "run": trace.run.id}, "ragrounds")


class PhoenixOptions(Struct, frozen=True):
    """Which server, and which of its projects."""

    endpoint: Annotated[
        str, Meta(description="Send to this Phoenix server, such as http://127.0.0.1:6006; questions, answers and "
                              "passages go there. Its key is read from PHOENIX_API_KEY.")
    ] = ""  # fmt: skip
    project: Annotated[str, Meta(description="The project there. [default: one for each run, by its id]")] = ""


def _check(options: PhoenixOptions, to_file: bool) -> None:
    check_server(options.endpoint, "Phoenix", "http://127.0.0.1:6006", "PHOENIX_API_KEY", needed=False)


def _body(items: Sequence[SpanAnnotation]) -> bytes:
    return msgspec.json.encode({"data": items})


def _send(export: Export[PhoenixOptions]) -> str:
    options, key = export.options, os.environ.get("PHOENIX_API_KEY", "").strip()
    place, own = options.endpoint.rstrip("/"), {"Authorization": f"Bearer {key}"} if key else {}
    scores = Delivery[SpanAnnotation](
        f"{place}/v1/span_annotations?sync=true",
        "scores",
        _body,
        headers=own,
        secrets=[key],
        progress=export.progress,
        patience=PATIENCE,
    )
    exporter = OtlpExporter(partial(openinference, documents_as_output=False), options.project, PROJECT)
    scored = partial(score_annotations, project=options.project)
    said = exporter.send_runs(export, f"{place}/v1/traces", own, [key], scored, scores, _ANNOTATIONS)
    return f"{said}: {options.endpoint}, project {options.project or 'of each run'}"


FORMAT = ExportFormat(
    name="phoenix",
    summary="Traces and scores sent to a Phoenix server: scores as annotations. Needs --endpoint.",
    writes="nothing",
    extra="export",
    options=PhoenixOptions,
    send=_send,
    check=_check,
)
