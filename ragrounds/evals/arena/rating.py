"""Ratings with intervals and ranks with ties, from finished matches of one axis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.evals.arena.bootstrap import resampled
from ragrounds.evals.arena.bradley_terry import POINTS, Fit, fit, reachable
from ragrounds.evals.arena.elo import START
from ragrounds.evals.arena.matches import Floats, Matches

Flags = npt.NDArray[np.bool_]


class Rated(Struct, frozen=True, kw_only=True):
    """One system's place. A bound of ``None``: the data set none on that side (it never lost, or never won)."""

    system: str
    rating: float
    """Bradley–Terry on Elo's scale, mean 1000 over the systems."""
    low: float | None
    high: float | None
    rank: int
    """1 + systems that are better beyond doubt: systems that cannot be told apart may share it."""
    worst: int
    """The last rank that is not excluded."""
    matches: int
    wins: int
    ties: int
    losses: int


class Ratings(Struct, frozen=True, kw_only=True):
    """All systems, best rating first."""

    rows: tuple[Rated, ...]
    separated: tuple[tuple[bool, ...], ...]
    """In the order of `rows`: the row's system is better than the column's, all pairs together at `confidence`."""
    margins: tuple[tuple[float, ...], ...]
    """In the same order: by how many points the row's rating must exceed the column's to be called better."""
    confidence: float
    replicates: int
    clusters: int
    notes: tuple[str, ...]
    """What is degenerate in the data, in words."""

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(row.system for row in self.rows)


def rate(matches: Matches, *, confidence: float = 0.95, replicates: int = 1000, seed: int = 0) -> Ratings:
    """Bradley–Terry ratings; percentile intervals by bootstrap over questions; ranks from simultaneous comparisons.

    A pair is separated where the difference of its strengths exceeds c standard errors, c being the `confidence`
    quantile, over the bootstrap, of the largest studentised deviation among all pairs (Tukey's idea, with the
    bootstrap's distribution): the chance that any pair is called separated by luck is 1 − `confidence` over all pairs.
    """
    points = matches.totals()
    fitted = fit(points)
    spread = fit(resampled(matches, replicates=replicates, seed=seed))
    low, high = _intervals(matches, points, fitted, spread, confidence)
    better, margins = _separated(matches, points, fitted, spread, confidence)
    order = sorted(range(len(matches.systems)), key=lambda i: (-fitted.strengths[i], matches.systems[i]))
    counts = _counts(matches)
    rows = tuple(
        Rated(
            system=matches.systems[i],
            rating=float(fitted.ratings[i]),
            low=low[i],
            high=high[i],
            rank=1 + int(better[:, i].sum()),
            worst=len(order) - int(better[i].sum()),
            matches=int(counts[i].sum()),
            wins=int(counts[i, 0]),
            ties=int(counts[i, 1]),
            losses=int(counts[i, 2]),
        )
        for i in order
    )
    return Ratings(
        rows=rows,
        separated=tuple(tuple(bool(better[i, j]) for j in order) for i in order),
        margins=tuple(tuple(float(POINTS * margins[i, j]) for j in order) for i in order),
        confidence=confidence,
        replicates=replicates,
        clusters=matches.clusters,
        notes=tuple(_notes(matches, points)),
    )


def _intervals(
    matches: Matches, points: Floats, fitted: Fit, spread: Fit, confidence: float
) -> tuple[list[float | None], list[float | None]]:
    tail = (1.0 - confidence) / 2
    below, above = np.quantile(spread.ratings, [tail, 1.0 - tail], axis=0)
    reach = reachable(points)
    low: list[float | None] = []
    high: list[float | None] = []
    for i in range(len(matches.systems)):
        floor, ceiling = bool(reach[i].all()), bool(reach[:, i].all())
        if floor and ceiling and matches.clusters > 1:
            low.append(float(below[i]))
            high.append(float(above[i]))
        else:
            # Resampling wins gives only wins: the bootstrap knows no spread here, the likelihood does.
            low.append(_bound(matches, points, fitted.strengths, i, tail) if floor and not ceiling else None)
            high.append(_bound(matches, points.T, -fitted.strengths, i, tail, -1) if ceiling and not floor else None)
    return low, high


def _bound(matches: Matches, points: Floats, strengths: Floats, i: int, tail: float, sign: int = 1) -> float | None:
    """The strength under which this many wins without a loss would have had a chance of less than `tail`; every
    question counts as one match, since matches about one question may go together."""
    rivals = np.flatnonzero(~reachable(points)[:, i])
    mine = (matches.first == i) | (matches.second == i)
    questions = len(np.unique(matches.cluster[mine]))
    games = points[i, rivals] * min(1.0, questions / max(1, int(mine.sum())))
    if not games.sum():
        return None
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        chance = -(games * np.log1p(np.exp(strengths[rivals] - middle))).sum()
        low, high = (middle, high) if chance < np.log(tail) else (low, middle)
    return float(START + POINTS * sign * low)


def _separated(matches: Matches, points: Floats, fitted: Fit, spread: Fit, confidence: float) -> tuple[Flags, Floats]:
    """(K, K) who is better than whom, and the gap in strength it takes."""
    size = len(matches.systems)
    gaps = fitted.strengths[:, None] - fitted.strengths[None, :]
    draws = spread.strengths[:, :, None] - spread.strengths[:, None, :]
    error = draws.std(axis=0)
    rows, columns = np.triu_indices(size, 1)
    known = error[rows, columns] > 1e-9
    better: Flags = np.zeros((size, size), dtype=bool)
    margins = np.zeros((size, size))
    if known.any() and matches.clusters > 1:
        rows_known, columns_known = rows[known], columns[known]
        scaled = np.abs(draws - gaps)[:, rows_known, columns_known] / error[rows_known, columns_known]
        limit = np.quantile(scaled.max(axis=1), confidence)
        margins = limit * error
        better = gaps > np.maximum(margins, 1e-9)
    reach = reachable(points)
    sure = (1.0 - confidence) / max(1, size * (size - 1))
    for i, j in zip(*np.nonzero(~(reach & reach.T)), strict=True):
        better[i, j] = not reach[j, i] and 0.5 ** _questions_won(matches, int(i), int(j)) < sure
    return better, margins


def _questions_won(matches: Matches, i: int, j: int) -> int:
    """Questions on which i won its match against j: what a sign test by question counts."""
    won = ((matches.first == i) & (matches.second == j) & (matches.score == 1.0)) | (
        (matches.first == j) & (matches.second == i) & (matches.score == 0.0)
    )
    return len(np.unique(matches.cluster[won]))


def _counts(matches: Matches) -> npt.NDArray[np.int64]:
    """(K, 3): wins, ties, losses."""
    counts = np.zeros((len(matches.systems), 3), dtype=np.int64)
    outcome = np.rint(2.0 - 2.0 * matches.score).astype(np.int64)
    np.add.at(counts, (matches.first, outcome), 1)
    np.add.at(counts, (matches.second, 2 - outcome), 1)
    return counts


def _notes(matches: Matches, points: Floats) -> list[str]:
    names, reach = matches.systems, reachable(points)
    games = points + points.T
    notes = []
    if len(names) < 2 or not len(matches):
        return ["There are no finished matches: every rating is the start value."]
    if matches.clusters == 1:
        notes.append("All matches are about one question: no interval can be given.")
    unmet = [names[i] for i in range(len(names)) if not games[i].any()]
    if unmet:
        notes.append(f"No finished match yet: {', '.join(unmet)}.")
    met = reachable(games)
    if not unmet and not met.all():
        groups = {tuple(np.flatnonzero(row)) for row in met}
        parts = "; ".join(", ".join(names[i] for i in group) for group in sorted(groups))
        notes.append(f"Groups that never met cannot be compared: {parts}.")
    for i in range(len(names)):
        if games[i].any() and points[i].sum() == games[i].sum():
            notes.append(f"{names[i]} never lost a point: its rating has no upper bound.")
        elif games[i].any() and not points[i].any():
            notes.append(f"{names[i]} never took a point: its rating has no lower bound.")
    if not reach.all():
        notes.append("The likelihood has no maximum; one imaginary tie a system keeps the ratings finite.")
    return notes
