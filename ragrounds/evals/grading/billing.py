"""What judging took: calls, tokens, dollars."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ragrounds.records import Call, Usage


class Bill(Struct, frozen=True, kw_only=True):
    """The sum of calls. What is not known of one of them is not known of the sum."""

    calls: int
    reused: int
    """Of these, answered from the journal."""
    failed: int
    """Of these, without a reply."""
    usage: Usage | None
    spent: float | None
    """Dollars really paid now."""
    cold: float | None
    """Dollars from cold: as if nothing had been in the journal."""


def bill(calls: Sequence[Call]) -> Bill:
    """Add up calls."""
    used = [call.usage for call in calls]
    known = [usage for usage in used if usage is not None]
    return Bill(
        calls=len(calls),
        reused=sum(call.cached for call in calls),
        failed=sum(bool(call.error) for call in calls),
        usage=sum(known, start=Usage()) if len(known) == len(used) else None,
        spent=_sum([0.0 if call.cached else call.cold for call in calls]),
        cold=_sum([call.cold for call in calls]),
    )


def made(calls: Sequence[Call]) -> int | None:
    """Tokens in and out of the calls that the journal did not answer; ``None``: not all known."""
    used = [call.usage for call in calls if not call.cached]
    known = [usage.input + usage.output for usage in used if usage is not None]
    return sum(known) if len(known) == len(used) else None


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
