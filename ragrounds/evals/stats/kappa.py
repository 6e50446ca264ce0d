"""The interval of Cohen's kappa, by a bootstrap over clusters of items (Efron & Tibshirani 1993; percentile interval).

Items of one answer, such as its statements, are not independent: they are drawn together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 10_000
_AT_ONCE = 4_000_000
_UNDEFINED = 0.05
"""Share of resamples without a kappa (one label throughout) from which there is no interval."""


def kappa_interval(
    first: Sequence[str],
    second: Sequence[str],
    clusters: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES,
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
