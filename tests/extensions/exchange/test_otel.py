"""OpenTelemetry spans with the OpenInference conventions: their tree, their attributes, file and collector."""

import gzip
import json

import pytest

from ragrounds.base.errors import UserError
from ragrounds.extensions.exchange.exporters.otel import otlp_json, send
from tests.extensions.exchange.conftest import SECRET

REASON = "needs OpenTelemetry: pip install 'ragrounds[export]'"
collector = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason=REASON)


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
    assert {(len(span["traceId"]), len(span["spanId"])) for span in spans} == {(32, 16)}
    assert int(model["endTimeUnixNano"]) - int(model["startTimeUnixNano"]) == 1_500_000_000
    assert int(model["startTimeUnixNano"]) == 1_000_600_000_000


def test_attributes_follow_the_conventions(spans):
    root, _, search, _, model = (read(span) for span in spans[:5])
    assert root["output.value"] == "The answer is A."
    assert json.loads(root["metadata"])["strict.score"] == 1.0
    assert json.loads(root["metadata"])["cost_uncached"] == 0.02
    # Servers add up what the spans of a trace cost: it stands at the calls alone.
    assert "llm.cost.total" not in root
    assert "llm.token_count.total" not in root
    assert model["llm.cost.total"] == 0.01
    assert search["input.value"] == "scurvy"
    assert search["retrieval.documents.0.document.id"] == "d1#0"
    assert search["retrieval.documents.1.document.content"] == "Other text."
    assert [one["page_content"] for one in json.loads(search["output.value"])][1] == "Other text."
    assert model["llm.input_messages.0.message.role"] == "system"
    assert model["llm.input_messages.1.message.content"] == "My key: [key]"
    assert model["llm.output_messages.0.message.content"] == "The answer is A."
    assert (model["llm.token_count.prompt"], model["llm.token_count.total"]) == (100, 110)


def test_a_failed_attempt_is_an_error_and_ids_do_not_change(store, run, spans):
    assert [span["status"].get("code") for span in spans if "parentSpanId" not in span] == [1, 1, 2]
    (line,) = otlp_json(store, [run])
    again = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["spanId"] for span in again] == [span["spanId"] for span in spans]


def sent(listening):
    for _, path, headers, body in listening.requests:
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        request = collector.ExportTraceServiceRequest.FromString(gzip.decompress(body))
        yield [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]


def test_sent_to_a_collector(store, run, listening):
    told = []
    words = send(store, [run], f"{listening.url}/v1/traces", {"x-project": "mine"}, lambda *what: told.append(what))
    assert words == "7 spans sent"
    assert told == [("spans", 7)]
    (request,) = listening.requests
    assert request[2]["x-project"] == "mine"
    (received,) = sent(listening)
    assert len(received) == 7
    assert SECRET.encode() not in gzip.decompress(request[3])


def test_the_protobuf_and_the_json_are_the_same_spans(store, run, listening, spans):
    send(store, [run], f"{listening.url}/v1/traces", {})
    (received,) = sent(listening)
    assert [span.span_id.hex() for span in received] == [span["spanId"] for span in spans]
    assert [str(span.start_time_unix_nano) for span in received] == [span["startTimeUnixNano"] for span in spans]
    assert [len(span.attributes) for span in received] == [len(span["attributes"]) for span in spans]


def test_a_refused_span_ends_nothing_and_is_counted(store, run, listening, spans):
    """A server that takes no batch in which one span is: it alone is left out."""
    bad = bytes.fromhex(spans[4]["spanId"])
    listening.answer = lambda path, body: (400, {"message": "too odd"}) if bad in gzip.decompress(body) else (200, {})
    assert send(store, [run], f"{listening.url}/v1/traces", {}) == "6 spans sent, 1 refused (400: too odd)"
    taken = [one for batch in sent(listening) for one in batch if len(batch) < 7 and one.span_id != bad]
    assert {span["spanId"] for span in spans} - {span.span_id.hex() for span in taken} == {spans[4]["spanId"]}


def test_what_a_collector_says_it_rejected_is_counted(store, run, listening):
    answer = collector.ExportTraceServiceResponse()
    answer.partial_success.rejected_spans, answer.partial_success.error_message = 2, "no such project"
    listening.answer = lambda path, body: (200, answer.SerializeToString())
    assert send(store, [run], f"{listening.url}/v1/traces", {}) == "5 spans sent, 2 refused (no such project)"


def test_a_busy_collector_is_asked_again(store, run, listening):
    answers = iter([(503, {}), (429, {})])
    listening.answer = lambda path, body: next(answers, (200, {}))
    listening.headers = {"Retry-After": "0"}
    assert send(store, [run], f"{listening.url}/v1/traces", {}) == "7 spans sent"
    assert len(listening.requests) == 3


def test_a_collector_that_refuses_all_is_one_clear_line(store, run, listening):
    listening.status = 400
    with pytest.raises(UserError, match="did not take the spans at all: 400"):
        send(store, [run], f"{listening.url}/v1/traces", {})
    listening.status = 401
    with pytest.raises(UserError, match="Is the key right"):
        send(store, [run], f"{listening.url}/v1/traces", {})
    with pytest.raises(UserError, match="cannot be reached"):
        send(store, [run], "http://127.0.0.1:9/v1/traces", {})


def test_what_broke_off_goes_on_with_the_same_command(store, run, listening, monkeypatch):
    monkeypatch.setattr("ragrounds.extensions.exchange.exporters.otel.MOST", 3)
    answers = iter([(200, {})])
    listening.answer = lambda path, body: next(answers, (503, {"message": "gone"}))
    listening.headers = {"Retry-After": "0"}
    with pytest.raises(UserError, match=r"after 3 of them: 503: gone, after 6 tries. The same c\w+ goes on"):
        send(store, [run], f"{listening.url}/v1/traces", {})
    first = next(sent(listening))
    listening.asked.clear()
    listening.answer = lambda path, body: (200, {})
    assert send(store, [run], f"{listening.url}/v1/traces", {}) == "7 spans sent"
    again = [span for batch in sent(listening) for span in batch]
    assert [span.SerializeToString() for span in again[:3]] == [span.SerializeToString() for span in first]
    assert len({span.span_id for span in again}) == 7


def test_a_key_comes_from_the_environment_alone(command, listening):
    assert command("run", "--display", "none", "--limit", "2", "--agent", "direct").returncode == 0
    words = ("export", "otel", "direct", "--endpoint", f"{listening.url}/v1/traces", "--header")
    refused = command(*words, "Authorization=Bearer abc")
    assert refused.returncode == 2
    assert "Authorization=env:VARIABLE" in refused.stderr
    assert "abc" not in refused.stderr
    assert "'MINE' is not set" in command(*words, "x-api-key=env:MINE", MINE="").stderr
    assert listening.requests == []
    made = command(*words, "x-api-key=env:MINE", "--header", "x-experiment=7", MINE="my-planted-0key-0here")
    assert made.returncode == 0, made.stderr
    ((_, _, headers, body),) = listening.requests
    assert (headers["x-api-key"], headers["x-experiment"]) == ("my-planted-0key-0here", "7")
    assert b"my-planted-0key" not in gzip.decompress(body) + made.stdout.encode() + made.stderr.encode()
