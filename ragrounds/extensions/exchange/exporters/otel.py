"""OpenTelemetry spans with the OpenInference conventions, into a file or to a collector.

One trace per attempt: the attempt (AGENT), its steps (CHAIN), its calls (LLM, EMBEDDING, RETRIEVER, TOOL). A file
contains OTLP/JSON, one request per line. Scores are in the attempt's metadata: OTLP has no other field for them.

The messages are those of ``opentelemetry-proto``. OpenTelemetry's SDK is not used: it makes spans of running code, with
random ids, and its exporter reports neither what a server refused nor why.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ragrounds.base.addresses import check_http_address
from ragrounds.base.chunks import in_batches
from ragrounds.base.errors import UserError
from ragrounds.base.http import HttpAnswer
from ragrounds.base.records import Run
from ragrounds.base.text import safe
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.delivery import Delivery, Refusal
from ragrounds.extensions.exchange.exporters.openinference import PROJECT, openinference
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner, node_digest, trace_digest, trace_nodes
from ragrounds.extensions.exchange.formats import (
    Export,
    ExportFormat,
    Progress,
    lines_file,
    optional_module,
)
from ragrounds.version import __version__

MOST, LARGEST = 512, 2_000_000
"""Largest numbers of spans, and of bytes before compression, in one request."""
_HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
_SECRET = re.compile("auth|key|token|secret|password|cookie", re.IGNORECASE)
"""Names of headers whose values are keys."""
_VALUES = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
"""Type of an attribute → its field in OTLP."""


def otlp_json(store: Store, runs: Sequence[Run]) -> Iterator[bytes]:
    """Yield the spans as lines of OTLP/JSON, as the OpenTelemetry collector's file receiver reads them."""
    to_dict = optional_module("google.protobuf.json_format", "OpenTelemetry").MessageToDict
    for batch in _batches(store, runs):
        request = to_dict(_request(batch), use_integers_for_enums=True)
        for span in (span for part in request["resourceSpans"] for span in part["scopeSpans"][0]["spans"]):
            # OTLP/JSON writes ids as hexadecimal digits, protobuf's JSON as base64.
            for name in ("traceId", "spanId", "parentSpanId") & span.keys():
                span[name] = base64.b64decode(span[name]).hex()
        yield msgspec.json.encode(request) + b"\n"


def send(
    store: Store,
    runs: Sequence[Run],
    endpoint: str,
    headers: Mapping[str, str],
    progress: Progress = lambda label, done: None,
) -> str:
    """Send the spans to a collector, and return a phrase on the result.

    Raises:
        UserError: it cannot be reached, or accepts none of them.
    """
    delivery = Delivery(
        endpoint,
        lambda batch: gzip.compress(_request(batch).SerializeToString(), 6),
        headers={**headers, **_HEADERS},
        secrets=headers.values(),
        progress=progress,
        refusal_in=_refusal,
    )
    delivery.deliver(_batches(store, runs))
    return delivery.words()


def span_id(trace: Trace, place: tuple[int, ...]) -> bytes:
    """Return the 8 bytes by which OpenTelemetry identifies a node."""
    return node_digest(trace, place)[:8]


class _Span(Struct, frozen=True):
    run: str
    message: Any
    """Span as a protobuf message."""


def _batches(store: Store, runs: Sequence[Run]) -> Iterator[list[_Span]]:
    """Return batches of the spans of all attempts, each as large as a request may be."""
    spans = (span for trace in TraceCleaner().traces(store, runs) for span in _spans(trace))
    return in_batches(spans, MOST, lambda span: int(span.message.ByteSize()), LARGEST)


def _spans(trace: Trace) -> Iterator[_Span]:
    message = _proto("trace.v1.trace_pb2").Span
    for node in trace_nodes(trace):
        yield _Span(
            trace.run.id,
            message(
                trace_id=trace_digest(trace)[:16],
                span_id=span_id(trace, node.position),
                parent_span_id=None if node.parent is None else span_id(trace, node.parent),
                name=node.name,
                kind="SPAN_KIND_INTERNAL",
                start_time_unix_nano=_nano(node.start),
                end_time_unix_nano=_nano(node.end),
                attributes=_key_values(openinference(trace, node)),
                status={"code": "STATUS_CODE_ERROR" if node.error else "STATUS_CODE_OK", "message": node.error},
            ),
        )


def _request(spans: Sequence[_Span]) -> Any:
    """Return a request as a protobuf message: every run is a project."""
    names = {"service.name": "ragrounds", "service.version": __version__}
    scope = {"name": "ragrounds", "version": __version__}
    return _proto("collector.trace.v1.trace_service_pb2").ExportTraceServiceRequest(
        resource_spans=[
            {
                "resource": {"attributes": _key_values({**names, PROJECT: run})},
                "scope_spans": [{"scope": scope, "spans": [span.message for span in spans if span.run == run]}],
            }
            for run in dict.fromkeys(span.run for span in spans)
        ]
    )


def _key_values(attributes: Mapping[str, object]) -> list[dict[str, object]]:
    return [
        {"key": key, "value": {_VALUES[type(value)]: value}} for key, value in attributes.items() if value is not None
    ]


def _refusal(answer: HttpAnswer) -> Refusal | None:
    """Return the refusal in a server's answer to an accepted request; ``None`` if it rejected nothing."""
    if "protobuf" not in answer.headers.get("content-type", ""):
        return None
    response = _proto("collector.trace.v1.trace_service_pb2").ExportTraceServiceResponse
    try:
        partial = response.FromString(answer.body).partial_success
    except Exception:  # protobuf's error: the answer is no message
        return None
    return Refusal(int(partial.rejected_spans), str(partial.error_message)) if partial.rejected_spans else None


def _proto(module: str) -> ModuleType:
    return optional_module(f"opentelemetry.proto.{module}", "OpenTelemetry")


def _nano(seconds: float) -> int:
    # Microseconds first: nanoseconds of today have more digits than a float.
    return max(0, round(seconds * 1e6)) * 1000


class OtelOptions(Struct, frozen=True):
    """Address and headers for sending the spans."""

    endpoint: Annotated[
        str, Meta(description="Or send to this OTLP/HTTP address, such as http://127.0.0.1:4318/v1/traces.")
    ] = ""
    header: Annotated[
        list[str], Meta(description="NAME=VALUE sent along with --endpoint (repeatable); NAME=env:VARIABLE for a key.")
    ] = []


def _check(options: OtelOptions, to_file: bool) -> None:
    if to_file == bool(options.endpoint):
        raise UserError("Give one of --out FILE and --endpoint URL.")
    if options.endpoint:
        check_http_address(options.endpoint, "send it with --header NAME=env:VARIABLE")
    for text in options.header:
        _header(text)


def _send(export: Export[OtelOptions]) -> str:
    endpoint = export.options.endpoint
    headers = dict(_header(text) for text in export.options.header)
    return f"{send(export.store, export.runs, endpoint, headers, export.progress)} to {endpoint}"


def _header(text: str) -> tuple[str, str]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not sign or not name:
        raise UserError("--header must be NAME=VALUE.")
    variable = value.removeprefix("env:")
    if variable != value:
        if not os.environ.get(variable):
            raise UserError(f"--header {name}: the variable {safe(variable, 100)!r} is not set.")
        value = os.environ[variable].strip()
    elif _SECRET.search(name):
        raise UserError(
            f"--header {name} was given with its value, which is in the shell's history and in the list of "
            f"processes. Put it into a variable and give --header {name}=env:VARIABLE."
        )
    return name, value


FORMAT = ExportFormat(
    name="otel",
    summary="OpenTelemetry spans with the OpenInference conventions. Only --endpoint sends them.",
    writes="file",
    extra="export",
    options=OtelOptions,
    parts=lambda export: iter([lines_file(lambda: otlp_json(export.store, export.runs))]),
    send=_send,
    check=_check,
)
