"""Which runs differ, by the corrected tests of a table and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.compare.comparison import ScorerTable
from ragrounds.evals.compare.figures import RunPair
from ragrounds.evals.stats import holm

LEVEL = 0.05
"""Of all tests of a table together: where no runs differ, one table in twenty calls some different."""
PairTest = Literal["McNemar", "always-valid", "interval"]


class Conclusion(Struct, frozen=True, kw_only=True):
    """Two runs that differ."""

    better: str
    """A run's id."""
    worse: str
    difference: float
    """How far their scores are apart, above 0, whichever scores are better."""
    low: float
    high: float
    test: PairTest
    """``always-valid``: of runs that ended by their own results. ``interval``: scores are not right or wrong, so that
    of a single pair its interval decides."""
    p: float | None
    """Of the test, after Holm's correction."""
    corrected: bool
    """Whether it is one of several tests."""


def conclusions(table: ScorerTable) -> tuple[Conclusion, ...]:
    """The pairs of a table that differ: the corrected test says so, and the interval that the table shows leaves 0 out,
    on the same side. By p, the smallest first."""
    found = []
    for pair, test, p in _tested(table.pairs):
        tests = pair.tests
        if tests.difference is None or tests.low is None or tests.high is None or (p is not None and p >= LEVEL):
            continue
        if not (tests.low > 0 or tests.high < 0) or not _same_side(pair):
            continue
        up = tests.difference > 0
        second = up == (table.direction == "higher")
        found.append(
            Conclusion(
                better=pair.second if second else pair.first,
                worse=pair.first if second else pair.second,
                difference=abs(tests.difference),
                low=tests.low if up else -tests.high,
                high=tests.high if up else -tests.low,
                test=test,
                p=p,
                corrected=p is not None and (len(table.pairs) > 1 or p != tests.p_mcnemar),
            )
        )
    return tuple(sorted(found, key=lambda one: one.p or 0.0))


def untested(table: ScorerTable) -> bool:
    """Whether there are pairs and no test that says which of them differ: scores are not right or wrong."""
    return bool(table.pairs) and not _tested(table.pairs)


def by_interval(table: ScorerTable) -> bool:
    """Whether the interval of the one pair decides, as there is no test: scores are not right or wrong."""
    return any(test == "interval" for _, test, _ in _tested(table.pairs))


def _tested(pairs: Sequence[RunPair]) -> list[tuple[RunPair, PairTest, float | None]]:
    """The pairs with a test, and their corrected p value."""
    watched = [pair for pair in pairs if pair.tests.p_always is not None]
    always = holm([pair.tests.p_always or 0.0 for pair in watched], len(pairs))
    made: list[tuple[RunPair, PairTest, float | None]] = [
        (pair, "always-valid", p) for pair, p in zip(watched, always, strict=True)
    ]
    made += [(pair, "McNemar", pair.p_holm) for pair in pairs if pair.p_holm is not None]
    return made or [(pair, "interval", None) for pair in pairs if len(pairs) == 1]


def _same_side(pair: RunPair) -> bool:
    """Whether what McNemar's test counts, answers that one run alone has right, goes the way of the difference, which
    is a mean over datasets."""
    tests = pair.tests
    if pair.p_holm is None or tests.first_only is None or tests.second_only is None or tests.difference is None:
        return True
    return (tests.second_only - tests.first_only) * tests.difference > 0
