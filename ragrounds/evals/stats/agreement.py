"""Agreement of raters: people with people, judges with people, judges with judges.

Every function takes labels as texts; ``None`` is a missing label. A coefficient is 1 for full agreement, 0 for what
chance gives, and ``None`` where it is not defined (a single label throughout). The interval of Cohen's kappa comes from
a bootstrap over clusters of items (Efron & Tibshirani 1993; percentile interval), because items of one answer, such as
its statements, are not independent; where they are too few for one there is no interval.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from ragrounds.evals.stats.bootstrap import FEWEST, bootstrap_holds
from ragrounds.evals.stats.estimates import stratified_mean
from ragrounds.evals.stats.intervals import Estimate

Labels = Sequence[Sequence[str | None]]
"""One sequence an item, one label a rater."""

Level = Literal["nominal", "ordinal", "interval"]


KAPPA_RESAMPLES = 10_000
FEWEST_FOR_KAPPA = 40
"""Clusters from which Cohen's kappa has an interval: there it covered 91 to 95 % in six simulations (kappa 0.3 to 0.7,
clusters of 1 and of 8 items), as with 50."""
_AT_ONCE = 4_000_000
"""Numbers held in memory at a time."""
_UNDEFINED = 0.05
"""Share of resamples without a kappa (one label throughout) from which there is no interval."""


class Agreement(Struct, frozen=True, kw_only=True):
    """A judge against a person."""

    n: int
    """Items that both have labelled."""
    missing: int
    accuracy: Estimate
    """Share of equal labels with its interval."""
    kappa: float | None
    kappa_low: float | None
    """95 % interval by a bootstrap over clusters; ``None``: too few clusters, or too few that differ, for one."""
    kappa_high: float | None
    clusters: int = 0
    """Sets of items that are not independent (answers), which both have labelled; 0: not counted."""
    confusion: Mapping[str, Mapping[str, int]]
    """Person's label → judge's label → items."""
    constant: Mapping[str, str] = {}
    """``judge`` or ``human`` → the one label that this side gave to every item: kappa is not defined then."""


def compare_with_human(
    judge: Sequence[str | None],
    human: Sequence[str | None],
    clusters: Sequence[str] | None = None,
) -> Agreement:
    """Accuracy, Cohen's kappa and confusion of a judge, where both sides have a label.

    Args:
        judge: labels by item.
        human: the other side's, who may be a judge too.
        clusters: items with the same name are not independent; by default all are.

    Raises:
        ValueError: sides of different length, or no item with both labels.
    """
    names = [str(place) for place in range(len(judge))] if clusters is None else clusters
    if not len(judge) == len(human) == len(names):
        raise ValueError(f"expected one label of each side an item, got {len(judge)} and {len(human)}")
    kept = [
        (one, other, name)
        for one, other, name in zip(judge, human, names, strict=True)
        if one is not None and other is not None
    ]
    both = [(one, other) for one, other, _ in kept]
    if not both:
        raise ValueError("no item has a label of both sides")
    labels = sorted({label for pair in both for label in pair})
    table = Counter((right, given) for given, right in both)
    given, right, drawn = zip(*kept, strict=True)
    same = [float(one == other) for one, other in both]
    alike = {("judge", "human")[place]: label for place, label in constant_raters(both).items()}
    interval = kappa_interval(given, right, drawn) if not alike and _enough(same, drawn, FEWEST_FOR_KAPPA) else None
    return Agreement(
        n=len(both),
        clusters=len(set(drawn)),
        missing=len(judge) - len(both),
        accuracy=stratified_mean(same, clusters=drawn),
        kappa=None if alike else cohen_kappa(given, right),
        kappa_low=interval[0] if interval else None,
        kappa_high=interval[1] if interval else None,
        confusion={one: {other: table[one, other] for other in labels} for one in labels},
        constant=alike,
    )


def _enough(same: Sequence[float], clusters: Sequence[str], fewest: int = FEWEST) -> bool:
    """Whether items are enough, and enough of them labelled differently, for a bootstrap of kappa."""
    sums: dict[str, list[float]] = {}
    for value, name in zip(same, clusters, strict=True):
        row = sums.setdefault(name, [0.0, 0.0])
        row[0] += value
        row[1] += 1
    return bootstrap_holds([np.array(list(sums.values()))], fewest)


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa (1960) of two raters who labelled the same items.

    Raises:
        ValueError: no items, or lengths that differ.
    """
    if not first or len(first) != len(second):
        raise ValueError(f"expected one label of each rater an item, got {len(first)} and {len(second)}")
    left, right = Counter(first), Counter(second)
    n = len(first)
    observed = sum(one == other for one, other in zip(first, second, strict=True)) / n
    expected = sum(left[label] * right[label] for label in left) / n**2
    return None if abs(1 - expected) < 1e-12 else (observed - expected) / (1 - expected)


def kappa_interval(
    first: Sequence[str],
    second: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = KAPPA_RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The interval of the kappa of two raters who labelled the same items; ``None`` where too few resamples have one.

    Raises:
        ValueError: no items, or lengths that differ.
    """
    names = list(clusters) if clusters is not None else [str(place) for place in range(len(first))]
    if not first or not len(first) == len(second) == len(names):
        raise ValueError(f"expected one label of each rater an item, got {len(first)} and {len(second)}")
    labels = {label: place for place, label in enumerate(sorted({*first, *second}))}
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    size = len(labels)
    tables = np.zeros((len(places), size * size))
    for one, other, name in zip(first, second, names, strict=True):
        tables[places[name], labels[one] * size + labels[other]] += 1
    # Clusters with the same table are drawn together, by one multinomial count: the same distribution.
    kinds, counts = np.unique(tables, axis=0, return_counts=True)
    generator = np.random.default_rng(seed)
    kappas: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    at_once = max(1, _AT_ONCE // len(kinds))
    for start in range(0, resamples, at_once):
        often = generator.multinomial(len(tables), counts / len(tables), size=min(at_once, resamples - start))
        drawn = (often @ kinds).reshape(-1, size, size)
        n = drawn.sum(axis=(1, 2))
        observed = np.trace(drawn, axis1=1, axis2=2) / n
        expected = (drawn.sum(axis=2) * drawn.sum(axis=1)).sum(axis=1) / n**2
        defined = expected < 1
        kappas.append((observed[defined] - expected[defined]) / (1 - expected[defined]))
    values = np.concatenate(kappas)
    if len(values) < (1 - _UNDEFINED) * resamples:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def fleiss_kappa(ratings: Labels) -> float | None:
    """Fleiss' kappa (1971): any number of raters, the same number of labels for every item.

    Raises:
        ValueError: no items, fewer than two labels an item, or numbers of labels that differ.
    """
    tables = [Counter(label for label in item if label is not None) for item in ratings]
    numbers = {table.total() for table in tables}
    if len(numbers) != 1 or (raters := numbers.pop()) < 2:
        raise ValueError("Fleiss' kappa needs two or more labels an item, as many for each; see Krippendorff's alpha")
    same = sum((sum(count**2 for count in table.values()) - raters) / (raters * (raters - 1)) for table in tables)
    observed = same / len(tables)
    totals = sum(tables, Counter())
    expected = sum((count / (len(tables) * raters)) ** 2 for count in totals.values())
    return None if expected == 1 else (observed - expected) / (1 - expected)


def krippendorff_alpha(ratings: Labels, level: Level = "nominal", order: Sequence[str] = ()) -> float | None:
    """Krippendorff's alpha (2011): any number of raters, with missing labels; items with one label say nothing.

    Args:
        ratings: labels by item.
        level: ``nominal``; ``ordinal`` takes `order` from low to high; ``interval`` takes labels as numbers.
        order: every label, from low to high, for the ordinal level.

    Raises:
        ValueError: no item with two labels, a label that is not in `order`, or one that is not a number.
    """
    items = [[label for label in item if label is not None] for item in ratings]
    items = [item for item in items if len(item) > 1]
    if not items:
        raise ValueError("Krippendorff's alpha needs an item with two labels or more")
    # The coincidence matrix: how often two labels meet within an item, each item weighing as many as it has labels.
    meeting = defaultdict[tuple[str, str], float](float)
    for item in items:
        counts = Counter(item)
        for one, often in counts.items():
            for other, again in counts.items():
                pairs = often * (again - (one == other))
                if pairs:
                    meeting[one, other] += pairs / (len(item) - 1)
    totals = defaultdict[str, float](float)
    for (one, _), weight in meeting.items():
        totals[one] += weight
    distance = _distance(level, totals, order)
    n = sum(totals.values())
    observed = sum(weight * distance(one, other) for (one, other), weight in meeting.items())
    expected = sum(totals[one] * totals[other] * distance(one, other) for one in totals for other in totals) / (n - 1)
    return None if expected == 0 else 1 - observed / expected


def constant_raters(ratings: Labels) -> dict[int, str]:
    """The raters who gave one label to everything that they labelled, two items or more: place in the items → label.

    Such a rater tells no item from another, so no coefficient of agreement with it is defined: neither 0, which is what
    Cohen's formula gives, nor 1.
    """
    raters = max((len(item) for item in ratings), default=0)
    found = {}
    for place in range(raters):
        given = [item[place] for item in ratings if len(item) > place and item[place] is not None]
        if len(given) > 1 and len(set(given)) == 1:
            found[place] = str(given[0])
    return found


def majority(labels: Sequence[str | None]) -> str | None:
    """The label of more than half of the raters who gave one; ``None`` where there is none."""
    given = Counter(label for label in labels if label is not None)
    if not given:
        return None
    label, count = given.most_common(1)[0]
    return label if 2 * count > given.total() else None


def _distance(level: Level, totals: Mapping[str, float], order: Sequence[str]) -> Callable[[str, str], float]:
    if level == "nominal":
        return lambda one, other: float(one != other)
    if level == "interval":
        return lambda one, other: (float(one) - float(other)) ** 2
    lost = [label for label in totals if label not in order]
    if lost:
        raise ValueError(f"the label {lost[0]!r} is not in the order given")
    place = {label: index for index, label in enumerate(order)}

    def ordinal(one: str, other: str) -> float:
        low, high = sorted((place[one], place[other]))
        passed = sum(totals.get(label, 0) for label in order[low : high + 1])
        return float(passed - (totals.get(one, 0) + totals.get(other, 0)) / 2) ** 2

    return ordinal
