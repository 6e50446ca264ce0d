"""Agreement of raters: people with people, judges with people, judges with judges.

Every function takes labels as texts; ``None`` is a missing label. A coefficient is 1 for full agreement, 0 for
agreement by chance, and ``None`` if it is not defined (a single label throughout). The interval of Cohen's kappa comes
from a bootstrap over clusters of items (Efron & Tibshirani 1993; percentile interval), because items of one answer,
such as its statements, are not independent. With too few clusters there is no interval.
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
"""Labels of raters: one sequence for each item, one label for each rater."""

Level = Literal["nominal", "ordinal", "interval"]


KAPPA_RESAMPLES = 10_000
FEWEST_FOR_KAPPA = 40
"""Smallest number of clusters for which Cohen's kappa has an interval: there it covered 91 to 95 % in six simulations
(kappa 0.3 to 0.7, clusters of 1 and of 8 items), as with 50."""
_AT_ONCE = 4_000_000
"""Count of numbers held in memory at a time."""
_UNDEFINED = 0.05
"""Share of resamples without a kappa (one label throughout) above which there is no interval."""


class Agreement(Struct, frozen=True, kw_only=True):
    """Agreement of a judge with a person."""

    n: int
    """Number of items that both have labelled."""
    missing: int
    accuracy: Estimate
    """Share of equal labels with its interval."""
    kappa: float | None
    kappa_low: float | None
    """Lower end of the 95 % interval by a bootstrap over clusters; ``None`` if too few clusters exist, or too few
    differ."""
    kappa_high: float | None
    clusters: int = 0
    """Number of sets of dependent items (answers) that both have labelled; 0 if not counted."""
    confusion: Mapping[str, Mapping[str, int]]
    """Person's label → judge's label → number of items."""
    constant: Mapping[str, str] = {}
    """Side (``judge`` or ``human``) → the only label that it gave to every item. Kappa is not defined then."""


def compare_with_human(
    judge: Sequence[str | None],
    human: Sequence[str | None],
    clusters: Sequence[str] | None = None,
) -> Agreement:
    """Return accuracy, Cohen's kappa and confusion of a judge on the items that both sides have labelled.

    Args:
        judge: judge's label of each item.
        human: other side's label of each item; this side may be a judge too.
        clusters: cluster name of each item. Items with the same name are not independent; by default all are
            independent.

    Raises:
        ValueError: the sides have different lengths, or no item has both labels.
    """
    cluster_names = [str(index) for index in range(len(judge))] if clusters is None else clusters
    if not len(judge) == len(human) == len(cluster_names):
        raise ValueError(f"expected one label of each side an item, got {len(judge)} and {len(human)}")
    complete = [
        (first_label, second_label, name)
        for first_label, second_label, name in zip(judge, human, cluster_names, strict=True)
        if first_label is not None and second_label is not None
    ]
    pairs = [(first_label, second_label) for first_label, second_label, _ in complete]
    if not pairs:
        raise ValueError("no item has a label of both sides")
    labels = sorted({label for pair in pairs for label in pair})
    table = Counter((human_labels, judge_labels) for judge_labels, human_labels in pairs)
    judge_labels, human_labels, complete_clusters = zip(*complete, strict=True)
    agrees = [float(first_label == second_label) for first_label, second_label in pairs]
    constant_sides = {("judge", "human")[index]: label for index, label in constant_raters(pairs).items()}
    interval = (
        kappa_interval(judge_labels, human_labels, complete_clusters)
        if not constant_sides and _has_enough_clusters(agrees, complete_clusters, FEWEST_FOR_KAPPA)
        else None
    )
    return Agreement(
        n=len(pairs),
        clusters=len(set(complete_clusters)),
        missing=len(judge) - len(pairs),
        accuracy=stratified_mean(agrees, clusters=complete_clusters),
        kappa=None if constant_sides else cohen_kappa(judge_labels, human_labels),
        kappa_low=interval[0] if interval else None,
        kappa_high=interval[1] if interval else None,
        confusion={
            first_label: {second_label: table[first_label, second_label] for second_label in labels}
            for first_label in labels
        },
        constant=constant_sides,
    )


def _has_enough_clusters(agrees: Sequence[float], clusters: Sequence[str], fewest: int = FEWEST) -> bool:
    """Return True if there are enough items, and enough with different labels, for a bootstrap of kappa."""
    sums: dict[str, list[float]] = {}
    for value, name in zip(agrees, clusters, strict=True):
        row = sums.setdefault(name, [0.0, 0.0])
        row[0] += value
        row[1] += 1
    return bootstrap_holds([np.array(list(sums.values()))], fewest)


def cohen_kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return Cohen's kappa (1960)  of two raters who labelled the same items.

    Raises:
        ValueError: there are no items, or the lengths differ.
    """
    if not first or len(first) != len(second):
        raise ValueError(f"expected one label of each rater an item, got {len(first)} and {len(second)}")
    first_counts, second_counts = Counter(first), Counter(second)
    n = len(first)
    observed = sum(first_label == second_label for first_label, second_label in zip(first, second, strict=True)) / n
    expected = sum(first_counts[label] * second_counts[label] for label in first_counts) / n**2
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
    """Return the interval of the kappa of two raters who labelled the same items; ``None`` if too few resamples have a
    kappa.

    Raises:
        ValueError: no items, or lengths that differ.
    """
    cluster_names = list(clusters) if clusters is not None else [str(index) for index in range(len(first))]
    if not first or not len(first) == len(second) == len(cluster_names):
        raise ValueError(f"expected one label of each rater an item, got {len(first)} and {len(second)}")
    label_indices = {label: index for index, label in enumerate(sorted({*first, *second}))}
    cluster_indices = {name: index for index, name in enumerate(dict.fromkeys(cluster_names))}
    size = len(label_indices)
    tables = np.zeros((len(cluster_indices), size * size))
    for first_label, second_label, name in zip(first, second, cluster_names, strict=True):
        tables[cluster_indices[name], label_indices[first_label] * size + label_indices[second_label]] += 1
    # Clusters with the same table are sampled together, by one multinomial count. The distribution is the same.
    distinct_tables, counts = np.unique(tables, axis=0, return_counts=True)
    generator = np.random.default_rng(seed)
    kappas: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    batch_size = max(1, _AT_ONCE // len(distinct_tables))
    for start in range(0, resamples, batch_size):
        draw_counts = generator.multinomial(len(tables), counts / len(tables), size=min(batch_size, resamples - start))
        resampled_tables = (draw_counts @ distinct_tables).reshape(-1, size, size)
        n = resampled_tables.sum(axis=(1, 2))
        observed = np.trace(resampled_tables, axis1=1, axis2=2) / n
        expected = (resampled_tables.sum(axis=2) * resampled_tables.sum(axis=1)).sum(axis=1) / n**2
        defined = expected < 1
        kappas.append((observed[defined] - expected[defined]) / (1 - expected[defined]))
    values = np.concatenate(kappas)
    if len(values) < (1 - _UNDEFINED) * resamples:
        return None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def fleiss_kappa(ratings: Labels) -> float | None:
    """Return Fleiss' kappa (1971) of any number of raters, with the same number of labels for every item.

    Raises:
        ValueError: there are no items, fewer than two labels for an item, or different numbers of labels.
    """
    tables = [Counter(label for label in item if label is not None) for item in ratings]
    numbers = {table.total() for table in tables}
    if len(numbers) != 1 or (raters := numbers.pop()) < 2:
        raise ValueError("Fleiss' kappa needs two or more labels an item, as many for each; see Krippendorff's alpha")
    agreement_sum = sum(
        (sum(count**2 for count in table.values()) - raters) / (raters * (raters - 1)) for table in tables
    )
    observed = agreement_sum / len(tables)
    totals = sum(tables, Counter())
    expected = sum((count / (len(tables) * raters)) ** 2 for count in totals.values())
    return None if expected == 1 else (observed - expected) / (1 - expected)


def krippendorff_alpha(ratings: Labels, level: Level = "nominal", order: Sequence[str] = ()) -> float | None:
    """Return Krippendorff's alpha (2011) of any number of raters with missing labels. Items with one label do not
    count.

    Args:
        ratings: labels of each item.
        level: ``nominal``; ``ordinal`` takes `order` from low to high; ``interval`` takes labels as numbers.
        order: every label, from low to high, for the ordinal level.

    Raises:
        ValueError: no item has two labels; a label is not in `order`; a label is not a number.
    """
    items = [[label for label in item_labels if label is not None] for item_labels in ratings]
    items = [item_labels for item_labels in items if len(item_labels) > 1]
    if not items:
        raise ValueError("Krippendorff's alpha needs an item with two labels or more")
    # The coincidence matrix counts how often two labels occur in the same item. Each item weighs as much as its number
    # of labels.
    coincidences = defaultdict[tuple[str, str], float](float)
    for item_labels in items:
        counts = Counter(item_labels)
        for first_label, first_count in counts.items():
            for second_label, second_count in counts.items():
                pairs = first_count * (second_count - (first_label == second_label))
                if pairs:
                    coincidences[first_label, second_label] += pairs / (len(item_labels) - 1)
    totals = defaultdict[str, float](float)
    for (first_label, _), weight in coincidences.items():
        totals[first_label] += weight
    distance = _distance(level, totals, order)
    n = sum(totals.values())
    observed = sum(
        weight * distance(first_label, second_label) for (first_label, second_label), weight in coincidences.items()
    )
    expected = sum(
        totals[first_label] * totals[second_label] * distance(first_label, second_label)
        for first_label in totals
        for second_label in totals
    ) / (n - 1)
    return None if expected == 0 else 1 - observed / expected


def constant_raters(ratings: Labels) -> dict[int, str]:
    """Return index in the items → label for raters who gave one label to everything that they labelled, two items or
    more.

    Such a rater does not separate items, so no coefficient of agreement with it is defined: neither 0, which is Cohen's
    formula's value, nor 1.
    """
    raters = max((len(item_labels) for item_labels in ratings), default=0)
    constant_labels = {}
    for index in range(raters):
        rater_labels = [
            item_labels[index] for item_labels in ratings if len(item_labels) > index and item_labels[index] is not None
        ]
        if len(rater_labels) > 1 and len(set(rater_labels)) == 1:
            constant_labels[index] = str(rater_labels[0])
    return constant_labels


def majority(labels: Sequence[str | None]) -> str | None:
    """Return the label of more than half of the raters who gave one; ``None`` if no label has such a majority."""
    counts = Counter(label for label in labels if label is not None)
    if not counts:
        return None
    label, count = counts.most_common(1)[0]
    return label if 2 * count > counts.total() else None


def _distance(level: Level, totals: Mapping[str, float], order: Sequence[str]) -> Callable[[str, str], float]:
    if level == "nominal":
        return lambda first_label, second_label: float(first_label != second_label)
    if level == "interval":
        return lambda first_label, second_label: (float(first_label) - float(second_label)) ** 2
    unknown_labels = [label for label in totals if label not in order]
    if unknown_labels:
        raise ValueError(f"the label {unknown_labels[0]!r} is not in the order given")
    rank = {label: index for index, label in enumerate(order)}

    def ordinal(first_label: str, second_label: str) -> float:
        low, high = sorted((rank[first_label], rank[second_label]))
        passed = sum(totals.get(label, 0) for label in order[low : high + 1])
        return float(passed - (totals.get(first_label, 0) + totals.get(second_label, 0)) / 2) ** 2

    return ordinal
