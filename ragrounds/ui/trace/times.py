"""Where the time of an attempt went: the own time of each part, so that all own times add up to the whole.

A part's own time is when it ran and nothing below it did. Where several parts ran side by side, each is charged with
its share of that time. So no second is counted twice, whatever ran inside or beside what.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

SLACK = 0.002
"""Seconds by which two parts must overlap to have run side by side: beginnings are kept to a millisecond."""
_NEIGHBOURS = 40
"""Parts that begin after another and are looked at for having run beside it."""


class Span(Struct, frozen=True):
    """When a part ran, in seconds of one clock."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return max(0.0, self.end - self.begin)

    def since(self, moment: float) -> Span:
        """The same, told from another moment on: seconds since the epoch leave few digits for parts of one."""
        return Span(self.begin - moment, self.end - moment)

    def within(self, other: Span) -> Span:
        """The part of it that lies in another."""
        begin = min(max(self.begin, other.begin), other.end)
        return Span(begin, max(begin, min(self.end, other.end)))


def union_seconds(spans: Sequence[Span]) -> float:
    """Seconds in which at least one of them ran."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.begin):
        total += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return total


def side_by_side(spans: Sequence[Span | None]) -> list[bool]:
    """Of each, whether it ran beside another of them: both ran for at least half of the shorter one. A step's end is
    noted a little after it, so that what follows may seem to begin before. ``None``: not measured."""
    known = sorted((span.begin, span.end, place) for place, span in enumerate(spans) if span is not None)
    beside = [False] * len(spans)
    for number, (begin, end, place) in enumerate(known):
        for begins, ends, other in known[number + 1 : number + 1 + _NEIGHBOURS]:
            if begins + SLACK >= end:
                break
            both = min(end, ends) - begins
            if both > SLACK and both >= 0.5 * min(end - begin, ends - begins):
                beside[place] = beside[other] = True
    return beside


def own_seconds(spans: Sequence[Span], parents: Sequence[int]) -> list[float]:
    """The own seconds of parts that are given with the place of what each runs in; the first is the whole (-1), and
    what holds a part comes before it. Each part should lie within what holds it (:meth:`Span.within`)."""
    own = [0.0] * len(spans)
    below = [0] * len(spans)
    running = [False] * len(spans)
    deepest: dict[int, None] = {}
    # Of what begins at one moment the outer comes first, of what ends at one moment the inner.
    moments = [(span.begin, 1, place) for place, span in enumerate(spans) if span.seconds]
    moments += [(span.end, 0, -place) for place, span in enumerate(spans) if span.seconds]
    before = 0.0
    for at, begins, number in sorted(moments):
        if deepest and at > before:
            part = (at - before) / len(deepest)
            for place in deepest:
                own[place] += part
        before, place = at, abs(number)
        parent = parents[place]
        running[place] = bool(begins)
        if begins:
            if not below[place]:
                deepest[place] = None
            if parent >= 0:
                below[parent] += 1
                deepest.pop(parent, None)
            continue
        deepest.pop(place, None)
        if parent >= 0:
            below[parent] -= 1
            if not below[parent] and running[parent]:
                deepest[parent] = None
    return own


def measured(seconds: float, at: float) -> float | None:
    """Seconds, where they were measured: what was imported has neither a time nor a duration."""
    return seconds if seconds or at else None
