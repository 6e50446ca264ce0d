"""What a model is asked of a part of an item: one of its documents, a sentence beside it.

What becomes of a part must not become of the item, with everything that was paid for its other parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from ragrounds.build.outcome import REFUSED
from ragrounds.build.stages import Rejected
from ragrounds.evals.engine.attempt_log import AttemptEnded
from ragrounds.models.faults import CallFailed

T = TypeVar("T")

CALL_FAILED = "the call failed for good"
_FOR_GOOD = ("bad_request", "context_too_long")
"""Kinds of failed calls that fail alike however often they are made."""


async def of_part(asked: Awaitable[T]) -> T:
    """What comes of asking for a part of an item.

    Raises:
        Rejected: the part is: its replies were malformed, the provider refused it, or the call would fail each time.
        CallFailed, AttemptEnded: anything else ends the item as anywhere; another run may mend it.
    """
    try:
        return await asked
    except AttemptEnded as ended:
        if ended.status != "blocked":
            raise
        raise Rejected(REFUSED, ended.reason) from ended
    except CallFailed as failed:
        if failed.kind not in _FOR_GOOD:
            raise
        raise Rejected(CALL_FAILED, f"{failed.kind}: {failed.message}") from failed


def none_left(faults: Sequence[Rejected]) -> None:
    """To be called where no part is left. What fails for every part may lie with the server, so the item has failed
    with it and is tried again by the same command.

    Raises:
        CallFailed: one of the parts' calls failed.
    """
    for fault in faults:
        if isinstance(fault.__cause__, CallFailed):
            raise fault.__cause__


def reasons_said(reasons: Iterable[str]) -> str:
    """`` (3 malformed output, 1 refused by the provider)``, most first; empty where there are none."""
    counts = Counter(reasons).most_common()
    return f" ({', '.join(f'{count:,} {reason}' for reason, count in counts)})" if counts else ""
