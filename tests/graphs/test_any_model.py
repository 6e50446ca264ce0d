"""Whatever the model emits, every attempt ends within its limits with exactly one status."""

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ragrounds.base.records import Reply, ToolCall, Usage
from ragrounds.graphs.search_o1 import END_QUERY, END_RESULT, QUERY, RESULT
from tests.graphs.playing import play

PIECES = [
    QUERY, END_QUERY, RESULT, END_RESULT, "<search>", "</search>", "<answer>", "</answer>", "<think>", "</think>",
    "<information>", r"\boxed{", "}", "{", "[", "]", '"queries": ', '["a", "b"]', "Final information:", "**Final",
    "query", "A", "\n\n", " ", "1. What?\n", "\x00", "$question", "…", "答案",
    '{"queries": ["\\ud83d"]}', "{'answer_choice': 'A'}",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=10).map("".join)
CALLS = st.lists(
    st.builds(
        ToolCall,
        st.text(max_size=3),
        st.sampled_from(["search", "rm", ""]),
        st.one_of(
            st.text(max_size=5),
            st.text(max_size=5).map(lambda text: json.dumps({"query": text})),
            st.just('{"query": "\\ud83d"}'),
        ),
    ),
    max_size=3,
).map(tuple)
REPLIES = st.builds(
    Reply,
    text=TEXTS,
    finish=st.sampled_from(["stop", "length", "tool_calls"]),
    stopped_at=st.sampled_from(["", END_QUERY, "</search>", "</answer>", "<|end_of_query|>", "other"]),
    calls=CALLS,
)
EXAMPLES = settings().max_examples // 6
"""Attempts of each agent. Each takes fifty times as long as other examples."""
MOST = {
    "direct": (1, 0), "direct_cot": (1, 0), "vanilla_rag[query_generation=lamer]": (2, 2), "cot_refine_rag": (2, 1),
    # 15 turns, 10 readings, 1 answer
    "search_o1": (26, 10), "search_o1[reading=false,turns=4,search_limit=2]": (5, 2),
    "search_r1": (6, 4), "r1_searcher": (11, 9), "research": (11, 9),
    "i_medrag": (7 + 12 + 1, 12), "tool_agent": (11, 10), "oracle": (1, 0),
}  # fmt: skip
"""Agent → the most model calls and searches that its limits allow."""


@pytest.mark.parametrize(
    ("cap", "reason"), [("calls=1", "1 calls"), ("tokens=15", "15 tokens"), ("cost=0.001", "$0.001")]
)
@pytest.mark.parametrize("agent", ["search_o1", "search_r1", "i_medrag", "tool_agent", "cot_refine"])
async def test_caps_end_any_strategy_with_what_it_had(agent, cap, reason):
    def script(request):
        if request.tools:
            return Reply(text="look", calls=(ToolCall("1", "search", '{"query": "a"}'),))
        return f'<search>a</search> {{"queries": ["a"]}} {QUERY}a{END_QUERY}'

    limit = f"limits.{cap}"
    played = await play(f"{agent}[{limit}]", _counted(script))
    assert played.attempt.status == "capped"
    assert played.attempt.text
    assert f"cap of {reason} is reached" in played.attempt.reason.replace(" (of models, searches and tools)", "")


def _counted(script):
    def say(request):
        said = script(request)
        reply = said if isinstance(said, Reply) else Reply(text=said)
        return replace(reply, usage=Usage(input=10, output=5))

    return say
