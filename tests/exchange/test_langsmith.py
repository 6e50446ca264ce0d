"""LangSmith: the spans and the feedback that are sent, the ids as LangSmith makes them, and nothing sent unasked."""

import gzip
import json
import uuid

import pytest

from ragrounds.evals.exchange.formats import Export
from ragrounds.evals.exchange.langsmith import FORMAT, LangSmithOptions
from ragrounds.records import WITHOUT_ANSWER
from tests.compare.making import add_run, questions
from tests.exchange.conftest import SECRET

schemas = pytest.importorskip("langsmith.schemas", reason="needs langsmith")
collector = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="needs OpenTelemetry: pip install 'ragrounds[export]'",
)
PROJECT = "0192f0c1-2222-7333-8444-555566667777"
KEY = "lsv2_" + "k1" * 12


@pytest.fixture
def langsmith(listening):
    def _answer(path, body):
        if path.startswith("/sessions"):
            return 200, {"id": PROJECT}
        if path == "/otel/v1/traces":
            return 200, collector.ExportTraceServiceResponse().SerializeToString()
        assert path == "/feedback"
        return 200, {"id": json.loads(body)["id"]}

    listening.answer = _answer
    return listening


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("LANGSMITH_API_KEY", KEY)


def pushed(store, runs, server):
    said = FORMAT.send(Export(store, runs, LangSmithOptions(endpoint=server.url, project="mine")))
    return said.removesuffix(f": {server.url}, project mine")


def received(server):
    """Spans with their attributes, and feedback."""
    spans, feedback = [], {}
    for _, path, headers, body in server.requests:
        assert headers["x-api-key"] == KEY
        if path == "/otel/v1/traces":
            assert headers["Langsmith-Project"] == "mine"
            request = collector.ExportTraceServiceRequest.FromString(gzip.decompress(body))
            for span in (one for made in request.resource_spans for scope in made.scope_spans for one in scope.spans):
                spans.append((span, {one.key: one.value.string_value for one in span.attributes}))
        elif path == "/feedback":
            one = json.loads(body)
            feedback[one["id"]] = one
    return spans, list(feedback.values())


def test_the_spans_have_what_langsmith_reads(store, run, langsmith):
    assert pushed(store, [run], langsmith) == "7 spans sent; 3 scores sent"
    assert langsmith.requests[0][1] == "/sessions?upsert=true"
    spans, _ = received(langsmith)
    root, _, search, _, model = (found for _, found in spans[:5])
    kinds = [found["openinference.span.kind"] for _, found in spans[:5]]
    assert kinds == ["AGENT", "CHAIN", "RETRIEVER", "CHAIN", "LLM"]
    assert root["output.value"] == "The answer is A."
    facts = json.loads(root["metadata"])
    assert (facts["run"], facts["gold"], facts["identity"]["agent"]) == (run.id, "A", "rag[k=3]")
    assert search["retrieval.documents.1.document.content"] == "Other text."
    asked, said = json.loads(model["input.value"]), json.loads(model["output.value"])
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert said["messages"][0]["content"] == "The answer is A."
    usage = json.loads(model["langsmith.usage_metadata"])
    assert (usage["total_tokens"], usage["total_cost"]) == (110, 0.01)
    assert model["llm.model_name"] == "test"
    everything = b"".join(gzip.decompress(body) for _, path, _, body in langsmith.requests if "otel" in path)
    assert SECRET.encode() not in everything
    assert b"My key: [key]" in everything


def test_scores_are_feedback_on_the_traces(store, run, langsmith):
    otel = pytest.importorskip("langsmith.integrations.otel")
    pushed(store, [run], langsmith)
    spans, feedback = received(langsmith)
    roots = {str(otel.langsmith_run_id_from_otel_span_id(span.span_id)) for span, _ in spans if not span.parent_span_id}
    for one in feedback:
        schemas.FeedbackCreate(**one)
        assert one["run_id"] == one["trace_id"]
        assert one["session_id"] == PROJECT
    assert {one["run_id"] for one in feedback} == roots
    scores = [(one["key"], one["score"], one["comment"]) for one in feedback]
    assert sorted(score for _, score, _ in scores) == [0.0, 0.0, 1.0]
    assert ("strict", 1.0, "read as A; right is A") in scores


def test_a_score_has_the_four_decimals_that_are_taken_and_may_be_missing(store, langsmith):
    run = add_run(store, "long", questions(2), [1 / 3, None], scorer="facts")
    pushed(store, [run], langsmith)
    given = {one["score"]: one["value"] for one in received(langsmith)[1]}
    assert given == {0.3333: "answered", None: "answered"}


def test_sending_again_doubles_nothing(store, run, langsmith):
    def _ids():
        spans, feedback = received(langsmith)
        langsmith.requests.clear()
        return [span.span_id for span, _ in spans], {one["id"] for one in feedback}

    pushed(store, [run], langsmith)
    first = _ids()
    pushed(store, [run], langsmith)
    assert _ids() == first
    taken = langsmith.answer
    langsmith.answer = lambda path, body: (409, {"detail": "there"}) if path == "/feedback" else taken(path, body)
    assert pushed(store, [run], langsmith).endswith("; 0 scores sent, 3 were there already")
    assert uuid.UUID(next(iter(first[1]))).version == 5


def test_every_export_marks_the_same_attempts_as_errors(store, langsmith):
    statuses = dict(enumerate(["completed", "blocked", "failed", "capped", "paused"]))
    run = add_run(store, "all", questions(5), [1, 0, 0, 1, 0], status=statuses)
    pushed(store, [run], langsmith)
    roots = [(span, json.loads(found["metadata"])) for span, found in received(langsmith)[0] if not span.parent_span_id]
    marked = {facts["status"] for span, facts in roots if span.status.code == 2}
    assert marked == WITHOUT_ANSWER - {"not_run"}
    assert {facts["status"] for _, facts in roots} - marked == {"completed", "capped"}
