"""The tree of an attempt: what it sums, what it groups."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ragrounds.base.records import Call, Called, Entered, Event, Left, Usage
from ragrounds.ui.trace.tree import Node, attempt_tree, walk
from tests.ui.trace.making import AT, attempt, bare_run, step


def call(tokens: int | None = 10, cost: float | None = 0.5, error: str = "") -> Call:
    usage = None if tokens is None else Usage(tokens, 0)
    return Call(key="", kind="model", role="answering", node="x", actor="m", at=AT, seconds=1.0, usage=usage,
                cost_uncached=cost, error=error)  # fmt: skip


def tree(*nodes: str, with_call: Call | None = None) -> Node:
    events: list[Event] = []
    for index, node in enumerate(nodes):
        events += step(index, node, with_call or call())
    made = attempt(bare_run("x", ()), 0, events)
    return attempt_tree(replace(made, usage=Usage(10 * len(nodes), 0), cost_uncached=0.5 * len(nodes)))


def labels(node: Node) -> list[str]:
    return [child.label for child in node.children]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("abc", ["a", "b", "c"]),
        ("aab", ["a", "a", "b"]),
        ("abababc", ["round 1", "round 2", "round 3", "c"]),
        ("xabcabcab", ["x", "round 1", "round 2", "a", "b"]),
        ("aaaa", ["a", "a", "a", "a"]),
        ("aabaab", ["round 1", "round 2"]),
    ],
)
def test_cycles_of_steps_are_rounds(nodes: str, expected: list[str]) -> None:
    assert labels(tree(*nodes)) == expected


def test_a_round_has_its_steps() -> None:
    assert labels(tree(*"ababab").children[1]) == ["a", "b"]


def test_every_subtree_sums_its_children_and_the_attempt_is_the_sum_of_all() -> None:
    root = tree(*"xababy")
    for node in walk(root):
        if node.children:
            assert node.figures.tokens == sum(child.figures.tokens or 0 for child in node.children)
            assert node.figures.cost == pytest.approx(sum(child.figures.cost or 0 for child in node.children))
    assert (root.figures.tokens, root.figures.cost) == (60, 3.0)
    assert [child.figures.seconds for child in root.children] == [1.0, 2.0, 2.0, 1.0]


def test_a_part_that_is_not_known_makes_the_sum_unknown_not_smaller() -> None:
    group = tree(*"abab", with_call=call(tokens=None, cost=None)).children[0]
    assert (group.figures.tokens, group.figures.cost) == (None, None)


def test_a_failed_call_is_in_no_ledger_and_marks_all_above_it() -> None:
    root = tree("a", "b", with_call=call(tokens=None, cost=None, error="gone"))
    assert root.children[0].figures.cost == 0.0
    assert all(node.troubled for node in walk(root))


def test_keys_are_unique_and_stay_when_more_steps_follow() -> None:
    short, long = tree(*"abab"), tree(*"ababab")
    keys = [node.key for node in walk(long)]
    assert len(set(keys)) == len(keys)
    assert {node.key for node in walk(short)} <= set(keys)


def test_what_was_imported_has_no_time_rather_than_none_at_all() -> None:
    silent = Call(key="", kind="model", role="answering", node="x", actor="m", at=0.0, seconds=0.0)
    events: list[Event] = [
        Entered(step=0, node="imported", at=0.0),
        Called(step=0, call=silent),
        Left(step=0, seconds=0.0),
    ]
    made = replace(attempt(bare_run("x", ()), 0, events), seconds=0.0, at=0.0)
    assert [node.figures.seconds for node in walk(attempt_tree(made))] == [None, None]
