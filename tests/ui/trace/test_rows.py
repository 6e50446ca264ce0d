"""Rows say what happened: queries, what was found, replies, answers, failures."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from ragrounds.base.contracts import SearchRequest
from ragrounds.base.records import Call, Fault, Reply, ToolCall
from ragrounds.evals.store.codec import Packed, pack, unpack, unpack_many
from ragrounds.evals.trace.summaries import Pages
from ragrounds.evals.trace.traces import TracedCall, calls, traced_call, traced_calls
from ragrounds.ui.trace.loaded import LoadedAttempt
from ragrounds.ui.trace.row_text import RowText, beginning, call_row, written_row
from ragrounds.ui.trace.tree import walk
from ragrounds.ui.trace.tree_view import TreeLine, figure_heading, tree_cells
from tests.ui.trace.making import AT


def rows(loaded: LoadedAttempt) -> list[str]:
    return [node.row.plain for node in walk(loaded.root)]


def test_searches_replies_and_the_answer(pages: Pages) -> None:
    found = rows(LoadedAttempt(pages, pages.read([10])[0]))
    assert found[:4] == [
        "quiz/004 B ✗ gold A",
        "round 1",
        "search “query 0” → 2, gold at 1",
        "read “Kept in round 0: aspirin.”",
    ]
    assert found[-1] == "answer “The answer is A, by [this](http://x.example).”, 1 retry"


def test_what_failed_and_what_was_not_run(pages: Pages) -> None:
    assert rows(LoadedAttempt(pages, pages.read([3])[0])) == [
        "quiz/003 failed ✗ gold A",
        "answer failed: the server failed",
    ]
    assert rows(LoadedAttempt(pages, pages.read([5])[0])) == ["quiz/005 not run yet"]


def call(kind: str = "model", error: str = "", faults: tuple[Fault, ...] = ()) -> Call:
    return Call(
        key="", kind=kind, role="answering", node="x", actor="m", at=AT, seconds=1.0, error=error, faults=faults
    )  # type: ignore[arg-type]


def test_a_call_that_failed_says_why_and_after_how_many_tries() -> None:
    faults = tuple(Fault(kind="timeout", message="late") for _ in range(3))
    searched = SearchRequest(corpus="c", query="edema", k=5)
    row = call_row("search", TracedCall(call("search", "late", faults), searched=searched), None)
    assert row.plain == "search “edema” failed: timeout after 3 tries"


def test_a_reply_that_wishes_for_tools() -> None:
    reply = Reply(
        text="", finish="tool_calls", calls=(ToolCall("1", "search", '{"query": "edema"}'), ToolCall("2", "f", "{"))
    )
    assert call_row("think", TracedCall(call(), reply=reply), None).plain == 'think → search("edema"), f({)'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"analysis": "…", "queries": ["one", "two"]}', "one; two"),
        ('```json\n{"thinking": "So it is.", "answer": "C"}\n```', "So it is."),
        ('{"thinking": "cut off in the mid', "cut off in the mid"),
        ("<think>Hm.</think> Yes. <|begin_search_query|>edema<|end_search_query|>", "Hm. Yes. edema"),
        ("a < b and c > d", "a < b and c > d"),
        ("**Step 1**: it is **not** 2**3.", "Step 1: it is not 2**3."),
        ("[" * 5000, "[" * 400),
    ],
)
def test_the_beginning_of_what_a_reply_says(text: str, said: str) -> None:
    assert beginning(text) == said


def test_a_narrow_row_keeps_what_came_of_it() -> None:
    row = RowText(
        "search",
        quote="edema of the upper and lower limbs after surgery",
        tail=(("→ 10", "plain"), (", gold at 3", "gold")),
    )
    for width in (36, 44, 80, 200):
        line = "".join(text for text, _ in row.cells(width))
        assert len(line) == width
        assert "→ 10, gold at 3" in line
    assert "".join(text for text, _ in row.cells(10)) == "search “e…"


def test_calls_are_read_together_as_one_by_one(pages: Pages) -> None:
    attempt = pages.store.attempt(pages.runs[1], "quiz/000")
    assert attempt is not None
    made = tuple(calls(attempt.events))
    assert traced_calls(pages.store, made) == tuple(traced_call(pages.store, one) for one in made)
    brief = traced_calls(pages.store, made, brief=True)
    assert [one.searched.query for one in brief if one.searched] == ["query 0", "query 1", "query 2"]
    assert all(one.asked is None for one in brief)
    assert next(one.reply.text for one in brief if one.reply) == "Kept in round 0: aspirin."


LONG = "".join(f"a text that no other test packs, {n}; " for n in range(100))


def test_what_is_damaged_is_left_out_and_the_rest_is_read() -> None:
    body, apart = pack(Reply(text=LONG))
    short, _ = pack(Reply(text="short"))
    other, _ = pack({"no": "reply"})
    records = [Packed(one, Reply) for one in (body, short, b"noise", other)]
    whole = unpack(short, Reply, lambda _: {})
    assert unpack_many(records, lambda _: {}) == [None, whole, None, None]
    texts = {hash: msgspec.msgpack.decode(msgspec.msgpack.encode(LONG)) for hash in apart}
    assert unpack_many(records, lambda _: texts)[0] == Reply(text=LONG)
    assert unpack_many([Packed(body, Reply, with_texts=False)], lambda _: {}) == [Reply(text="")]


def test_a_tree_has_the_figures_that_there_is_room_for(pages: Pages) -> None:
    root = LoadedAttempt(pages, pages.read([10])[0]).root
    line = TreeLine(root.children[-1], 1, folded=False)
    for width, names in ((30, []), (40, ["time"]), (120, ["share", "time", "tokens", "full", "price"])):
        text = "".join(part for part, _ in tree_cells(line, root.figures, width))
        assert figure_heading(width, root.figures).split() == ["what", "happened", *names]
        assert len(figure_heading(width, root.figures)) == len(text) == width


def test_nothing_of_a_server_or_a_model_is_interpreted_in_a_row() -> None:
    bad = "\x1b[31m\u202e\n"
    reply = Reply(text=bad, finish=bad, calls=(ToolCall(bad, bad, bad),))
    fault = Fault(kind=bad, message=bad)
    made = [
        call_row(bad, TracedCall(call(), reply=reply), None),
        call_row(bad, TracedCall(call(error=bad, faults=(fault, fault))), None),
        call_row(bad, TracedCall(replace(call(), role="embedding" + bad, faults=(fault,))), None),
        call_row(bad, TracedCall(call("search"), searched=SearchRequest(corpus=bad, query=bad, k=1)), None),
        call_row(bad, TracedCall(call("tool"), used={bad: bad}, gave={bad: bad}), None),
        written_row(bad, {bad: bad, "x" + bad: 1}),
    ]
    for row in made:
        for width in (20, 60, 300):
            drawn = "".join(text for text, _ in row.cells(width))
            assert not any(letter in drawn for letter in "\x1b\u202e\n")
