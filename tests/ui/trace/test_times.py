"""The times of a tree: what ran inside what, and what was not measured."""

from __future__ import annotations

from msgspec.structs import replace

from ragrounds.base.records import Attempt, Call, Called, Entered, Event, Left
from ragrounds.ui.trace.tree import Span, attempt_tree, union_seconds, walk
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


def test_a_step_that_was_never_left_ran_until_the_attempt_ended() -> None:
    root = attempt_tree(made([entered(0, "answer", 1.0)], 3.0))
    assert root.children[0].figures.seconds == 2.0


def test_a_hostile_chain_of_steps_inside_each_other_is_drawn() -> None:
    events: list[Event] = [entered(step, "deeper", 0.0, parent=step - 1) for step in range(5000)]
    events.append(entered(5000, "loops", 0.0, parent=5000))
    assert len(list(walk(attempt_tree(made(events, 1.0))))) == 5002


def test_a_time_in_which_two_ran_counts_once() -> None:
    assert union_seconds([Span(0, 2), Span(1, 3), Span(5, 6)]) == 4
