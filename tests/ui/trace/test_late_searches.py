"""A search that a system reports at its end."""

from __future__ import annotations

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import Attempt, Call, Called, Gold, Passage, Reply
from ragrounds.evals.trace.hops import SYSTEMS_OWN
from ragrounds.evals.trace.traces import TracedCall
from ragrounds.ui.trace.details import search_blocks
from ragrounds.ui.trace.search_details import sources
from ragrounds.ui.trace.tree import Node, attempt_tree, call_facts, walk
from tests.ui.trace.making import AT, step

FOUND = Passage(id="d1#0", document="d1", title="t", text="A passage.", corpus="c")


def tree(changes: dict[str, object]) -> list[Node]:
    asked = Call(key="", kind="model", role="answering", node="answer", actor="m", at=3.0, seconds=0.1)
    late = Call(key="", kind="search", role="searching", node="", actor="system", at=AT + 100, seconds=0.0)
    calls = [
        TracedCall(asked, reply=Reply(text="B")),
        TracedCall(late, searched=SearchRequest(corpus=SYSTEMS_OWN, query="q", k=1), passages=(FOUND,)),
    ]
    events = [*step(0, "retrieve", changes=changes), *step(1, "answer", asked), Called(step=-1, call=late)]
    known = call_facts(calls, Gold(question_id="q", answer="B", documents=("d1",)))
    attempt = Attempt(
        run="r", question_id="q", epoch=0, status="completed", text="B", reason="", usage=None, cost_paid=None,
        cost_uncached=None, seconds=0.0, at=0.0, model_calls=1, events=tuple(events),
    )  # fmt: skip
    return list(walk(attempt_tree(attempt, known)))


def test_it_stands_at_the_end_and_says_that_its_time_is_not_known() -> None:
    nodes = tree({"documents": ["A passage."]})
    assert [node.label for node in nodes][1:] == ["retrieve", "answer", "search"]
    assert "time not known" in nodes[-1].row.plain


def test_a_search_inside_a_system_says_only_what_is_known_of_it() -> None:
    call = Call(key="", kind="search", role="searching", node="", actor="Words", at=AT, seconds=0.0)
    found = Passage(id="d1#0", document="d1", title="t", text="A passage.", corpus="", retriever="Words")
    traced = TracedCall(call, searched=SearchRequest(corpus=SYSTEMS_OWN, query="q", k=4), passages=(found,))
    assert [block.text for block in search_blocks(None, traced, None)] == ["\nquery", "q"]  # type: ignore[arg-type]
    assert sources(traced) == "by Words"
