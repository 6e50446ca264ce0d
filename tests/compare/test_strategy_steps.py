"""Whether a strategy happened: the share of attempts that searched, used a tool or revised."""

import msgspec
import pytest

from ragrounds.base.contracts import Request
from ragrounds.base.records import Attempt, Message, Noted, Reply, ToolCall
from ragrounds.evals.compare.comparison import compare
from ragrounds.evals.compare.strategy_steps import strategy_steps
from ragrounds.evals.trace.run_facts import noted_words
from ragrounds.models.reply_parts import CHOICE_IGNORED, believed
from ragrounds.ui.tables.one_screen import conclusion_lines, summary_table
from tests.compare.making import add_run, questions

SEARCHER = {"retriever": "bm25", "parameters": {"prompting": "cot"}, "models": {}}


def attempts(**counts):
    """One attempt for each place in the sequences of counts."""
    return [
        Attempt(
            run="run",
            question_id=str(place),
            epoch=0,
            status="completed",
            text="",
            **dict(zip(counts, row, strict=True)),
        )
        for place, row in enumerate(zip(*counts.values(), strict=True))
    ]


def run_with(store, identity):
    return add_run(store, "agent", questions(1), [1], identity=identity)


@pytest.mark.parametrize(
    ("identity", "counts", "step"),
    [
        (SEARCHER, {"searches": (1, 0, 2, 0)}, ("searched", 2, 4, "direct_cot")),
        ({**SEARCHER, "tools": [{}]}, {"searches": (1, 0), "tool_calls": (0, 1)}, ("used a tool", 2, 2, "direct_cot")),
        ({"graph": "critique", "parameters": {}}, {"model_calls": (2, 4)}, ("revised", 1, 2, "")),
        ({**SEARCHER, "inner": {"agents": []}, "parameters": {}}, {"searches": (0,)}, ("searched", 0, 1, "")),
        ({**SEARCHER, "oracle": True}, {"searches": (0,)}, None),
        ({"graph": "direct"}, {"searches": (0,)}, None),
    ],
)  # fmt: skip
def test_steps_follow_the_stored_counts(store, identity, counts, step):
    steps = strategy_steps(run_with(store, identity), attempts(**counts))
    assert [msgspec.structs.astuple(found) for found in steps] == ([step] if step else [])


def test_a_failed_attempt_shows_nothing(store):
    failed = [msgspec.structs.replace(attempt, status="failed") for attempt in attempts(searches=(0,) * 20)]
    assert [step.of for step in strategy_steps(run_with(store, SEARCHER), failed)] == [0]


@pytest.mark.parametrize(("count", "is_said"), [(20, True), (19, False)])
def test_a_strategy_that_never_happened_is_named(store, count, is_said):
    run = add_run(store, "search_o1", questions(count), [1] * count, identity=SEARCHER)
    comparison, names = compare(store, [run]), {run.id: "search_o1"}
    sentence = "search_o1 searched in 0 of 20 attempts: read it as direct_cot."
    assert (sentence in conclusion_lines(comparison, (), names)) is is_said
    table = summary_table(comparison, [table for table, _ in comparison.shown_tables(())], names)
    columns = [column.name for column in table.columns]
    assert ("searched" in columns) is not is_said  # it is shown once
    assert is_said or table.rows[0][columns.index("searched")] == f"0 of {count}"


def test_a_strategy_that_happened_has_no_column(store):
    run = add_run(store, "direct", questions(20), [1] * 20)
    comparison = compare(store, [run])
    table = summary_table(comparison, [table for table, _ in comparison.shown_tables(())], {run.id: "direct"})
    assert "searched" not in [column.name for column in table.columns]


@pytest.mark.parametrize(
    ("choice", "reply", "is_ignored"),
    [
        ("required", Reply(text="B"), True),
        ("search", Reply(text="B"), True),
        ("required", Reply(text="B", finish="length"), False),
        ("required", Reply(text="", calls=(ToolCall(id="1", name="search", arguments="{}"),)), False),
        ("auto", Reply(text="B"), False),
        (None, Reply(text="B"), False),
    ],
)
def test_an_ignored_tool_choice_is_noted(choice, reply, is_ignored):
    request = Request(messages=(Message(role="user", content="Which?"),), tool_choice=choice)
    assert (CHOICE_IGNORED in believed(reply, request).notes) is is_ignored


def test_a_comparison_names_an_ignored_tool_choice(store):
    events = {0: [Noted(step=0, what="reply", text=CHOICE_IGNORED)]}
    run = add_run(store, "mine.py:graph", questions(2), [1, 1], identity={"tier": "own"}, events=events)
    [note] = noted_words(store, run)
    assert "in 1 of the 2 attempts checked, the server ignored tool_choice" in note


def test_strategies_without_the_same_step_share_a_sentence(store):
    asked = questions(20)
    runs = [add_run(store, name, asked, [1] * 20, identity=SEARCHER) for name in ("search_o1", "self_rag")]
    lines = conclusion_lines(compare(store, runs), (), {run.id: run.agent for run in runs})
    assert "search_o1 and self_rag searched in 0 of 20 attempts: read each as direct_cot." in lines
