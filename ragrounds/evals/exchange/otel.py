"""OpenTelemetry spans with the OpenInference conventions (Phoenix, Langfuse show them), into a file or to a server.

One trace an attempt: the attempt (AGENT), its steps (CHAIN), its calls (LLM, RETRIEVER, TOOL). Ids are hashes of run,
question and epoch, so exporting again gives the same spans. A file holds OTLP/JSON, one request a line.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ragrounds.addresses import check_address
from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export, ExportFormat, ExportPart, Redactor, lines_file, optional_module
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import Trace, TracedCall, every_trace
from ragrounds.evals.store.traces import steps as steps_of
from ragrounds.records import WITHOUT_ANSWER, Run, Usage

_KINDS = {"model": "LLM", "search": "RETRIEVER", "tool": "TOOL"}
Attributes = dict[str, object]


class SpanBuilder:
    """Makes the spans of traces. Needs the extra ``export``."""

    def __init__(self) -> None:
        self._hide = Redactor()
        self._sdk = optional_module("opentelemetry.sdk.trace", "OpenTelemetry")
        self._api = optional_module("opentelemetry.trace", "OpenTelemetry")
        conventions = optional_module("openinference.semconv.trace", "OpenTelemetry")
        self._names = conventions.SpanAttributes
        self._message = conventions.MessageAttributes
        self._document = conventions.DocumentAttributes
        resources = optional_module("opentelemetry.sdk.resources", "OpenTelemetry")
        project = optional_module("openinference.semconv.resource", "OpenTelemetry").ResourceAttributes.PROJECT_NAME
        self._resources: dict[str, object] = {}
        self._resource: Callable[[str], Any] = lambda name: resources.Resource(
            {"service.name": "ragrounds", project: name}
        )
        self._scope = optional_module("opentelemetry.sdk.util.instrumentation", "OpenTelemetry").InstrumentationScope(
            "ragrounds"
        )

    def spans(self, trace: Trace) -> Iterator[Any]:
        """The spans of one attempt, the attempt itself first."""
        attempt, run = trace.attempt, trace.run
        key = (run.id, trace.question.id, str(attempt.epoch), *([str(attempt.retry)] if attempt.retry else []))
        names = self._names
        start = attempt.at or run.created
        score = {f"{one.scorer}.score": one.value for one in trace.scores if one.value is not None}
        metadata = {
            "run": run.id,
            "agent": run.agent,
            "question_id": trace.question.id,
            "dataset": trace.question.benchmark,
            "subject": trace.question.group,
            "epoch": attempt.epoch,
            "status": attempt.status,
            "retry": attempt.retry,
            **score,
        }
        yield self._span(
            key, (), None, run.agent, "AGENT", start, start + attempt.seconds,
            {
                names.INPUT_VALUE: _asked(trace),
                names.OUTPUT_VALUE: attempt.text,
                names.SESSION_ID: run.id,
                names.METADATA: msgspec.json.encode(metadata).decode(),
                **self._usage(attempt.usage, attempt.cost_uncached),
            },
            (attempt.reason or attempt.status) if attempt.status in WITHOUT_ANSWER else "",
            run.id,
        )  # fmt: skip
        for place, (step, traced) in enumerate(zip(steps_of(attempt.events), trace.steps, strict=True)):
            begun = step.at or start
            ended = begun + step.seconds if step.seconds is not None else max(begun, start + attempt.seconds)
            changes = msgspec.json.encode(step.changes).decode()
            output: Attributes = (
                {names.OUTPUT_VALUE: changes, names.OUTPUT_MIME_TYPE: "application/json"} if step.changes else {}
            )
            yield self._span(
                key, (place,), (), step.node or "outside of any node", "CHAIN", begun, ended, output, step.error, run.id
            )
            for number, call in enumerate(traced.calls):
                at = call.call.at or begun
                yield self._span(
                    key, (place, number), (place,), f"{call.call.kind} {call.call.role}",
                    _KINDS.get(call.call.kind, "CHAIN"), at, at + call.call.seconds, self._call(call),
                    call.call.error, run.id,
                )  # fmt: skip

    def _span(
        self,
        key: tuple[str, ...],
        place: tuple[int, ...],
        parent: tuple[int, ...] | None,
        name: str,
        kind: str,
        start: float,
        end: float,
        attributes: Attributes,
        error: str,
        run: str,
    ) -> Any:
        api = self._api
        status = api.Status(api.StatusCode.ERROR, self._hide(error)) if error else api.Status(api.StatusCode.OK)
        if run not in self._resources:
            self._resources[run] = self._resource(run)
        shown: Attributes = {self._names.OPENINFERENCE_SPAN_KIND: kind}
        for attribute, value in attributes.items():
            if value is not None:
                shown[attribute] = self._hide(value) if isinstance(value, str) else value
        return self._sdk.ReadableSpan(
            name=self._hide(name),
            context=self._context(key, place),
            parent=self._context(key, parent) if parent is not None else None,
            resource=self._resources[run],
            attributes=shown,
            status=status,
            start_time=_nano(start),
            end_time=_nano(end),
            instrumentation_scope=self._scope,
        )

    def _context(self, key: tuple[str, ...], place: tuple[int, ...]) -> Any:
        trace = hashlib.sha256("\0".join(key).encode()).digest()
        span = hashlib.sha256(trace + repr(place).encode()).digest()
        return self._api.SpanContext(
            trace_id=int.from_bytes(trace[:16], "big") or 1,
            span_id=int.from_bytes(span[:8], "big") or 1,
            is_remote=False,
            trace_flags=self._api.TraceFlags(1),
        )

    def _call(self, traced: TracedCall) -> Attributes:
        call, names = traced.call, self._names
        found: Attributes = {names.METADATA: msgspec.json.encode({"cached": call.cached, "role": call.role}).decode()}
        if call.kind == "model":
            found[names.LLM_MODEL_NAME] = (traced.reply.model if traced.reply else "") or call.actor
            found |= self._usage(call.usage, call.cost_uncached)
            if traced.asked is not None:
                for number, message in enumerate(traced.asked.messages):
                    at = f"{names.LLM_INPUT_MESSAGES}.{number}."
                    found[at + self._message.MESSAGE_ROLE] = message.role
                    found[at + self._message.MESSAGE_CONTENT] = message.content
                found[names.INPUT_VALUE] = traced.asked.messages[-1].content if traced.asked.messages else ""
            if traced.reply is not None:
                at = f"{names.LLM_OUTPUT_MESSAGES}.0."
                found[at + self._message.MESSAGE_ROLE] = "assistant"
                found[at + self._message.MESSAGE_CONTENT] = traced.reply.text
                found[names.OUTPUT_VALUE] = traced.reply.text
        if traced.searched is not None:
            found[names.INPUT_VALUE] = traced.searched.query
        for number, passage in enumerate(traced.passages):
            at = f"{names.RETRIEVAL_DOCUMENTS}.{number}."
            about = {"document": passage.document, "title": passage.title, "corpus": passage.corpus}
            found[at + self._document.DOCUMENT_ID] = passage.id
            found[at + self._document.DOCUMENT_SCORE] = float(passage.score)
            found[at + self._document.DOCUMENT_CONTENT] = passage.text
            found[at + self._document.DOCUMENT_METADATA] = msgspec.json.encode(about).decode()
        return found

    def _usage(self, usage: Usage | None, cost: float | None) -> Mapping[str, object]:
        names = self._names
        cost_paid = {} if cost is None else {names.LLM_COST_TOTAL: cost}
        if usage is None:
            return cost_paid
        return {
            names.LLM_TOKEN_COUNT_PROMPT: usage.input,
            names.LLM_TOKEN_COUNT_COMPLETION: usage.output,
            names.LLM_TOKEN_COUNT_TOTAL: usage.input + usage.output,
            names.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_READ: usage.cached,
            names.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING: usage.reasoning,
            **cost_paid,
        }


def _asked(trace: Trace) -> str:
    options = "\n".join(f"{label}. {text}" for label, text in trace.question.options.items())
    return f"{trace.question.text}\n{options}".rstrip()


def _nano(seconds: float) -> int:
    return round(seconds * 1e9)


_ATTEMPTS = 50
"""Attempts in one request."""
_IDS = ("traceId", "spanId", "parentSpanId")


def batches(store: Store, runs: Sequence[Run]) -> Iterator[list[Any]]:
    """The spans of the runs, those of some attempts at a time."""
    builder = SpanBuilder()
    traces = (trace for run in runs for trace in every_trace(store, run))
    while some := list(itertools.islice(traces, _ATTEMPTS)):
        yield [span for trace in some for span in builder.spans(trace)]


def otlp_json(store: Store, runs: Sequence[Run]) -> Iterator[bytes]:
    """The spans as lines of OTLP/JSON, as the OpenTelemetry collector's file receiver reads them."""
    encode = optional_module("opentelemetry.exporter.otlp.proto.common.trace_encoder", "OpenTelemetry").encode_spans
    as_dict = optional_module("google.protobuf.json_format", "OpenTelemetry").MessageToDict
    for spans in batches(store, runs):
        request = as_dict(encode(spans), use_integers_for_enums=True)
        for resource in request["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    # OTLP/JSON writes ids as hexadecimal digits, where protobuf's own JSON has base64.
                    span |= {name: base64.b64decode(span[name]).hex() for name in _IDS if name in span}
        yield msgspec.json.encode(request) + b"\n"


def send(store: Store, runs: Sequence[Run], endpoint: str, headers: Mapping[str, str]) -> int:
    """Send the spans to a collector; returns how many.

    Raises:
        UserError: it cannot be reached, or refuses them.
    """
    module = optional_module("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OpenTelemetry")
    success = optional_module("opentelemetry.sdk.trace.export", "OpenTelemetry").SpanExportResult.SUCCESS
    exporter = module.OTLPSpanExporter(endpoint=endpoint, headers=dict(headers), timeout=30)
    sent = 0
    try:
        for spans in batches(store, runs):
            if exporter.export(spans) is not success:
                raise UserError(
                    f"The collector at {endpoint} did not take the spans after {sent:,} of them. Is it an OTLP/HTTP "
                    "address, such as http://127.0.0.1:6006/v1/traces?"
                )
            sent += len(spans)
    finally:
        exporter.shutdown()
    return sent


class OtelOptions(Struct, frozen=True):
    """Where the spans go, where they are sent."""

    endpoint: Annotated[
        str, Meta(description="Or send to this OTLP/HTTP address, such as http://127.0.0.1:6006/v1/traces.")
    ] = ""
    header: Annotated[list[str], Meta(description="NAME=VALUE sent along with --endpoint (repeatable).")] = []


def _parts(export: Export[OtelOptions]) -> Iterator[ExportPart]:
    yield lines_file(lambda: otlp_json(export.store, export.runs))


def _check(options: OtelOptions, to_file: bool) -> None:
    if to_file == bool(options.endpoint):
        raise UserError("Give one of --out FILE and --endpoint URL.")
    check_address(options.endpoint, "send it with --header NAME=VALUE")
    for text in options.header:
        _header(text)


def _send(export: Export[OtelOptions]) -> str:
    endpoint = export.options.endpoint
    headers = dict(_header(text) for text in export.options.header)
    return f"{send(export.store, export.runs, endpoint, headers):,} spans sent to {endpoint}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UserError("--header must be NAME=VALUE.")
    return name.strip(), value.strip()


FORMAT = ExportFormat(
    name="otel",
    summary="OpenTelemetry spans with the OpenInference conventions (Phoenix, Langfuse). Only --endpoint sends them.",
    writes="file",
    extra="export",
    options=OtelOptions,
    parts=_parts,
    send=_send,
    check=_check,
)
