"""A server whose window nobody told us refuses what is too long: that ends the loop, not the attempt."""

import pytest

from ragrounds.base.records import Reply, ToolCall
from ragrounds.graphs.search_o1 import END_QUERY, QUERY
from ragrounds.models.faults import CallFailed
from tests.graphs.playing import ANSWER, LONG, Shelf, passage, play, text_of

SHELF = Shelf([passage(1, "word " * 500)])


def script(request):
    text = text_of(request)
    if len(text) > 6000:
        raise CallFailed("context_too_long", "this model's maximum context length is 6000 characters")
    if "zq" in text:
        return ANSWER
    number = text.count("</search>") + text.count(END_QUERY) + len(request.messages)
    calls = (ToolCall("1", "search", f'{{"query": "q{number}"}}'),) if request.tools else ()
    return Reply(text=f"Hm. <search>q{number}</search> {QUERY}q{number}{END_QUERY}", calls=calls)


@pytest.mark.parametrize(
    "agent", ["search_o1[reading=false]", "search_r1[observation_tokens=5000,turns=9]", "tool_agent"]
)
@pytest.mark.parametrize("continues", ["prefix", "turns"])
async def test_a_window_that_nobody_told_us(agent, continues):
    played = await play(agent, script, shelf=SHELF, continues=continues)
    assert played.attempt.status == "completed", played.attempt.reason
    assert "window_full" in played.notes
    assert played.attempt.text == ANSWER


async def test_other_refusals_still_fail():
    def refuse(request):
        raise CallFailed("bad_request", "no")

    played = await play("search_o1", refuse, LONG)
    assert played.attempt.status == "failed"
