"""The nodes of an attempt: calls of models with tools, embeddings and tools, in every form that is sent."""

import json

import msgspec
import pytest

from ragrounds.base.records import Usage
from ragrounds.evals.store.store import Store
from ragrounds.extensions.exchange.exporters.openinference import openinference
from ragrounds.extensions.exchange.exporters.trace_nodes import TraceCleaner, trace_nodes
from tests.compare.making import add_run, questions
from tests.extensions.exchange.conftest import SEARCH, WISH
from tests.uneven import expected

pytest.importorskip("opentelemetry.proto", reason="needs OpenTelemetry: pip install 'ragrounds[export]'")


@pytest.fixture
def trace(store, tool_run):
    (made,) = TraceCleaner().traces(store, [tool_run])
    return made


def test_openinference_has_messages_tools_and_calls(trace):
    attributes = openinference
    nodes = list(trace_nodes(trace))
    assert [node.kind for node in nodes] == ["attempt", "step", "embedding", "model", "tool", "model"]
    _, step, embedding, model, tool, failed = (attributes(trace, node) for node in nodes)
    assert json.loads(step["metadata"])["notes"] == [{"what": "passage_cut", "text": "one was cut"}]
    assert embedding["embedding.embeddings.0.embedding.text"] == "scurvy"
    assert (embedding["openinference.span.kind"], embedding["llm.token_count.prompt"]) == ("EMBEDDING", 2)
    assert (model["llm.model_name"], model["llm.provider"]) == ("tiny-1", "openai")
    assert json.loads(model["llm.invocation_parameters"]) == {
        "base_url": "http://127.0.0.1:9/v1", "max_tokens": 50, "temperature": 0.2,
    }  # fmt: skip
    said = "llm.input_messages.1.message.tool_calls.0.tool_call."
    assert model[said + "function.name"] == "corpus_search"
    assert model[said + "function.arguments"] == WISH.arguments
    assert model["llm.input_messages.2.message.tool_call_id"] == "call-1"
    assert model["llm.input_messages.2.message.content"] == "Vitamin C\ufffd."
    assert model["llm.output_messages.0.message.tool_calls.0.tool_call.id"] == "call-1"
    described = json.loads(model["llm.tools.0.tool.json_schema"])
    assert described["function"] == msgspec.to_builtins(SEARCH)
    assert (model["llm.token_count.prompt_details.cache_read"], model["llm.finish_reason"]) == (40, "tool_calls")
    assert model["llm.cost.total"] is None  # no known price: unknown, never 0
    assert json.loads(model["metadata"])["faults"][0]["status"] == 503
    assert tool["tool.name"] == "corpus_search"
    assert json.loads(tool["input.value"])["query"] == WISH.arguments
    assert json.loads(tool["output.value"])["text"] == "found"
    assert nodes[5].error == "no reply"
    assert failed["llm.model_name"] == "tiny"


def test_both_costs_are_under_their_names(uneven):
    with Store(uneven.home) as store:
        for agent, run in uneven.runs.items():
            roots = [(trace, next(iter(trace_nodes(trace)))) for trace in TraceCleaner().traces(store, [run])]
            stated = [json.loads(openinference(trace, root)["metadata"]) for trace, root in roots]
            for name, figure in (("cost_paid", "paid"), ("cost_uncached", "full price")):
                assert sum(one[name] for one in stated) == pytest.approx(expected(agent)[figure])


def test_an_imported_attempt_without_calls_has_its_tokens_itself(store):
    run = add_run(store, "imported", questions(1), [1], usage=Usage(7, 3), origin="imported")
    (trace,) = TraceCleaner().traces(store, [run])
    (root,) = trace_nodes(trace)
    assert (root.usage, root.cost) == (Usage(7, 3), 0.01)
