"""What others met with LangGraph, and what keeps it out here."""

import pytest

from ragrounds.base.records import Left, Reply, ToolCall
from ragrounds.graphs import catalogue
from tests.graphs.playing import ANSWER, play, text_of
from tests.rows import each_row


@each_row("name", catalogue.names())
def test_nothing_of_langgraph_caches_retries_or_checkpoints(name):
    graph = catalogue.build(name).compile()
    assert graph.cache is None, "its key leaves out the model"
    assert graph.checkpointer is None, "3.4 ms a step, growing with the square"
    assert not graph.retry_policy, "retries are in one place, the model"
    for node in graph.nodes.values():
        assert not node.retry_policy
        assert node.cache_policy is None


@pytest.mark.parametrize(
    "agent",
    ["vanilla_rag", "search_o1", "search_o1[reading=false]", "search_r1", "tool_agent", "cot_refine_rag", "oracle"],
)
async def test_the_trace_of_states_holds_ids_and_no_passages(agent):
    said = iter([LOOK, r"\boxed{x} <answer>x</answer>", *[ANSWER] * 9])
    played = await play(agent, lambda request: next(said), gold=["d1"])
    changes = [event.changes for event in played.attempt.events if isinstance(event, Left)]
    assert "p1" in str(changes)
    assert "Text of passage" not in str(changes)
    assert any("Text of passage 1." in text_of(request) for request in played.model.requests)


LOOK = Reply(
    text="<search>a</search> <|begin_search_query|>a<|end_search_query|>",
    calls=(ToolCall("1", "search", '{"query": "a"}'),),
    stopped_at="<|end_search_query|>",
)
