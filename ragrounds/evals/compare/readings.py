"""Where two scorers of choices read the same answers differently, which says more of the reader than of the systems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from ragrounds.evals.scorers import described
from ragrounds.records import Run, Score

CAREFUL = "robust"
"""The scorer that others are set beside."""
MOST_DIFFERENT = 0.05
"""Share of a run's answers from which on it is said that they are read differently."""


class TwoReadings(Struct, frozen=True, kw_only=True):
    """One answer as two scorers read it."""

    first: Score
    second: Score

    @property
    def differ(self) -> bool:
        """Whether they read another option, or one of them none."""
        return self.first.prediction != self.second.prediction


def two_readings(scores: Mapping[str, Sequence[Score]], scorer: str) -> list[TwoReadings]:
    """The answers of a run that both a scorer and `robust` have read.

    Args:
        scores: scorer → its scores of the run.
        scorer: the name of one that reads choices.
    """
    careful = {(one.question_id, one.epoch): one for one in scores.get(CAREFUL, ())}
    pairs = ((one, careful.get((one.question_id, one.epoch))) for one in scores.get(scorer, ()))
    return [TwoReadings(first=one, second=other) for one, other in pairs if other is not None and one.value is not None]


def reading_notes(
    runs: Sequence[Run], scores: Mapping[str, Mapping[str, Sequence[Score]]], scorers: Sequence[str]
) -> Iterator[str]:
    """What tables say of runs whose answers one of these scorers and `robust` read differently.

    Args:
        runs: that are compared.
        scores: run id → scorer → scores.
        scorers: the headlines.
    """
    for name in scorers:
        known = described(name)
        if name == CAREFUL or not known.accuracy or "choice" not in known.kinds or known.needs_judge:
            continue
        for run in runs:
            both = two_readings(scores[run.id], name)
            apart = [one for one in both if one.differ]
            if both and len(apart) / len(both) > MOST_DIFFERENT:
                gained = sum((one.second.value or 0) - (one.first.value or 0) for one in apart)
                how = f"{abs(gained):,.0f} {'more' if gained >= 0 else 'fewer'} are right"
                yield (
                    f"{run.id}: {name} and {CAREFUL} read {len(apart):,} of {len(both):,} answers differently; "
                    f"by {CAREFUL} {how}. `ragrounds analyse readings {run.id} --scorer {name}` shows them."
                )
