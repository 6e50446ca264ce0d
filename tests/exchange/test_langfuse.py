"""Langfuse: the attributes and the scores that it documents, as a server on loopback receives them."""

import base64
import gzip
import json
import re

import pytest

from ragrounds.errors import UserError
from ragrounds.evals.exchange.formats import Export
from ragrounds.evals.exchange.langfuse import FORMAT, LangfuseOptions
from tests.compare.making import add_run, questions
from tests.exchange.conftest import SECRET

collector = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2",
    reason="needs OpenTelemetry: pip install 'ragrounds[export]'",
)
PUBLIC, PRIVATE = "pk-lf-0a1b2c3d4e5f6071", "sk-lf-9f8e7d6c5b4a3021"
TYPES = {"span", "generation", "event", "agent", "tool", "chain", "retriever", "evaluator", "embedding", "guardrail"}
ATTRIBUTES = {
    "langfuse.trace.name": str, "langfuse.trace.input": str, "langfuse.trace.output": str, "langfuse.trace.tags": list,
    "langfuse.session.id": str, "langfuse.version": str, "langfuse.observation.type": str,
    "langfuse.observation.input": str, "langfuse.observation.output": str, "langfuse.observation.level": str,
    "langfuse.observation.status_message": str, "langfuse.observation.model.name": str,
}  # fmt: skip
OBJECTS = {
    "langfuse.observation.usage_details": int,
    "langfuse.observation.cost_details": float,
    "langfuse.observation.model.parameters": str,
}
"""JSON objects, with the kind of their values."""
METADATA = re.compile(r"langfuse\.(trace|observation)\.metadata\.\S+")
SCORE = {
    "id": str, "traceId": str, "observationId": str, "name": str, "value": float, "dataType": str, "comment": str,
    "metadata": dict,
}  # fmt: skip


def value_of(value):
    name = value.WhichOneof("value")
    return [value_of(one) for one in value.array_value.values] if name == "array_value" else getattr(value, name)


def spans_of(body):
    request = collector.ExportTraceServiceRequest.FromString(gzip.decompress(body))
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield span, {one.key: value_of(one.value) for one in span.attributes}


@pytest.fixture
def langfuse(listening):
    """A server that checks what comes against what is documented: it refuses what is not."""

    def _answer(path, body):
        if path == "/api/public/otel/v1/traces":
            for span, found in spans_of(body):
                assert (len(span.trace_id), len(span.span_id)) == (16, 8)
                assert found["langfuse.observation.type"] in TYPES
                for name, value in found.items():
                    if name in OBJECTS:
                        for one in json.loads(value).values():
                            assert type(one) is OBJECTS[name]
                    elif not METADATA.fullmatch(name):
                        assert type(value) is ATTRIBUTES[name]
            return 200, collector.ExportTraceServiceResponse().SerializeToString()
        assert path == "/api/public/scores"
        score = json.loads(body)
        assert {name: type(value) for name, value in score.items()} == SCORE
        assert score["dataType"] == "NUMERIC"
        return 200, {"id": score["id"]}

    listening.answer = _answer
    return listening


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", PRIVATE)


def pushed(store, runs, server):
    return FORMAT.send(Export(store, runs, LangfuseOptions(endpoint=server.url))).removesuffix(f": {server.url}")


def received(server):
    spans, scores = [], {}
    for _, path, headers, body in server.requests:
        login = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
        assert login == f"{PUBLIC}:{PRIVATE}"
        if path.endswith("/v1/traces"):
            assert headers["x-langfuse-ingestion-version"] == "4"
            spans += spans_of(body)
        else:
            score = json.loads(body)
            scores[score["id"]] = score
    return spans, scores


def test_traces_have_inputs_outputs_tokens_costs_and_their_run(store, run, langfuse):
    assert pushed(store, [run], langfuse) == "7 spans sent; 3 scores sent"
    spans, _ = received(langfuse)
    root, _, search, _, model = (found for _, found in spans[:5])
    kinds = [found["langfuse.observation.type"] for _, found in spans[:5]]
    assert kinds == ["agent", "chain", "retriever", "chain", "generation"]
    assert {found["langfuse.session.id"] for _, found in spans} == {run.id}
    assert root["langfuse.trace.input"] == "Question 0?\n\nA. yes\nB. no"
    assert root["langfuse.trace.output"] == "The answer is A."
    assert (root["langfuse.trace.metadata.gold"], root["langfuse.trace.metadata.agent"]) == ("A", "rag[k=3]")
    assert json.loads(root["langfuse.trace.metadata.identity"])["agent"] == "rag[k=3]"
    assert search["langfuse.observation.input"] == "scurvy"
    found = json.loads(search["langfuse.observation.output"])
    assert [(one["id"], one["score"], one["text"]) for one in found][1] == ("d2#0", 8.0, "Other text.")
    assert [one["role"] for one in json.loads(model["langfuse.observation.input"])] == ["system", "user"]
    assert json.loads(model["langfuse.observation.output"])["content"] == "The answer is A."
    assert model["langfuse.observation.model.name"] == "test"
    usage = json.loads(model["langfuse.observation.usage_details"])
    assert usage["total"] == sum(count for name, count in usage.items() if name != "total") == 110
    assert json.loads(model["langfuse.observation.cost_details"]) == {"total": 0.01}
    failed = spans[6][1]
    assert (failed["langfuse.observation.level"], failed["langfuse.observation.status_message"]) == ("ERROR", "failed")
    everything = b"".join(gzip.decompress(body) for _, path, _, body in langfuse.requests if "traces" in path)
    assert SECRET.encode() not in everything


def test_scores_belong_to_the_traces_and_are_replaced(store, run, langfuse):
    pushed(store, [run], langfuse)
    spans, scores = received(langfuse)
    roots = {span.trace_id.hex(): span.span_id.hex() for span, _ in spans if not span.parent_span_id}
    assert {score["traceId"]: score["observationId"] for score in scores.values()} == roots
    assert sorted(score["value"] for score in scores.values()) == [0.0, 0.0, 1.0]
    assert {score["name"] for score in scores.values()} == {"strict"}
    langfuse.requests.clear()
    pushed(store, [run], langfuse)
    assert received(langfuse)[1] == scores


def test_a_missing_score_is_missing_and_a_refused_one_is_counted(store, langfuse):
    run = add_run(store, "long", questions(3), [0.5, None, 0.25], scorer="facts")
    taken = langfuse.answer
    langfuse.answer = lambda path, body: (
        (400, {"message": "no such value"}) if b"0.25" in body and "scores" in path else taken(path, body)
    )
    assert pushed(store, [run], langfuse) == "3 spans sent; 1 scores sent, 1 refused (400: no such value)"


def test_a_server_that_repeats_the_keys_does_not_put_them_into_the_error(store, run, langfuse):
    login = base64.b64encode(f"{PUBLIC}:{PRIVATE}".encode()).decode()
    langfuse.answer = lambda path, body: (401, {"message": f"no: {login} {PRIVATE}"})
    with pytest.raises(UserError, match="Is the key right") as error:
        pushed(store, [run], langfuse)
    assert login not in str(error.value)
    assert PRIVATE not in str(error.value)
