"""Which runs are set against which: all with all, all with a baseline, or the best with each other.

The number of pairs grows with the square of the number of runs. Beyond :data:`MOST_PAIRS` they are not all tested.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ragrounds.errors import UserError
from ragrounds.evals.compare.figures import Figure

MOST_PAIRS = 300
"""Pairs of runs that are tested at most, under each scorer."""
_MOST_RUNS = 25
"""Runs that make so many pairs: 25 · 24 / 2."""

Pair = tuple[str, str]
"""Two run ids; what is shown is the second minus the first."""


class PairChoice(Struct, frozen=True, kw_only=True):
    """Which pairs of runs are tested."""

    baseline: str = ""
    """Each other run against this one (an id)."""
    top: int | None = None
    """The so many best runs under a scorer, each against each."""
    ask: bool = False
    """Where neither is chosen and all pairs are too many: say so as an error. Else no pair is tested, and a note says
    it."""

    def check(self, runs: Sequence[str]) -> str:
        """The note on which pairs of these runs (ids) are tested; empty: all are.

        Raises:
            UserError: a choice that makes no sense for these runs, or none where there are too many pairs and `ask` is
                set.
        """
        every = _pairs_of(len(runs))
        if self.baseline and self.top is not None:
            raise UserError("--baseline and --top were both given; choose one of them.")
        if self.baseline:
            if self.baseline not in runs:
                raise UserError(f"The baseline {self.baseline} is none of the runs that are compared.")
            place = runs.index(self.baseline) + 1
            return f"Differences are those to the baseline #{place}; Holm's correction is over these." * (len(runs) > 2)
        if self.top is not None:
            if not 2 <= self.top <= _MOST_RUNS:
                raise UserError(f"--top {self.top}: expected 2 to {_MOST_RUNS} runs, each of which meets each.")
            if self.top >= len(runs):
                return ""
            return (
                f"Differences are those between the {self.top} best runs of each table. Which these are was read from "
                f"the same scores, so Holm's correction is over all {every:,} pairs."
            )
        if every <= MOST_PAIRS:
            return ""
        said = f"{len(runs):,} runs make {every:,} pairs, and at most {MOST_PAIRS:,} are tested"
        way = f"against one of them (--baseline RUN) or the best against each other (--top K, K up to {_MOST_RUNS})"
        if self.ask:
            raise UserError(f"{said}. Compare all of them {way}.")
        return f"{said}, so there are no paired differences here: `ragrounds compare` sets runs {way}."

    def of(self, figures: Mapping[str, Figure], direction: str) -> list[Pair]:
        """The pairs of one table.

        Args:
            figures: run id → its overall figure.
            direction: which figures are better: ``higher`` or ``lower``.
        """
        runs = list(figures)
        if self.baseline:
            return [(self.baseline, run) for run in runs if run != self.baseline]
        if self.top is not None and self.top < len(runs):
            values = {run: figure.value for run, figure in figures.items() if figure.value is not None}
            sign = 1 if direction == "lower" else -1
            best = sorted(values, key=lambda run: (sign * values[run], runs.index(run)))[: self.top]
            runs = [run for run in runs if run in best]
        elif _pairs_of(len(runs)) > MOST_PAIRS:
            return []
        return list(itertools.combinations(runs, 2))

    def among(self, runs: int, groups: int = 1) -> int | None:
        """Of how many tests those of `runs` runs in `groups` groups are some; ``None``: they are all there are."""
        return _pairs_of(runs) * groups if self.top is not None and not self.baseline else None


EVERY_PAIR = PairChoice()


def _pairs_of(runs: int) -> int:
    return runs * (runs - 1) // 2
