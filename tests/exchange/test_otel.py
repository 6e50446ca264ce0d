"""OpenTelemetry spans with the OpenInference conventions: their tree, their attributes, file and collector."""

import json

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.exchange.otel import otlp_json, send
from tests.exchange.conftest import SECRET

REASON = "needs OpenTelemetry: pip install 'ragrounds[export]'"
pytest.importorskip("openinference.semconv.trace", reason=REASON)
pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter", reason=REASON)


@pytest.fixture
def spans(store, run):
    (line,) = otlp_json(store, [run])
    (resource,) = json.loads(line)["resourceSpans"]
    attributes = {one["key"]: one["value"]["stringValue"] for one in resource["resource"]["attributes"]}
    assert attributes["openinference.project.name"] == run.id
    return resource["scopeSpans"][0]["spans"]


def read(span):
    values = {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}
    return {key: int(value) if key.startswith("llm.token") else value for key, value in values.items()}


def test_attempts_are_traces_of_steps_and_calls(spans):
    first = [span for span in spans if span["traceId"] == spans[0]["traceId"]]
    kinds = [read(span)["openinference.span.kind"] for span in first]
    assert kinds == ["AGENT", "CHAIN", "RETRIEVER", "CHAIN", "LLM"]
    root, retrieve, search, answer, model = first
    assert "parentSpanId" not in root
    assert retrieve["parentSpanId"] == answer["parentSpanId"] == root["spanId"]
    assert (search["parentSpanId"], model["parentSpanId"]) == (retrieve["spanId"], answer["spanId"])
    assert len({span["traceId"] for span in spans}) == 3
    assert all(len(span["traceId"]) == 32 and len(span["spanId"]) == 16 for span in spans)
    assert int(model["endTimeUnixNano"]) - int(model["startTimeUnixNano"]) == 1_500_000_000
    assert int(model["startTimeUnixNano"]) == 1_000_600_000_000


def test_attributes_follow_the_conventions(spans):
    root, _, search, _, model = (read(span) for span in spans[:5])
    assert root["output.value"] == "The answer is A."
    assert json.loads(root["metadata"])["strict.score"] == 1.0
    assert root["llm.cost.total"] == 0.02
    assert search["input.value"] == "scurvy"
    assert search["retrieval.documents.0.document.id"] == "d1#0"
    assert search["retrieval.documents.1.document.content"] == "Other text."
    assert model["llm.input_messages.0.message.role"] == "system"
    assert model["llm.input_messages.1.message.content"] == "My key: [key]"
    assert model["llm.output_messages.0.message.content"] == "The answer is A."
    assert (model["llm.token_count.prompt"], model["llm.token_count.total"]) == (100, 110)


def test_a_failed_attempt_is_an_error_and_ids_do_not_change(store, run, spans):
    assert [span["status"].get("code") for span in spans if "parentSpanId" not in span] == [1, 1, 2]
    (line,) = otlp_json(store, [run])
    again = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["spanId"] for span in again] == [span["spanId"] for span in spans]


def test_sent_to_a_collector(store, run, listening):
    collector = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    count = send(store, [run], f"{listening.url}/v1/traces", {"x-project": "mine"})
    (request,) = listening.requests
    assert request[1] == "/v1/traces"
    assert request[2]["x-project"] == "mine"
    received = collector.ExportTraceServiceRequest.FromString(request[3])
    assert sum(len(scope.spans) for one in received.resource_spans for scope in one.scope_spans) == count == 7
    assert SECRET.encode() not in request[3]


def test_a_collector_that_refuses_is_one_clear_line(store, run, listening):
    listening.status = 400
    with pytest.raises(UserError, match="did not take the spans"):
        send(store, [run], f"{listening.url}/v1/traces", {})
