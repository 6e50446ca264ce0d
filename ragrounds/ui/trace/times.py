"""When the parts of an attempt ran."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Span(Struct, frozen=True):
    """When a part ran, in seconds since the epoch."""

    begin: float
    end: float


def union_seconds(spans: Sequence[Span]) -> float:
    """Seconds in which at least one of them ran."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.begin):
        total += max(0.0, span.end - max(span.begin, reached))
        reached = max(reached, span.end)
    return total


def measured(seconds: float, at: float) -> float | None:
    """Seconds, where they were measured: what was imported has neither a time nor a duration."""
    return seconds if seconds or at else None
