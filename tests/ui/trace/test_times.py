"""Own and whole times: whatever ran inside or beside what, the own times of a tree add up to the whole of its root."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from ragrounds.records import Attempt, Call, Called, Entered, Event, Left
from ragrounds.ui.trace.times import Span, own_seconds, side_by_side, union_seconds
from ragrounds.ui.trace.tree import Node, attempt_tree, walk
from tests.ui.trace.making import AT, attempt, bare_run


def entered(step: int, node: str, begin: float, parent: int = -1) -> Entered:
    return Entered(step=step, node=node, at=AT + begin, parent=parent)


def called(step: int, begin: float, seconds: float, kind: str = "model") -> Called:
    call = Call(key="", kind=kind, role="answering", node="x", actor="m", at=AT + begin, seconds=seconds)  # type: ignore[arg-type]
    return Called(step=step, call=call)


def left(step: int, seconds: float) -> Left:
    return Left(step=step, seconds=seconds)


def made(events: list[Event], seconds: float) -> Attempt:
    return replace(attempt(bare_run("x", ()), 0, events), seconds=seconds, at=AT)


def own(root: Node) -> dict[str, float]:
    return {node.key: round(node.figures.own or 0.0, 6) for node in walk(root)}


def test_a_graph_inside_a_node_is_its_child_and_is_not_counted_twice() -> None:
    events = [
        entered(0, "loop", 0.1),
        entered(1, "search", 0.2, parent=0),
        called(1, 0.3, 0.5, "search"),
        left(1, 0.8),
        entered(2, "read", 1.0, parent=0),
        called(2, 1.1, 0.9),
        left(2, 1.0),
        left(0, 1.95),
        entered(3, "answer", 2.1),
        called(3, 2.15, 0.3),
        left(3, 0.4),
    ]
    root = attempt_tree(made(events, 3.0))
    loop = root.children[0]
    assert [child.label for child in loop.children] == ["search", "read"]
    assert (loop.figures.seconds, root.figures.seconds) == (1.95, 3.0)
    assert own(root) == {"attempt": 0.65, "step 0": 0.15, "step 1": 0.8, "step 2": 1.0, "step 3": 0.4}
    assert not any(node.beside for node in walk(root))


def test_what_ran_side_by_side_has_a_sign_and_shares_the_time() -> None:
    events = [
        entered(0, "left", 0.0),
        entered(1, "right", 0.001),
        called(1, 0.01, 0.9),
        called(0, 0.01, 1.9),
        left(1, 1.0),
        left(0, 2.0),
        entered(2, "answer", 1.999),  # noted a little before the end of what came before
        left(2, 1.0),
    ]
    root = attempt_tree(made(events, 3.0))
    assert [child.beside for child in root.children] == [True, True, False]
    assert sum(own(root).values()) == pytest.approx(3.0)
    assert own(root)["step 0"] == pytest.approx(1.5, abs=0.01)


def test_an_older_attempt_without_nesting_is_not_counted_twice() -> None:
    # The inner steps stand beside the outer one: which ran inside which was not kept.
    events = [entered(0, "loop", 0.0), entered(1, "search", 0.5), left(1, 1.0), left(0, 2.0)]
    root = attempt_tree(made(events, 2.0))
    assert [child.label for child in root.children] == ["loop", "search"]
    assert sum(own(root).values()) == pytest.approx(2.0)


def test_own_times_add_up_whatever_runs_beside_or_inside_what() -> None:
    dice = random.Random(5)
    for _ in range(60):
        spans, parents = [Span(0.0, dice.uniform(1, 9))], [-1]
        for place in range(1, dice.randrange(2, 60)):
            parent = dice.randrange(place)
            begin = dice.uniform(0, 10)
            spans.append(Span(begin, begin + dice.uniform(0, 5)).within(spans[parent]))
            parents.append(parent)
        own = own_seconds(spans, parents)
        assert sum(own) == pytest.approx(spans[0].seconds)
        assert all(0 <= part <= span.seconds + 1e-9 for part, span in zip(own, spans, strict=True))


def test_a_step_that_was_never_left_ran_until_the_attempt_ended() -> None:
    root = attempt_tree(made([entered(0, "answer", 1.0)], 3.0))
    assert (root.children[0].figures.seconds, own(root)["step 0"]) == (2.0, 2.0)


def test_what_was_not_measured_has_no_times() -> None:
    events = [Entered(step=0, node="imported", at=0.0), Left(step=0, seconds=0.0)]
    root = attempt_tree(replace(made(events, 0.0), at=0.0))
    assert [(node.figures.seconds, node.figures.own) for node in walk(root)] == [(None, None)] * 2


def test_a_hostile_chain_of_steps_inside_each_other_is_drawn() -> None:
    events: list[Event] = [entered(step, "deeper", 0.0, parent=step - 1) for step in range(5000)]
    events.append(entered(5000, "loops", 0.0, parent=5000))
    assert len(list(walk(attempt_tree(made(events, 1.0))))) == 5002


def test_unions_and_neighbours() -> None:
    spans = [Span(0, 2), Span(1, 3), Span(5, 6)]
    assert union_seconds(spans) == 4
    assert side_by_side([*spans, None]) == [True, True, False, False]
    assert side_by_side([Span(0, 2), Span(1.9, 4)]) == [False, False]
