"""Where an average over datasets misleads: it puts two runs in the other order than all questions pooled, or a
dataset of a few questions weighs in it as much as one of hundreds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from msgspec import Struct

from ragrounds.evals.compare.comparison import RunFigures, ScorerTable
from ragrounds.evals.scorers import described

FEW = 10
"""Questions of a dataset below which a reader is told so."""
LEAST = 5e-5
"""Differences below this are none: tables show hundredths of a percentage point."""


class Reversal(Struct, frozen=True):
    """Two runs whose order the average turns round."""

    ahead: RunFigures
    """By the average over datasets."""
    behind: RunFigures
    """By the average; ahead by all questions pooled."""


def is_average(table: ScorerTable) -> bool:
    """Whether the figures of a table are averages over several datasets."""
    several = bool(table.lines) and len(table.lines[0].datasets) > 1
    return several and described(table.scorer).aggregation.datasets != "pooled"


def reversals(table: ScorerTable) -> tuple[Reversal, ...]:
    """The pairs of runs whose average and pooled figure say opposite things, those that are farthest apart first."""
    if not is_average(table):
        return ()
    sign = -1 if table.direction == "lower" else 1
    found: list[tuple[float, Reversal]] = []
    for one, other in itertools.combinations(table.lines, 2):
        average, pooled = gap(one.overall.value, other.overall.value), gap(one.overall.pooled, other.overall.pooled)
        if average * pooled < 0 and min(abs(average), abs(pooled)) >= LEAST:
            ahead = sign * average > 0
            found.append((min(abs(average), abs(pooled)), Reversal(one if ahead else other, other if ahead else one)))
    return tuple(one for _, one in sorted(found, key=lambda each: -each[0]))


def small_datasets(table: ScorerTable) -> dict[str, int]:
    """The datasets of an average with fewer than :data:`FEW` questions, and how many they have; the smallest first."""
    if not is_average(table):
        return {}
    return smallest({name: figure.n + figure.missing for name, figure in table.lines[0].datasets.items()})


def smallest(counts: Mapping[str, int]) -> dict[str, int]:
    """Of datasets with their numbers of questions those with fewer than :data:`FEW`, the smallest first."""
    return dict(sorted(((name, n) for name, n in counts.items() if n < FEW), key=lambda one: one[1]))


def gap(one: float | None, other: float | None) -> float:
    """The difference of two figures; 0 where one of them is not there."""
    return 0.0 if one is None or other is None else one - other
