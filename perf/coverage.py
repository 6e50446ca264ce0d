"""How often intervals hold the truth: simulated, for right-or-wrong scores and for others.

    python perf/coverage.py [draws]

It writes perf/coverage.md. 1,500 draws a cell take about three minutes of one core. What is simulated is what tables,
claims and reports call: `adjusted_interval` with its tallies, `percentile_interval` and `bootstrap_holds`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragrounds.evals.stats.bootstrap import FEWEST, bootstrap_holds, percentile_interval
from ragrounds.evals.stats.intervals import Tallies, adjusted_interval

Floats = NDArray[np.float64]
STRATA = (1, 2, 5)
SIZES = (3, 5, 10, 30, 100, 1_000)
SHARES = (0.02, 0.1, 0.3, 0.5, 0.8, 0.98)
DISAGREEMENT = (0.05, 0.1, 0.2, 0.3, 0.5)
DIRECTIONS = (0.5, 0.7, 0.9)
"""Of the pairs that differ, the share that one side wins."""
CLUSTERS = (3, 5, 10, 30, 100)
CORRELATIONS = (0.0, 0.1, 0.3, 0.5)
RESAMPLES = 400


class Cell(NamedTuple):
    """One cell of a grid: the truth, and samples of it."""

    name: str
    truth: float
    tallies: Tallies
    paired: bool = False


def spread(middle: float, strata: int, by: float) -> Floats:
    """One share a stratum, equal or spread around the middle."""
    around = np.linspace(-by, by, strata) if strata > 1 else np.zeros(1)
    return np.clip(middle + around, 0.001, 0.999)


def alone(total: Floats, squares: Floats, n: int) -> Tallies:
    """Tallies of n questions a stratum that are independent."""
    zero, size = np.zeros_like(total), np.full_like(total, float(n))
    return Tallies(size, total, squares, zero, zero, size)


def clustered(sums: Floats, squares: Floats, sizes: Floats) -> Tallies:
    """Tallies of clusters, (draws, strata, clusters)."""
    n = np.broadcast_to(sizes, sums.shape).sum(axis=-1)
    total = sums.sum(axis=-1)
    between = ((sums - sizes * (total / n)[..., None]) ** 2).sum(axis=-1)
    pairs = np.full_like(n, float((sizes * (sizes - 1)).sum()))
    return Tallies(n, total, squares.sum(axis=-1), between, pairs, np.full_like(n, float(len(sizes))))


def single(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Right or wrong, K datasets of n questions each."""
    for strata in STRATA:
        for n in SIZES:
            for share in SHARES:
                for by in (0.0, 0.15):
                    p = spread(share, strata, by)
                    right = draw.binomial(n, p, (draws, strata)).astype(float)
                    yield Cell(f"K {strata}, n {n}, p {share}", float(p.mean()), alone(right, right, n))


def paired(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Two agents on the same questions."""
    for strata in STRATA:
        for n in SIZES:
            for differ in DISAGREEMENT:
                for direction in DIRECTIONS:
                    for by in (0.0, 0.5):
                        d = spread(1.0, strata, by) * differ if by else np.full(strata, differ)
                        cells = np.stack([d * direction, d * (1 - direction), 1 - d], axis=-1)
                        made = draw.multinomial(n, cells, (draws, strata)).astype(float)
                        up, down = made[..., 0], made[..., 1]
                        truth = float((d * (2 * direction - 1)).mean())
                        name = f"K {strata}, n {n}, differ {differ}, {direction} one way"
                        yield Cell(name, truth, alone(up - down, up + down, n), paired=True)


def cluster_sizes(kind: int, count: int) -> NDArray[np.int64]:
    """Clusters of one size, or of 1 to 10 in turn."""
    return np.full(count, kind) if kind else np.arange(count) % 10 + 1


def in_clusters(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Right or wrong, in clusters: beta-binomial counts with the correlation that is named."""
    for strata in STRATA:
        for count in CLUSTERS:
            for kind in (2, 5, 10, 0):
                sizes = cluster_sizes(kind, count)
                for rho in CORRELATIONS:
                    for share in SHARES:
                        p = spread(share, strata, 0.15 * ((count + kind) % 2))[:, None] * np.ones(count)
                        inside = (
                            p if not rho else draw.beta(p * (1 / rho - 1), (1 - p) * (1 / rho - 1), (draws, *p.shape))
                        )
                        sums = draw.binomial(sizes, inside, (draws, *p.shape)).astype(float)
                        name = f"K {strata}, {count} clusters of {kind or '1-10'}, correlation {rho}, p {share}"
                        yield Cell(name, float(p.mean()), clustered(sums, sums, sizes.astype(float)))


def pairs_in_clusters(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Two agents on the same questions, in clusters: Dirichlet-multinomial counts."""
    for strata in STRATA:
        for count in CLUSTERS:
            for kind in (2, 5, 10, 0):
                sizes = cluster_sizes(kind, count)
                for rho in CORRELATIONS:
                    for differ in (0.05, 0.2, 0.5):
                        for direction in (0.5, 0.9):
                            up, down = _differing(draw, (draws, strata, count), sizes, rho, differ, direction)
                            name = (
                                f"K {strata}, {count} clusters of {kind or '1-10'}, correlation {rho}, differ {differ}"
                            )
                            tallies = clustered(up - down, up + down, sizes.astype(float))
                            yield Cell(name, differ * (2 * direction - 1), tallies, paired=True)


def _differing(
    draw: np.random.Generator, shape: tuple[int, ...], sizes: NDArray[np.int64], rho: float, differ: float, way: float
) -> tuple[Floats, Floats]:
    """How many pairs of each cluster one side wins, and the other."""
    wins: Floats | float = differ
    first: Floats | float = way
    if rho:
        scale = 1 / rho - 1
        # A Dirichlet as two betas: how many differ, and which way those go.
        wins = draw.beta(differ * scale, (1 - differ) * scale, shape)
        first = draw.beta(differ * way * scale, differ * (1 - way) * scale, shape)
        first = np.nan_to_num(first, nan=way)
    both = draw.binomial(sizes, wins, shape)
    up = draw.binomial(both, first)
    return up.astype(float), (both - up).astype(float)


def held(cells: Iterator[Cell]) -> tuple[list[float], list[str], list[float]]:
    """How often each cell's interval holds the truth; the cells' names; the mean widths."""
    rates, names, widths = [], [], []
    for cell in cells:
        strata = cell.tallies.total.shape[-1]
        low, high = adjusted_interval(
            cell.tallies, -1.0 if cell.paired else 0.0, 1.0, np.full(strata, 1 / strata), 0.5 if cell.paired else 1.0
        )
        rates.append(float(((low <= cell.truth) & (cell.truth <= high)).mean()))
        names.append(cell.name)
        widths.append(float((high - low).mean()))
    return rates, names, widths


Maker = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def lumps(values: tuple[float, ...], chances: tuple[float, ...]) -> tuple[Maker, float]:
    """Scores of a few values."""
    return lambda draw, size: draw.choice(values, p=chances, size=size), float(np.dot(values, chances))


def zeros(share: float) -> tuple[Maker, float]:
    """F1 of which so many are 0, and the others Beta(4, 3)."""
    return lambda draw, size: (draw.random(size) >= share) * draw.beta(4, 3, size), (1 - share) * 4 / 7


OTHERS: dict[str, tuple[Maker, float]] = {
    "ROUGE-L: Beta(4, 12)": (lambda draw, size: draw.beta(4, 12, size), 0.25),
    "flat: Beta(1, 1)": (lambda draw, size: draw.random(size), 0.5),
    "near 0 and 1: Beta(.4, .6)": (lambda draw, size: draw.beta(0.4, 0.6, size), 0.4),
    "skewed: Beta(.5, 4.5)": (lambda draw, size: draw.beta(0.5, 4.5, size), 0.1),
    "F1, 40 % zeros": zeros(0.4),
    "F1, 80 % zeros": zeros(0.8),
    "F1, 90 % zeros": zeros(0.9),
    "facts, in quarters": lumps((0, 0.25, 0.5, 0.75, 1), (0.1, 0.2, 0.3, 0.25, 0.15)),
    "facts, 90 % all right": lumps((0, 0.5, 1), (0.03, 0.07, 0.9)),
    "facts, 80 % none right": lumps((0, 0.5, 1), (0.8, 0.15, 0.05)),
    "costs: exponential": (lambda draw, size: draw.exponential(1.0, size), 1.0),
    "costs: lognormal(1)": (lambda draw, size: draw.lognormal(0.0, 1.0, size), float(np.exp(0.5))),
}


def bootstrap_rates(draw: np.random.Generator, draws: int) -> list[tuple[str, int, int, float, float | None, float]]:
    """Scores, strata, questions in all, how often the bootstrap holds; how often where it is shown; how often it is."""
    made = []
    for name, (maker, truth) in OTHERS.items():
        for strata in (1, 5):
            for n in (10, 20, 30, FEWEST, 100, 200):
                each = n // strata
                samples = maker(draw, (draws, strata, each))
                places = draw.integers(0, each, (RESAMPLES, strata, each))
                inside, shown = np.zeros(draws, dtype=bool), np.zeros(draws, dtype=bool)
                for number, sample in enumerate(samples):
                    replicates = np.take_along_axis(sample[None], places, axis=2).mean(axis=(1, 2))
                    low, high = percentile_interval(replicates, 0.95, n, strata)
                    inside[number] = low <= truth <= high
                    shown[number] = bootstrap_holds([np.column_stack([row, np.ones(each)]) for row in sample])
                rate = float(inside[shown].mean()) if shown.any() else None
                made.append((name, strata, n, float(inside.mean()), rate, float(shown.mean())))
    return made


def main(draws: int) -> None:
    """Simulate, and write the page."""
    begun = time.process_time()
    grids = {
        "single": single,
        "paired": paired,
        "single, in clusters": in_clusters,
        "paired, in clusters": pairs_in_clusters,
    }
    lines = [
        "# Coverage of the intervals",
        "",
        f"`python perf/coverage.py` ({time.strftime('%d %B %Y', time.gmtime())}; {draws:,} draws a cell, 95 % nominal)."
        " Wanted: mean ≥ .945, worst cell ≥ .87, at most 10 % of cells under .93.",
        "",
        "## Right-or-wrong scores",
        "",
        "K = 1, 2, 5 equally weighted datasets, equal or spread; n = 3 … 1,000 questions each; p = .02 … .98; pairs "
        "that differ in .05 … .5 of the questions, .5 … .9 of these one way; 3 … 100 clusters of 2, 5, 10 or 1 … 10 "
        "questions with correlations of 0 … .5.",
        "",
        "| grid | cells | mean coverage | worst cell | under .93 | mean width |",
        "|---|---|---|---|---|---|",
    ]
    worst = []
    for name, grid in grids.items():
        rates, names, widths = held(grid(np.random.default_rng(1), draws))
        under = np.mean(np.array(rates) < 0.93)
        lines.append(
            f"| {name} | {len(rates):,} | {np.mean(rates):.3f} | {min(rates):.3f} | {100 * under:.1f} % | "
            f"{np.mean(widths):.3f} |"
        )
        worst += [f"| {name} | {names[i]} | {rates[i]:.3f} |" for i in np.argsort(rates)[:3]]
    lines += ["", "The three worst cells of each:", "", "| grid | cell | coverage |", "|---|---|---|", *worst]
    others = bootstrap_rates(np.random.default_rng(2), draws // 3)
    lines += [
        "",
        "## Other scores",
        "",
        f"The percentile bootstrap, {RESAMPLES} resamples of {draws // 3:,} samples. *Shown*: where there are {FEWEST} "
        "questions in all, 10 of each dataset, and 10 whose score is not the commonest one; elsewhere a table says "
        "*too few*. Three figures: coverage of all samples, of those whose interval is shown, and how many these are.",
        "",
        "| scores | K | n = 10 | 20 | 30 | 50 | 100 | 200 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in OTHERS:
        for strata in (1, 5):
            cells = [
                f"{every:.2f} / {'-' if rate is None else f'{rate:.2f}'} / {100 * shown:.0f} %"
                for one, k, _, every, rate, shown in others
                if (one, k) == (name, strata)
            ]
            lines.append(f"| {name} | {strata} | {' | '.join(cells)} |")
    kept = [rate for one, _, _, _, rate, shown in others if rate is not None and shown > 0.05 and "costs" not in one]
    costs = [rate for one, _, _, _, rate, shown in others if rate is not None and shown > 0.05 and "costs" in one]
    lines += [
        "",
        f"Where they are shown, intervals of bounded scores hold in {np.mean(kept):.3f} of the samples on average and "
        f"{min(kept):.2f} in the worst cell; those of costs, whose tails have no end, in {np.mean(costs):.3f} and "
        f"{min(costs):.2f}.",
        "",
        f"{time.process_time() - begun:.0f} s of processor time.",
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_500)
