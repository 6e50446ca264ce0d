"""What judging took: calls, tokens, dollars."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from ragrounds.records import Call, Usage


class Bill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sum of calls. What is not known of one of them is not known of the sum."""

    calls: int
    reused: int
    """Of these, answered from the journal."""
    failed: int
    """Of these, without a reply."""
    usage: Usage | None
    cost_paid: float | None
    """Dollars really paid: now, and by earlier processes that were broken off before they had a bill."""
    cost_uncached: float | None
    """Dollars uncached: as if nothing had been in the journal."""
    earlier: int = 0
    """Of the calls that the journal answered, paid for by earlier processes that were broken off."""
    cost_paid_earlier: float | None = 0.0
    """Of the dollars spent, those of these calls."""


def bill(calls: Sequence[Call], earlier: Collection[str] = ()) -> Bill:
    """Add up calls; `earlier` as in :class:`ragrounds.evals.judges.paying.Paying`."""
    carried = [call for call in calls if not call.cached and call.key in earlier]
    used = [call.usage for call in calls]
    known = [usage for usage in used if usage is not None]
    return Bill(
        calls=len(calls),
        reused=sum(call.cached for call in calls) + len(carried),
        failed=sum(bool(call.error) for call in calls),
        usage=sum(known, start=Usage()) if len(known) == len(used) else None,
        cost_paid=_sum([0.0 if call.cached else call.cost_uncached for call in calls]),
        cost_uncached=_sum([call.cost_uncached for call in calls]),
        earlier=len(carried),
        cost_paid_earlier=_sum([call.cost_uncached for call in carried]),
    )


def made(calls: Sequence[Call], earlier: Collection[str]) -> tuple[float | None, int | None]:
    """Dollars, and tokens in and out, of the calls that this process made, for its budget; ``None``: not all known."""
    own = [call for call in calls if not call.cached and call.key not in earlier]
    used = [call.usage for call in own]
    known = [usage.input + usage.output for usage in used if usage is not None]
    return _sum([call.cost_uncached for call in own]), sum(known) if len(known) == len(used) else None


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None
