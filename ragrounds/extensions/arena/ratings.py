"""Ratings from the finished matches of one axis: Bradley–Terry with intervals and ranks.

Bradley–Terry strengths are fitted by maximum likelihood, for one table of points or a thousand at once. The chance that
i beats j is σ(θi − θj); a tie counts as half a win for each (as in the LMSYS arena). The likelihood is concave, so
Newton's method finds its maximum in a few steps. All tables of a bootstrap are fitted together: that is what
:func:`fit` has over `evalica.bradley_terry`, which is its reference in the tests. Ford (1957): a maximum exists exactly
when every system can be reached from every other by a chain of "took a point from". If it does not exist (a system that
never loses, two groups that never met), every system gets one tie with an imaginary average system, which keeps all
strengths finite. :attr:`BradleyTerryFit.exists` is then False.

Online Elo, as MRAG-Bench rates, is another option (:mod:`ragrounds.extensions.arena.online_elo`).

If matches without a verdict could overturn a ranking, no ranking is shown: :func:`check_ranking` finds the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.evals.stats.bootstrap import effective_clusters, student_reach
from ragrounds.extensions.arena.matches import Floats, Matches, resampled

Flags = npt.NDArray[np.bool_]

START = 1000.0
"""Mean of all ratings."""
POINTS = 400.0 / np.log(10.0)
"""Points of one unit of θ, on Elo's scale."""
_STEPS = 60
_AT_ONCE = 2_000_000
"""Largest number of table cells that are fitted at once. It bounds the memory."""
_LONGEST = 2.0
"""Largest change of a strength in one step. Far from the maximum, a whole Newton step can overshoot."""
FEW_WINNERS = 10
"""Number of questions with a winner up to which the bootstrap alone is too sure of the ratings."""
_ROUNDS = 3
"""Number of times that the worst assignment of the missing matches is improved."""


@dataclass(frozen=True, eq=False)
class BradleyTerryFit:
    """Strengths at the maximum of the likelihood."""

    strengths: Floats
    """Strengths with mean 0, (…, K)."""
    exists: Flags
    """True if the maximum exists, (…). Otherwise imaginary ties were added."""

    @property
    def ratings(self) -> Floats:
        """The strengths on Elo's scale, with mean 1000."""
        ratings: Floats = START + POINTS * self.strengths
        return ratings


def fit(points: Floats, *, prior: bool = False) -> BradleyTerryFit:
    """Fit tables of points (…, K, K), where ``points[i, j]`` are those of i against j; a tie is half a point for each.

    Points may be weighted, so they need not be whole; none may be negative. `prior` adds the imaginary ties everywhere.
    """
    tables = points.reshape(-1, *points.shape[-2:])
    exists = np.asarray(reachable(tables).all(axis=(-1, -2)))
    strengths = np.empty(tables.shape[:-1])
    plain = exists & (not prior)
    for mask, ties in ((plain, 0.0), (~plain, 1.0)):
        selected = np.flatnonzero(mask)
        at_once = max(1, _AT_ONCE // tables.shape[-1] ** 2)
        for start in range(0, len(selected), at_once):
            part = selected[start : start + at_once]
            strengths[part] = _newton(tables[part], ties)
    return BradleyTerryFit(strengths.reshape(points.shape[:-1]), exists.reshape(points.shape[:-2]))


def information(games: Floats, strengths: Floats) -> Floats:
    """Fisher information of the strengths (…, K, K), from numbers of games (…, K, K): a weighted graph Laplacian."""
    chance = expected(strengths)
    weight = games * chance * (1.0 - chance)
    laplacian = -weight
    index = np.arange(games.shape[-1])
    laplacian[..., index, index] += weight.sum(axis=-1)
    return laplacian


def expected(strengths: Floats) -> Floats:
    """Return the chance that the row's system beats the column's, (…, K, K)."""
    gaps = strengths[..., :, None] - strengths[..., None, :]
    chance: Floats = 1.0 / (1.0 + np.exp(-gaps))
    return chance


def _newton(points: Floats, ties: float) -> Floats:
    games = points + np.swapaxes(points, -1, -2)
    size = points.shape[-1]
    index = np.arange(size)
    # Strengths are known up to a constant; this term fixes their mean at 0 and changes nothing else. With the
    # imaginary ties they are known without it.
    anchor = 0.0 if ties else 1.0 / size
    strengths = np.zeros(points.shape[:-1])
    close = 1e-9 * np.maximum(1.0, games.sum(axis=(-1, -2)))
    for _ in range(_STEPS):
        level = 1.0 / (1.0 + np.exp(-strengths))
        slope = (points - games * expected(strengths)).sum(axis=-1) + ties * (0.5 - level)
        if (np.abs(slope).max(axis=-1) <= close).all():
            break
        curve = information(games, strengths) + anchor
        curve[..., index, index] += ties * level * (1.0 - level)
        step = np.linalg.solve(curve, slope[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        strengths = strengths + step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-12))
    centred: Floats = strengths - strengths.mean(axis=-1, keepdims=True)
    return centred


def reachable(points: Floats) -> Flags:
    """Return True if a chain of "took a point from" leads from the row's system to the column's, (…, K, K)."""
    size = points.shape[-1]
    reach = (points > 0) | np.eye(size, dtype=bool)
    length = 1
    while length < size:
        steps = reach.astype(np.float32)
        reach = np.matmul(steps, steps) > 0
        length *= 2
    return reach


class RatedSystem(Struct, frozen=True, kw_only=True):
    """Rating and rank of one system.

    A bound is ``None`` if the data do not bound the rating on that side (the system never lost, or never won).
    """

    system: str
    rating: float
    """Bradley–Terry on Elo's scale, mean 1000 over the systems."""
    low: float | None
    high: float | None
    rank: int
    """1 + the number of systems that are separated from it above; systems that are not separated may share a rank."""
    worst: int
    """The last rank that is not excluded."""
    matches: int
    wins: int
    ties: int
    losses: int


class Ratings(Struct, frozen=True, kw_only=True):
    """The ratings of all systems, the best first."""

    rows: tuple[RatedSystem, ...]
    separated: tuple[tuple[bool, ...], ...]
    """True if the row's system is better than the column's, all pairs together at `confidence`.

    Indices follow `rows`.
    """
    margins: tuple[tuple[float, ...], ...]
    """Points by which the row's rating must exceed the column's to be called better. Indices follow `rows`."""
    confidence: float
    replicates: int
    clusters: int
    notes: tuple[str, ...]
    """Messages about degenerate data."""

    @property
    def order(self) -> tuple[str, ...]:
        """The systems' names, the best rating first."""
        return tuple(row.system for row in self.rows)


def rate(matches: Matches, *, confidence: float = 0.95, replicates: int = 1000, seed: int = 0) -> Ratings:
    """Compute Bradley–Terry ratings, percentile intervals by bootstrap over questions, and ranks from simultaneous
    comparisons.

    A pair is separated if the difference of its strengths exceeds a critical value. The value is the bootstrap's
    standard error of the difference, times the quantile of Student's t at (1 − `confidence`) / pairs (Bonferroni). The
    chance that any pair is called separated by luck is thus at most 1 − `confidence` over all pairs.

    The bootstrap's own largest deviation among the pairs is too small a limit: each pair's error is an estimate, and
    the smallest of many estimates is too small. That limit separated equal systems in up to 12 % of simulations, this
    one in 2 to 5 % (`perf/arena.md`).
    """
    points = matches.totals()
    fitted = fit(points)
    spread = fit(resampled(matches, replicates=replicates, seed=seed))
    floor = _least_covariance(matches, points, fitted, spread)
    low, high = _intervals(matches, points, fitted, spread, confidence, floor)
    better, margins = _separated(matches, points, fitted, spread, confidence, floor)
    order = sorted(range(len(matches.systems)), key=lambda i: (-fitted.strengths[i], matches.systems[i]))
    counts = matches.results().sum(axis=1)
    rows = tuple(
        RatedSystem(
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


def questions_with_winner(matches: Matches) -> int:
    """Return the number of questions (clusters) that have a match with a winner."""
    return len(np.unique(matches.cluster[matches.score != 0.5]))


def _least_covariance(
    matches: Matches, points: Floats, fitted: BradleyTerryFit, spread: BradleyTerryFit
) -> Floats | None:
    """Return the smallest covariance of the strengths (K, K) that intervals may use; ``None`` if the bootstrap is
    enough.

    If few questions have a winner, as with a judge that nearly always gives the same verdict, many resamples hold none
    of them, and the bootstrap is too sure. The variance is then that of matches of which a share has a winner, decided
    at random by the strengths. The share is adjusted by two questions with and two without (Agresti and Coull 1998).
    """
    decided, clusters = questions_with_winner(matches), matches.clusters
    if clusters < 2 or not fitted.exists or (decided > FEW_WINNERS and (spread.strengths.std(axis=0) > 1e-9).all()):
        return None
    share = min(1.0, (decided + 2) / (clusters + 4))
    inverse = np.linalg.pinv(information(points + points.T, fitted.strengths), hermitian=True)
    return np.asarray(share * inverse, dtype=np.float64)


def _intervals(
    matches: Matches,
    points: Floats,
    fitted: BradleyTerryFit,
    spread: BradleyTerryFit,
    confidence: float,
    floor: Floats | None,
) -> tuple[list[float | None], list[float | None]]:
    tail = (1.0 - confidence) / 2
    outside = NormalDist().cdf(-_limit(matches, confidence)) if matches.clusters > 1 else tail
    below, above = np.quantile(spread.ratings, [outside, 1.0 - outside], axis=0)
    if floor is not None:
        reached = NormalDist().inv_cdf(1.0 - tail) * POINTS * np.sqrt(np.diag(floor).clip(0.0))
        below = np.minimum(below, fitted.ratings - reached)
        above = np.maximum(above, fitted.ratings + reached)
    reach = reachable(points)
    low: list[float | None] = []
    high: list[float | None] = []
    for i in range(len(matches.systems)):
        bottom, top = bool(reach[i].all()), bool(reach[:, i].all())
        if bottom and top and matches.clusters > 1:
            low.append(float(below[i]))
            high.append(float(above[i]))
        else:
            # Resampling wins gives only wins: the bootstrap knows no spread here, the likelihood does.
            low.append(_bound(matches, points, fitted.strengths, i, tail) if bottom and not top else None)
            high.append(_bound(matches, points.T, -fitted.strengths, i, tail, -1) if top and not bottom else None)
    return low, high


def _bound(matches: Matches, points: Floats, strengths: Floats, i: int, tail: float, sign: int = 1) -> float | None:
    """Return the strength below which this many wins without a loss have a chance of less than `tail`.

    Every question counts as one match, since matches about one question may be dependent.
    """
    rivals = np.flatnonzero(~reachable(points)[:, i])
    own_matches = (matches.first == i) | (matches.second == i)
    questions = len(np.unique(matches.cluster[own_matches]))
    games = points[i, rivals] * min(1.0, questions / max(1, int(own_matches.sum())))
    if not games.sum():
        return None
    low, high = -50.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        chance = -(games * np.log1p(np.exp(strengths[rivals] - middle))).sum()
        low, high = (middle, high) if chance < np.log(tail) else (low, middle)
    return float(START + POINTS * sign * low)


def _separated(
    matches: Matches,
    points: Floats,
    fitted: BradleyTerryFit,
    spread: BradleyTerryFit,
    confidence: float,
    floor: Floats | None,
) -> tuple[Flags, Floats]:
    """Return the matrix of separated pairs (K, K), True if the row's system is better, and the necessary gaps in
    strength (K, K).
    """
    size = len(matches.systems)
    gaps = fitted.strengths[:, None] - fitted.strengths[None, :]
    draws = spread.strengths[:, :, None] - spread.strengths[:, None, :]
    error = draws.std(axis=0)
    if floor is not None:
        variances = np.diag(floor)
        error = np.maximum(error, np.sqrt((variances[:, None] + variances[None, :] - 2 * floor).clip(0.0)))
    rows, columns = np.triu_indices(size, 1)
    has_spread = error[rows, columns] > 1e-9
    better: Flags = np.zeros((size, size), dtype=bool)
    margins = np.zeros((size, size))
    if has_spread.any() and matches.clusters > 1:
        limit = _limit(matches, 1.0 - (1.0 - confidence) / max(1, int(has_spread.sum())))
        margins = limit * error
        better = gaps > np.maximum(margins, 1e-9)
    reach = reachable(points)
    luck_limit = (1.0 - confidence) / max(1, size * (size - 1))
    for i, j in zip(*np.nonzero(~(reach & reach.T)), strict=True):
        better[i, j] = not reach[j, i] and 0.5 ** _questions_won(matches, int(i), int(j)) < luck_limit
    return better, margins


def _limit(matches: Matches, confidence: float) -> float:
    """Return the number of standard errors of the bootstrap that a deviation stays within with this confidence."""
    worth = effective_clusters(np.bincount(matches.cluster).astype(np.float64))
    return student_reach(worth, max(worth - 1, 1.0), confidence)


def _questions_won(matches: Matches, i: int, j: int) -> int:
    """Count the questions on which i won its match against j, for a sign test by question."""
    won = ((matches.first == i) & (matches.second == j) & (matches.score == 1.0)) | (
        (matches.first == j) & (matches.second == i) & (matches.score == 0.0)
    )
    return len(np.unique(matches.cluster[won]))


def _notes(matches: Matches, points: Floats) -> list[str]:
    names, reach = matches.systems, reachable(points)
    games = points + points.T
    notes = []
    if len(names) < 2 or not len(matches):
        return ["There are no finished matches: every rating is the start value."]
    decided = questions_with_winner(matches)
    if 0 < decided <= FEW_WINNERS < matches.clusters:
        notes.append(
            f"Only {decided} of {matches.clusters:,} questions have a match with a winner: all else are ties. "
            "Intervals are made wider for it."
        )
    if matches.clusters == 1:
        notes.append("All matches are about one question: no interval can be given.")
    unmet = [names[i] for i in range(len(names)) if not games[i].any()]
    if unmet:
        notes.append(f"No finished match yet: {', '.join(unmet)}.")
    connected = reachable(games)
    if not unmet and not connected.all():
        groups = {tuple(np.flatnonzero(row)) for row in connected}
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


class RankingCheck(Struct, frozen=True):
    """Result of the check whether missing verdicts could overturn a ranking."""

    missing: int
    """Matches without a verdict."""
    overturned: tuple[tuple[str, str], ...] = ()
    """Pairs (upper, lower of the ranking) whose order the missing verdicts could overturn."""

    @property
    def stands(self) -> bool:
        """True if no pair's order could be overturned."""
        return not self.overturned


def check_ranking(matches: Matches, missing: Floats, ratings: Ratings) -> RankingCheck:
    """Assign the missing matches in the way that is worst for each pair, and check which orders they overturn.

    `missing` (K, K), symmetric, counts matches without a verdict. A pair called separated is overturned if the worst
    assignment takes its lead away; a pair called tied, if it would be separated the other way round. Winning is
    monotone in Bradley–Terry: a system's own missing matches hurt it most when lost, and a rival's when won; matches
    between others are filled by the sign of their influence.
    """
    names = matches.systems
    count = int(np.rint(missing.sum() / 2))
    if not count:
        return RankingCheck(0)
    index_by_name = {name: index for index, name in enumerate(names)}
    order = [index_by_name[name] for name in ratings.order]
    overturned = []
    for upper in range(len(order)):
        for lower in range(upper + 1, len(order)):
            i, j = order[upper], order[lower]
            gap = _worst_gap(matches.totals(), missing, i, j)
            margin = ratings.margins[upper][lower]
            if gap <= margin if ratings.separated[upper][lower] else gap < -margin or not margin:
                overturned.append((names[i], names[j]))
    return RankingCheck(count, tuple(overturned))


def _worst_gap(points: Floats, missing: Floats, i: int, j: int) -> float:
    """Return the points by which i leads j if the missing matches are decided in the worst way for i."""
    size = len(points)
    worst = _filled(points, missing, i, j, np.zeros((size, size)))
    strengths = fit(worst, prior=True).strengths
    for _ in range(_ROUNDS):
        curve = information(worst + worst.T, strengths) + 0.25 * np.eye(size)
        influence = np.linalg.solve(curve, np.eye(size)[i] - np.eye(size)[j])
        # How much i's lead over j grows where the row's system beats the column's.
        worst = _filled(points, missing, i, j, influence[:, None] - influence[None, :])
        strengths = fit(worst, prior=True).strengths
    return float(POINTS * (strengths[i] - strengths[j]))


def _filled(points: Floats, missing: Floats, i: int, j: int, influence: Floats) -> Floats:
    """Return the table with every missing match decided for the side that hurts i against j. Matches without influence
    are ties."""
    share = np.where(influence > 1e-12, 0.0, np.where(influence < -1e-12, 1.0, 0.5))
    share[i, :], share[:, i] = 0.0, 1.0
    share[j, :], share[:, j] = 1.0, 0.0
    share[i, j], share[j, i] = 0.0, 1.0
    filled: Floats = points + missing * share
    return filled
