"""Inspect's log format, read again with Inspect."""

import pytest

from tests.extensions.exchange.conftest import SECRET

log = pytest.importorskip("inspect_ai.log", reason="needs Inspect: pip install 'ragrounds[inspect]'")


def test_a_log_that_inspect_reads(store, run, tmp_path):
    from ragrounds.extensions.exchange.exporters.inspect_log import InspectWriter

    path = tmp_path / "run.eval"
    assert InspectWriter().write(store, run, path) == 3
    assert SECRET.encode() not in path.read_bytes()
    found = log.read_eval_log(str(path))
    assert found.status == "cancelled"  # one attempt was not made
    assert found.eval.model == "test:model"
    assert found.results.scores[0].metrics["mean"].value == pytest.approx(1 / 3)
    first, _, failed = found.samples
    assert (first.id, first.epoch, first.target) == ("x/one/0", 1, "A")
    assert first.scores["strict"].value == 1.0
    assert [message.role for message in first.messages] == ["system", "user", "assistant"]
    assert first.messages[1].text == "My key: [key]"
    assert [event.event for event in first.events] == [
        "span_begin", "info", "span_end", "span_begin", "model", "span_end",
    ]  # fmt: skip
    assert first.events[1].data["found"][0]["id"] == "d1#0"
    assert first.events[4].output.usage.input_tokens == 100
    assert failed.error is not None
    assert first.model_usage["test:model"].input_tokens == 100
    [(model, used)] = found.stats.model_usage.items()
    assert (model, used.input_tokens) == (
        "test:model",
        sum(one.model_usage[model].input_tokens for one in found.samples if one.model_usage),
    )


def test_a_log_has_tools_and_their_calls(store, tool_run, tmp_path):
    from ragrounds.extensions.exchange.exporters.inspect_log import InspectWriter

    path = tmp_path / "run.eval"
    InspectWriter().write(store, tool_run, path)
    (sample,) = log.read_eval_log(str(path)).samples
    asked = [event for event in sample.events if event.event == "model"][1]
    assert [tool.name for tool in asked.tools] == ["corpus_search"]
    assert asked.config.max_tokens == 50
    wish, answer = asked.input[1].tool_calls[0], asked.input[2]
    assert (wish.function, wish.arguments) == ("corpus_search", {"query": "scurvy"})
    assert (answer.tool_call_id, answer.function) == (wish.id, "corpus_search")
    assert asked.output.choices[0].message.tool_calls[0].id == wish.id
    used = next(event for event in sample.events if event.event == "info" and event.data["kind"] == "tool")
    assert used.data["output"]["text"] == "found"
