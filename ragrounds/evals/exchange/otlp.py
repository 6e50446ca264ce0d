"""Spans as OpenTelemetry's protocol: into a file (OTLP/JSON, one request a line), or to a collector by HTTP."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ragrounds.errors import UserError
from ragrounds.evals.exchange.extras import need
from ragrounds.evals.exchange.spans import SpanBuilder
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import every_trace
from ragrounds.records import Run

_ATTEMPTS = 50
"""Attempts in one request."""
_IDS = ("traceId", "spanId", "parentSpanId")


def batches(store: Store, runs: Sequence[Run]) -> Iterator[list[Any]]:
    """The spans of the runs, some attempts at a time."""
    builder = SpanBuilder()
    traces = (trace for run in runs for trace in every_trace(store, run))
    while some := list(itertools.islice(traces, _ATTEMPTS)):
        yield [span for trace in some for span in builder.spans(trace)]


def otlp_json(store: Store, runs: Sequence[Run]) -> Iterator[bytes]:
    """Lines of OTLP/JSON, as the OpenTelemetry collector's file receiver reads them."""
    encode = need("opentelemetry.exporter.otlp.proto.common.trace_encoder", "OpenTelemetry").encode_spans
    as_dict = need("google.protobuf.json_format", "OpenTelemetry").MessageToDict
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
    module = need("opentelemetry.exporter.otlp.proto.http.trace_exporter", "OpenTelemetry")
    success = need("opentelemetry.sdk.trace.export", "OpenTelemetry").SpanExportResult.SUCCESS
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
