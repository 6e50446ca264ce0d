"""Spans in OpenTelemetry's format: OTLP as protobuf for servers, as JSON for files.

The messages are those of ``opentelemetry-proto``. Its SDK is not used: its spans have random ids, and its exporter does
not report what a server refused.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

from ragrounds.base.http import HttpAnswer
from ragrounds.evals.trace.traces import Trace
from ragrounds.extensions.exchange.delivery import Delivery, Refusal, in_batches
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceNode, node_digest, trace_digest, trace_nodes
from ragrounds.extensions.exchange.formats import Progress, optional_module
from ragrounds.version import __version__

MOST, LARGEST = 512, 2_000_000
"""Largest numbers of spans, and of bytes before compression, in one request."""
HEADERS = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
_IDS = ("traceId", "spanId", "parentSpanId")


class _Message(Protocol):
    def SerializeToString(self) -> bytes: ...  # noqa: N802 - protobuf's


class OtlpSpan(Struct, frozen=True):
    """One encoded span, with the resource of its request."""

    resource: str
    """Project that the span belongs to, if servers take one."""
    span: _Message
    size: int
    """Size in bytes."""


class OtlpExporter:
    """Exporter that makes spans of traces and requests of spans, and sends them. It needs the extra ``export``. Servers
    differ only in the names of a node's attributes.

    Args:
        attributes: function that returns the attributes of a node's span; ``None`` is left out.
        project: project that the spans belong to; if empty, each run is a project, by its id. In another project, the
            same attempts are different traces.
        project_name: name of the resource attribute for the project; empty if there is no such attribute.
    """

    def __init__(
        self, attributes: Callable[[Trace, TraceNode], dict[str, object]], project: str = "", project_name: str = ""
    ) -> None:
        self._attributes, self._space, self._project = attributes, project, project_name
        self._trace = optional_module("opentelemetry.proto.trace.v1.trace_pb2", "OpenTelemetry")
        self._common = optional_module("opentelemetry.proto.common.v1.common_pb2", "OpenTelemetry")
        self._collector = optional_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "OpenTelemetry")
        self._dict = optional_module("google.protobuf.json_format", "OpenTelemetry").MessageToDict

    def spans(self, trace: Trace) -> Iterator[OtlpSpan]:
        """Yield the spans of one clean attempt, the attempt itself first."""
        for node in trace_nodes(trace):
            yield self._span(trace, node, self._attributes(trace, node))

    def send(
        self,
        url: str,
        traces: Iterable[Trace],
        headers: Mapping[str, str],
        secrets: Iterable[str] = (),
        progress: Progress = lambda label, done: None,
    ) -> str:
        """Send the spans of clean traces, and return a phrase on the result.

        Raises:
            UserError: the server cannot be reached, or accepts none of them.
        """
        delivery = Delivery(
            url,
            "spans",
            self.request,
            headers={**headers, **HEADERS},
            secrets=secrets,
            progress=progress,
            read=self.refusals,
        )
        delivery.deliver(self.batches(traces))
        return delivery.words()

    def batches(self, traces: Iterable[Trace]) -> Iterator[list[OtlpSpan]]:
        """Return batches of the spans of clean traces, each as large as a request may be."""
        spans = (span for trace in traces for span in self.spans(trace))
        return in_batches(spans, MOST, lambda span: span.size, LARGEST)

    def _span(self, trace: Trace, node: TraceNode, attributes: dict[str, object]) -> OtlpSpan:
        status = self._trace.Status
        parent = node.parent
        span = self._trace.Span(
            trace_id=trace_id(trace, self._space),
            span_id=span_id(trace, node.place, self._space),
            parent_span_id=b"" if parent is None else span_id(trace, parent, self._space),
            name=node.name,
            kind=self._trace.Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=_nano(node.start),
            end_time_unix_nano=_nano(node.end),
            attributes=[self._attribute(key, value) for key, value in attributes.items() if value is not None],
            status=status(code=status.STATUS_CODE_ERROR, message=node.error)
            if node.error
            else status(code=status.STATUS_CODE_OK),
        )
        return OtlpSpan((self._space or trace.run.id) if self._project else "", span, span.ByteSize())

    def request(self, spans: Sequence[OtlpSpan]) -> bytes:
        """Return the body of a request, compressed."""
        return gzip.compress(self._request(spans).SerializeToString(), 6)

    def json(self, spans: Sequence[OtlpSpan]) -> bytes:
        """Return a line of OTLP/JSON, as the OpenTelemetry collector's file receiver reads it."""
        request = self._dict(self._request(spans), use_integers_for_enums=True)
        for resource in request["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    # OTLP/JSON writes ids as hexadecimal digits, protobuf's JSON as base64.
                    span |= {name: base64.b64decode(span[name]).hex() for name in _IDS if name in span}
        return msgspec.json.encode(request) + b"\n"

    def refusals(self, answer: HttpAnswer) -> Refusal | None:
        """Return the refusal in a server's answer to an accepted request; ``None`` if it rejected nothing."""
        if "protobuf" not in answer.headers.get("content-type", ""):
            return None
        try:
            partial = self._collector.ExportTraceServiceResponse.FromString(answer.body).partial_success
        except Exception:  # protobuf's error: the answer is no message
            return None
        count = int(partial.rejected_spans)
        return Refusal(count, str(partial.error_message)) if count else None

    def _request(self, spans: Sequence[OtlpSpan]) -> _Message:
        request = self._collector.ExportTraceServiceRequest()
        for project in dict.fromkeys(span.resource for span in spans):
            resource_spans = request.resource_spans.add()
            resource_spans.resource.attributes.append(self._attribute("service.name", "ragrounds"))
            resource_spans.resource.attributes.append(self._attribute("service.version", __version__))
            if self._project:
                resource_spans.resource.attributes.append(self._attribute(self._project, project))
            scope = resource_spans.scope_spans.add()
            scope.scope.name, scope.scope.version = "ragrounds", __version__
            scope.spans.extend(span.span for span in spans if span.resource == project)
        message: _Message = request
        return message

    def _attribute(self, key: str, value: object) -> object:
        return self._common.KeyValue(key=key, value=self._value(value))

    def _value(self, value: object) -> object:
        any_value = self._common.AnyValue
        if isinstance(value, bool):
            return any_value(bool_value=value)
        if isinstance(value, int):
            return any_value(int_value=value)
        if isinstance(value, float):
            return any_value(double_value=value)
        if isinstance(value, list | tuple):
            return any_value(array_value=self._common.ArrayValue(values=[self._value(element) for element in value]))
        return any_value(string_value=str(value))


def trace_id(trace: Trace, space: str = "") -> bytes:
    """Return the 16 bytes by which OpenTelemetry identifies an attempt."""
    return trace_digest(trace, space)[:16]


def span_id(trace: Trace, place: tuple[int, ...], space: str = "") -> bytes:
    """Return the 8 bytes by which OpenTelemetry identifies a node."""
    return node_digest(trace, place, space)[:8]


def _nano(seconds: float) -> int:
    # Microseconds first: nanoseconds of today have more digits than a float.
    return max(0, round(seconds * 1e6)) * 1000
