"""How often intervals hold the truth: simulated, for right-or-wrong scores and for others.

    python perf/coverage.py [draws]

It writes perf/coverage.md. 4,000 draws a cell take some six minutes of one core. What is simulated is what tables,
claims and reports call: `adjusted_interval` with its tallies, `studentised_interval` and `bootstrap_holds`,
`combined_ratio`, `minimum_detectable_effect`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from ragrounds.evals.stats import combined_ratio, minimum_detectable_effect
from ragrounds.evals.stats.bootstrap import FEWEST, bootstrap_holds, percentile_interval, studentised_interval
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
RESAMPLES = 600


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
    within = (squares - sums**2 / sizes).sum(axis=-1)
    pairs = np.full_like(n, float((sizes * (sizes - 1)).sum()))
    return Tallies(n, total, squares.sum(axis=-1), within, pairs, np.full_like(n, float(len(sizes))))


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


def zipf(count: int) -> NDArray[np.int64]:
    """Sizes of clusters by Zipf's law: the largest has as many questions as there are clusters."""
    return np.maximum(1, np.round(count / np.arange(1, count + 1))).astype(np.int64)


def log_normal(count: int, by: float) -> NDArray[np.int64]:
    """Sizes around 4, at equal steps of a log-normal distribution."""
    steps = [NormalDist().inv_cdf((place + 0.5) / count) for place in range(count)]
    return np.maximum(1, np.round(4 * np.exp(by * np.array(steps)))).astype(np.int64)


UNEVEN = {
    "Zipf, 20": zipf(20),
    "Zipf, 60": zipf(60),
    "Zipf, 200": zipf(200),
    "log-normal(1), 30": log_normal(30, 1.0),
    "log-normal(1), 80": log_normal(80, 1.0),
    "log-normal(1.5), 80": log_normal(80, 1.5),
    "half in one, 60 alone": np.array([60] + [1] * 60),
    "a third in one, 20 of 5": np.array([50] + [5] * 20),
    "half in one, 100 of 1-3": np.array([200, *(place % 3 + 1 for place in range(100))]),
}
ALIKE = (0.0, 0.2, 0.5, 0.9, 1.0)
"""Correlations within clusters of uneven sizes; 1: all questions of a cluster have one outcome."""


def uneven(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Right or wrong, in clusters of very different sizes."""
    for name, sizes in UNEVEN.items():
        for rho in ALIKE:
            for p in (0.1, 0.3, 0.5, 0.8, 0.95):
                shape = (draws, 1, len(sizes))
                sums = draw.binomial(sizes, _shares(draw, p, rho, shape)).astype(float)
                yield Cell(f"{name}, correlation {rho}, p {p}", p, clustered(sums, sums, sizes.astype(float)))


def uneven_pairs(draw: np.random.Generator, draws: int) -> Iterator[Cell]:
    """Two agents on the same questions, in clusters of very different sizes."""
    for name, sizes in UNEVEN.items():
        for rho in ALIKE:
            for differ in (0.1, 0.4):
                for way in (0.5, 0.8):
                    shape = (draws, 1, len(sizes))
                    both = draw.binomial(sizes, _shares(draw, differ, rho, shape))
                    up = draw.binomial(both, _shares(draw, way, rho, shape))
                    tallies = clustered((2.0 * up - both), both.astype(float), sizes.astype(float))
                    cell = f"{name}, correlation {rho}, differ {differ}, {way} one way"
                    yield Cell(cell, differ * (2 * way - 1), tallies, paired=True)


def _shares(draw: np.random.Generator, p: float, rho: float, shape: tuple[int, ...]) -> Floats:
    """Each cluster's own share."""
    if rho in (0.0, 1.0):
        return (draw.random(shape) < p).astype(float) if rho else np.full(shape, p)
    return draw.beta(p * (1 / rho - 1), (1 - p) * (1 / rho - 1), shape)


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
    "costs: lognormal(1.5)": (lambda draw, size: draw.lognormal(0.0, 1.5, size), float(np.exp(1.125))),
    "costs: Pareto(2.2)": (lambda draw, size: draw.pareto(2.2, size) + 1, 2.2 / 1.2),
    "costs: one in 20 is 20 times as dear": (
        lambda draw, size: draw.lognormal(0.0, 0.4, size) * np.where(draw.random(size) < 0.05, 20, 1),
        float(np.exp(0.08)) * 1.95,
    ),
}


class Rate(NamedTuple):
    """How often an interval of scores that are not right or wrong holds."""

    name: str
    strata: int
    n: int
    before: float
    """The percentiles alone."""
    every: float
    shown: float | None
    """Where it is shown; ``None``: nowhere."""
    share: float
    """How often it is."""


def bootstrap_rates(draw: np.random.Generator, draws: int) -> list[Rate]:
    """Means of scores and costs."""
    made = []
    for name, (maker, truth) in OTHERS.items():
        for strata in (1, 5):
            for n in (10, 20, 30, FEWEST, 100, 200, 500):
                each = n // strata
                samples = maker(draw, (draws, strata, each))
                often = draw.multinomial(each, np.full(each, 1 / each), (RESAMPLES, strata)).astype(float)
                means, spread, error = np.zeros((RESAMPLES, draws)), np.zeros((RESAMPLES, draws)), np.zeros(draws)
                for place in range(strata):
                    sample, weights = samples[:, place], often[:, place]
                    found = weights @ sample.T / each
                    means += found / strata
                    spread += (weights @ (sample**2).T / each - found**2).clip(0) / each / strata**2
                    error += sample.var(axis=1) / each / strata**2
                plain, inside, shown = np.zeros(draws, bool), np.zeros(draws, bool), np.zeros(draws, bool)
                for number, sample in enumerate(samples):
                    replicates, own = means[:, number], np.sqrt(spread[:, number])
                    low, high = percentile_interval(replicates, 0.95, n, strata)
                    plain[number] = low <= truth <= high
                    value = float(sample.mean())
                    with np.errstate(all="ignore"):  # scores that are all alike: not shown
                        low, high = studentised_interval(value, error[number] ** 0.5, replicates, own, 0.95, n, strata)
                    inside[number] = low <= truth <= high
                    shown[number] = bootstrap_holds([np.column_stack([row, np.ones(each)]) for row in sample])
                rate = float(inside[shown].mean()) if shown.any() else None
                made.append(Rate(name, strata, n, plain.mean(), inside.mean(), rate, shown.mean()))
    return made


def micro_f1_rates(draw: np.random.Generator, draws: int) -> list[str]:
    """Rows: a micro-F1 of texts of which few have the class."""
    rows = []
    for has in (0.1, 0.2, 0.4):
        for found in (0.3, 0.6, 0.9):
            for wrongly in (0.02, 0.1):
                truth = 2 * has * found / (2 * has * found + (1 - has) * wrongly + has * (1 - found))
                cells = []
                for n in (50, 100):
                    shown = inside = 0
                    for seed in range(draws):
                        own = draw.random(n) < has
                        said = draw.random(n) < np.where(own, found, wrongly)
                        above, below = 2.0 * (own & said), 1.0 * own + said
                        made = combined_ratio([above], [below], [1.0], [""] * n, resamples=RESAMPLES, seed=seed)
                        if made is not None and made.low is not None and made.high is not None:
                            shown += 1
                            inside += made.low <= truth <= made.high
                    cells.append(f"{inside / shown:.3f} / {100 * shown / draws:.0f} %" if shown > draws / 20 else "-")
                rows.append(f"| {has} | {found} | {wrongly} | {' | '.join(cells)} |")
    return rows


def power(n: int, differing: float, effect: float) -> float:
    """Chance that McNemar's exact test at 5 % finds this difference."""
    counts = np.arange(1, n + 1)
    most = binom.ppf(0.025, counts, 0.5)
    most -= 2 * binom.cdf(most, counts, 0.5) > 0.05
    return float(binom.pmf(counts, n, differing) @ binom.cdf(most, counts, (1 - effect / differing) / 2))


def approximate(n: int, differing: float) -> float:
    """The smallest difference by Connor (1987), as it was printed until now."""
    low, high = 0.0, differing
    for _ in range(60):
        middle = (low + high) / 2
        short = 1.96 * differing**0.5 + 0.8416 * (differing - middle**2) ** 0.5 > middle * n**0.5
        low, high = (middle, high) if short else (low, middle)
    return high


def detectable() -> list[str]:
    """Rows: the smallest detectable difference and what the test finds of it."""
    rows = []
    for n, differing in ((20, 0.4), (30, 0.3), (50, 0.2), (100, 0.4), (300, 0.4), (1_000, 0.4), (4_000, 0.2)):
        before, now = approximate(n, differing), minimum_detectable_effect(n, differing)
        assert now is not None
        rows.append(
            f"| {n:,} | {differing} | {100 * before:.1f} | {100 * power(n, differing, before):.1f} % | "
            f"{100 * now:.1f} | {100 * power(n, differing, now):.1f} % |"
        )
    return rows


def main(draws: int) -> None:
    """Simulate, and write the page."""
    begun = time.process_time()
    grids = {
        "single": single,
        "paired": paired,
        "single, in clusters": in_clusters,
        "paired, in clusters": pairs_in_clusters,
        "single, in uneven clusters": uneven,
        "paired, in uneven clusters": uneven_pairs,
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
    others = bootstrap_rates(np.random.default_rng(2), draws // 8)
    lines += [
        "",
        "Uneven clusters: sizes by Zipf's law (20, 60, 200 clusters), log-normal (30 or 80), and one of a third or "
        f"half of all questions; correlations {', '.join(map(str, ALIKE))}. Until November 2026 Student's t had the "
        "degrees of freedom of all clusters, and large clusters without a right answer pulled the correlation down: "
        "on this grid (1,000 draws) the mean was .909, the worst cell .734, and 60 % of the cells were under .93.",
        "",
        "## Other scores",
        "",
        f"The bootstrap, {RESAMPLES} resamples of {draws // 8:,} samples: each end the further of the percentile's "
        f"and the bootstrap-t's. *Shown*: where there are {FEWEST} questions in all, 10 of each dataset, and 10 whose "
        "score is not the commonest one; elsewhere a table says *too few*. Three figures: coverage of the percentiles "
        "alone, as it was until November 2026; of the interval now, where it is shown (in brackets: where it is not); "
        "how many are shown.",
        "",
        "| scores | K | n = 10 | 20 | 30 | 50 | 100 | 200 | 500 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in OTHERS:
        for strata in (1, 5):
            cells = [
                f"{one.before:.2f} / {f'({one.every:.2f})' if one.shown is None else f'{one.shown:.2f}'} / "
                f"{100 * one.share:.0f} %"
                for one in others
                if (one.name, one.strata) == (name, strata)
            ]
            lines.append(f"| {name} | {strata} | {' | '.join(cells)} |")
    wide = [one for one in others if one.shown is not None and one.share > 0.05]
    kept = [one.shown or 0.0 for one in wide if "costs" not in one.name]
    costs = [one.shown or 0.0 for one in wide if "costs" in one.name]
    lines += [
        "",
        f"Where they are shown, intervals of bounded scores hold in {np.mean(kept):.3f} of the samples on average and "
        f"{min(kept):.2f} in the worst cell; those of costs, whose tails have no end, in {np.mean(costs):.3f} and "
        f"{min(costs):.2f}.",
        "",
        "## A micro-F1 with a rare class",
        "",
        "Shares of texts that have the class, of those that are found, of the others that are named wrongly. Coverage "
        f"where it is shown / how often, {draws // 20:,} samples.",
        "",
        "| have it | found | wrongly | n = 50 | 100 |",
        "|---|---|---|---|---|",
        *micro_f1_rates(np.random.default_rng(3), draws // 20),
        "",
        "## The smallest detectable difference",
        "",
        "What McNemar's exact test finds of it; 80 % are promised. Before: the usual approximation.",
        "",
        "| questions | differing | before | found | now | found |",
        "|---|---|---|---|---|---|",
        *detectable(),
        "",
        f"{time.process_time() - begun:.0f} s of processor time.",
    ]
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_500)
