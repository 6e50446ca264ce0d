"""What attempts that are still open could make of a claim: the ends between which its measures will lie.

A score counts an attempt that failed, is paused or was never made as 0; once it is made it may have the best score. A
share of endings counts only those that are still to be made. Nothing bounds a cost, a score that is no share, or a
ratio of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.compare.question_values import Values
from ragrounds.records import Attempt, Question

_UNMADE = frozenset({"paused", "not_run"})
_UNSCORED = _UNMADE | {"failed"}
"""The same attempts by which the first line of a comparison says that a difference could still turn round."""


class OpenShare(Struct, frozen=True, kw_only=True):
    """The attempts of a term of a claim that are still open."""

    shares: Mapping[str, float]
    """Question id → share of its attempts; those without an open one are not in it."""
    count: int
    """Attempts that are open."""
    of: int


def open_share(
    attempts: Sequence[Attempt], asked: Sequence[Question], epochs: int, measure: str, scores: bool
) -> OpenShare:
    """Which attempts could still change a measure of a run.

    Args:
        attempts: of the run.
        asked: the questions that the measure is over.
        epochs: of each question.
        measure: of the claim.
        scores: whether it is a score; then a failed attempt is open, for it can be made again.
    """
    status = {(one.question_id, one.epoch): one.status for one in attempts}
    still = (_UNSCORED if scores else _UNMADE) - {measure}
    counts = {one.id: sum(status.get((one.id, epoch), "not_run") in still for epoch in range(epochs)) for one in asked}
    return OpenShare(
        shares={question: count / epochs for question, count in counts.items() if count},
        count=sum(counts.values()),
        of=len(asked) * epochs,
    )


def at_end(factor: float, values: Values, share: OpenShare, up: bool) -> Values:
    """The values of a term that make the claimed sum largest (`up`) or smallest."""
    if (factor > 0) != up:
        return values
    return {
        question: None if value is None else min(1.0, value + share.shares.get(question, 0.0))
        for question, value in values.items()
    }
