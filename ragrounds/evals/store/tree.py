"""From an attempt's flat events to its steps and their calls. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from ragrounds.records import Call, Called, Entered, Event, Left, Noted, Step


def steps(events: Iterable[Event]) -> tuple[Step, ...]:
    """The nodes that an attempt went through, in order of entry.

    What happened outside of any node (an index below 0) stands in a step with an empty node name. A step that was
    entered and never left (the attempt ended inside it) has no seconds.
    """
    built: dict[int, Step] = {}
    for event in events:
        if isinstance(event, Entered):
            built[event.step] = Step(index=event.step, node=event.node, at=event.at, seconds=None)
            continue
        step = built.get(event.step) or Step(index=event.step, node="", at=0.0, seconds=None)
        match event:
            case Called():
                step = replace(step, calls=(*step.calls, event.call))
            case Noted():
                step = replace(step, notes=(*step.notes, event))
            case Left():
                step = replace(step, seconds=event.seconds, changes=event.changes, error=event.error)
        built[event.step] = step
    return tuple(built.values())


def calls(events: Iterable[Event]) -> Iterator[Call]:
    """The calls of an attempt, in order."""
    return (event.call for event in events if isinstance(event, Called))


def path(events: Sequence[Event]) -> list[str]:
    """Names of the nodes in the order they were entered."""
    return [event.node for event in events if isinstance(event, Entered)]
