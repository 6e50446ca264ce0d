"""Schedules: the choice of the pairs that meet next, and the test that neighbouring systems of a ranking are separated.

A schedule is asked for a batch of pairs, given what has been played; an empty batch ends the play. A schedule is a pure
function of its seed and of the results, so that the same command after a crash plays the same matches.

Choice of pairs (:func:`choose_pairs`). With strengths θ and covariance Σ from the matches so far, a pair is misordered
with a chance of about Φ(−|gap| / error). One more match of a pair changes the error of every gap, by how much is known
before it is played. The pair is chosen that most reduces the relative error variances of all gaps, each weighted by the
square of its chance of being misordered; then Σ is updated as if the match had been played, and the next pair of the
batch is chosen. (The square spares what is nearly certain; weights of power 1 and ½, and the slope of Φ, needed more
matches when simulated.)

Separation (:func:`separated_pairs`) stays valid however often one looks. For a pair, the null hypothesis is that the
first system does not win more often than it loses. Bet on its wins with a fraction λ of the stake: a win multiplies the
stake by 1 + λ, a loss by 1 − λ, a tie leaves it. Under the null the stake is a supermartingale, and so is its average
over λ; by Ville's inequality it ever reaches 1/a with a chance of at most a (Ville 1939; Waudby-Smith and Ramdas 2024,
"Estimating means of bounded random variables by betting"). Nothing is assumed about the model, the share of ties, or
when and why one looks: only that the questions come in a random order that is fixed beforehand. With λ = 2p − 1 and p
from a Beta distribution cut to (½, 1), the average has a closed form. All K(K−1) one-sided hypotheses share the error:
a pair is separated at the stake K(K−1)/(1 − confidence), so that the chance that any pair is ever called separated the
wrong way is at most 1 − confidence.
"""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.base.errors import UserError, unknown
from ragrounds.extensions.arena.matches import Floats, Ints
from ragrounds.extensions.arena.ratings import fit, information

SCHEDULES = ("published", "full", "adaptive")
LEAST = 80
"""Matches a pair must have on every axis before the published schedule ends (MRAG-Bench, LFQA arena)."""
_SHAPE = 5.0
"""Shape of the Beta distribution of bets.

It puts most weight on chances of .5 to .7, where a separation takes long. Lopsided pairs are found soon at any weight.
"""
_MOST = 400
"""Largest number of pairs that are compared with each other: all pairs up to 28 systems, the most doubtful ones beyond.
"""
_PRIOR = 0.25
"""Information of the imaginary tie that each system is given, so that there is a choice before the first match."""

Flags = npt.NDArray[np.bool_]


def all_pairs(size: int) -> tuple[Ints, Ints]:
    """Return both members of the K(K−1)/2 pairs of `size` systems. A pair's index in this fixed order is its number."""
    first, second = np.triu_indices(size, 1)
    return first.astype(np.int64), second.astype(np.int64)


def question_orders(size: int, questions: int, seed: int) -> Ints:
    """Return the order in which each pair plays the questions, (P, Q).

    The order is fixed at random for each pair before anything is played. The results of a pair are then a fixed
    sequence, and a schedule only decides how much of it is seen. This keeps the stopping rule valid however pairs are
    chosen.
    """
    count = size * (size - 1) // 2
    return np.array([_draw(seed, pair).permutation(questions) for pair in range(count)], dtype=np.int64).reshape(
        count, questions
    )


def _draw(seed: int, pair: int) -> np.random.Generator:
    digest = hashlib.sha256(f"arena order {seed} {pair}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


class MatchCounts(Struct, frozen=True):
    """Matches played so far, for each axis."""

    wins: Floats
    """Matches that the row's system won, (A, K, K)."""
    ties: Floats
    """Matches that ended in a tie, (A, K, K); symmetric."""
    played: Ints
    """Matches that each pair has begun, (P,), with or without a verdict."""

    @property
    def points(self) -> Floats:
        """Points of the row's system against the column's, (A, K, K); a tie is half a point."""
        points: Floats = self.wins + 0.5 * self.ties
        return points

    @property
    def finished(self) -> Ints:
        """Matches of each pair with a verdict, (P,), on the axis that has fewest."""
        games = self.points + np.swapaxes(self.points, -1, -2)
        first, second = all_pairs(games.shape[-1])
        counts: Ints = np.rint(games[:, first, second].min(axis=0)).astype(np.int64)
        return counts


class Schedule(Protocol):
    """A rule that chooses which pairs play, and when the play ends."""

    def batch(self, counts: MatchCounts) -> list[int]:
        """Return the numbers of the pairs that play next, in order. A pair may occur several times; an empty list ends
        the play."""

    def reason(self, counts: MatchCounts) -> str:
        """Return the reason why the play ended, for the report."""


class FullSchedule:
    """The schedule in which every pair plays every question."""

    def __init__(self, size: int, questions: int, seed: int) -> None:
        self._pairs = np.repeat(np.arange(size * (size - 1) // 2), questions)
        np.random.default_rng([seed, 1]).shuffle(self._pairs)

    def batch(self, counts: MatchCounts) -> list[int]:
        """Return all pairs on all questions at once, in an order shuffled by the seed; nothing afterwards."""
        return [] if counts.played.any() else self._pairs.tolist()

    def reason(self, counts: MatchCounts) -> str:
        """Return the only reason: every question was played."""
        return "every pair has played every question"


class PublishedSchedule:
    """Random pairs until every pair has `least` matches with a verdict on every axis, as MRAG-Bench does it."""

    def __init__(self, size: int, questions: int, seed: int, least: int = LEAST) -> None:
        self._questions = questions
        self._least = least
        self._pairs = size * (size - 1) // 2
        self._draw = np.random.default_rng([seed, 2])

    def batch(self, counts: MatchCounts) -> list[int]:
        """Sample random pairs until every pair has enough matches, if each of them gives a verdict."""
        played, finished = counts.played.copy(), counts.finished
        batch: list[int] = []
        while True:
            short = (finished < self._least) & (played < self._questions)
            if not short.any():
                return batch
            open_pairs = np.flatnonzero(played < self._questions)
            pair = int(open_pairs[self._draw.integers(len(open_pairs))])
            batch.append(pair)
            played[pair] += 1
            finished[pair] += 1

    def reason(self, counts: MatchCounts) -> str:
        """Return that every pair has enough matches, or how many pairs ran out of questions."""
        short = int((counts.finished < self._least).sum())
        if not short:
            return f"every pair has {self._least} matches on every axis"
        return f"{short} of {self._pairs} pairs ran out of questions before {self._least} matches with a verdict"


class AdaptiveSchedule:
    """The schedule that plays the pairs whose order is most uncertain, until neighbouring pairs are separated on every
    axis."""

    def __init__(self, size: int, questions: int, confidence: float = 0.95) -> None:
        self._questions = questions
        self._confidence = confidence
        # The batch size does not depend on the concurrency: another concurrency must not choose other matches.
        self._at_once = min(256, max(8, size * (size - 1) // 2))

    def batch(self, counts: MatchCounts) -> list[int]:
        """Choose the pairs that best resolve the axes whose ranking is not separated yet."""
        unresolved = ~self._resolved_axes(counts)
        open_pairs = counts.played < self._questions
        if not unresolved.any() or not open_pairs.any():
            return []
        remaining_matches = int((self._questions - counts.played).sum())
        selected: list[int] = []
        for _ in range(min(self._at_once, remaining_matches)):
            # One at a time if a pair may run out of questions within the batch.
            remaining = self._questions - counts.played - np.bincount(selected, minlength=len(counts.played))
            if (remaining[open_pairs] >= self._at_once).all() and not selected:
                batch = choose_pairs(counts.points[unresolved][None], open_pairs[None], self._at_once)[0]
                return [int(pair) for pair in batch]
            next_pair = choose_pairs(_as_ties(counts.points[unresolved], selected)[None], (remaining > 0)[None], 1)[0]
            selected.append(int(next_pair[0]))
        return selected

    def reason(self, counts: MatchCounts) -> str:
        """Return that every axis is resolved, or that the questions ran out."""
        if self._resolved_axes(counts).all():
            return f"every neighbouring pair is separated on every axis at {self._confidence:.0%}, valid at every look"
        return "no questions are left; some neighbouring pairs are not separated"

    def _resolved_axes(self, counts: MatchCounts) -> Flags:
        strengths = fit(counts.points, prior=True).strengths
        return settled_axes(counts.wins, strengths, self._confidence)


def _as_ties(points: Floats, pairs: list[int]) -> Floats:
    """Return the points as if the matches of `pairs` had ended in ties."""
    first, second = all_pairs(points.shape[-1])
    extended = points.copy()
    for pair in pairs:
        extended[:, first[pair], second[pair]] += 0.5
        extended[:, second[pair], first[pair]] += 0.5
    return extended


def open_schedule(
    name: str, size: int, questions: int, *, seed: int = 0, least: int = LEAST, confidence: float = 0.95
) -> Schedule:
    """Open the schedule `name` for so many systems and questions.

    Raises:
        UserError: no such schedule, fewer than two systems, no questions.
    """
    if size < 2:
        raise UserError(f"An arena needs two systems or more; {size} was given.")
    if questions < 1:
        raise UserError("The systems share no question: nothing can be compared.")
    if name == "published":
        return PublishedSchedule(size, questions, seed, least)
    if name == "full":
        return FullSchedule(size, questions, seed)
    if name == "adaptive":
        return AdaptiveSchedule(size, questions, confidence)
    raise unknown("schedule", name, SCHEDULES, "ragrounds arena --help")


def choose_pairs(points: Floats, open_pairs: Flags, count: int) -> Ints:
    """Choose the numbers of the pairs to play next, (S, `count`), for S arenas at once, each with A axes.

    Args:
        points: points taken, (S, A, K, K), a tie as half a point for each.
        open_pairs: True for pairs that may still play, (S, P).
        count: pairs to choose. A pair may be chosen several times; −1 means that no pair is open.
    """
    size = points.shape[-1]
    first, second = all_pairs(size)
    fitted = fit(points, prior=True).strengths
    games = points + np.swapaxes(points, -1, -2)
    covariance = np.asarray(np.linalg.inv(information(games, fitted) + _PRIOR * np.eye(size)), dtype=np.float64)
    pairs = _doubtful(fitted, covariance, open_pairs)  # (S, M)
    contrasts = np.eye(size)[first[pairs]] - np.eye(size)[second[pairs]]  # (S, M, K)
    rows = contrasts[:, None]
    gaps_covariance = rows @ covariance @ np.swapaxes(rows, -1, -2)  # (S, A, M, M)
    gaps = np.abs((rows @ fitted[..., None])[..., 0])
    open_pairs = np.take_along_axis(open_pairs, pairs, axis=1)
    chance = 1.0 / (1.0 + np.exp(gaps))
    weight = chance * (1.0 - chance)
    index = np.arange(len(points))
    selection = np.empty((len(points), count), dtype=np.int64)
    for number in range(count):
        variance = np.diagonal(gaps_covariance, axis1=-2, axis2=-1)
        doubt = misordered(gaps, variance) ** 2 / variance
        shrunk = np.einsum("sap,sapq->saq", doubt, gaps_covariance**2)
        gain = (shrunk * weight / (1.0 + weight * variance)).sum(axis=1)
        gain = np.where(open_pairs, gain, -np.inf)
        pick = gain.argmax(axis=-1)
        selection[:, number] = np.where(np.isfinite(gain[index, pick]), pairs[index, pick], -1)
        column = gaps_covariance[index, :, :, pick]
        factor = weight[index, :, pick] / (1.0 + weight[index, :, pick] * variance[index, :, pick])
        gaps_covariance = gaps_covariance - factor[..., None, None] * column[..., :, None] * column[..., None, :]
    return selection


def _doubtful(fitted: Floats, covariance: Floats, open_pairs: Flags) -> Ints:
    """Return the open pairs whose order is least sure on some axis, (S, M); all pairs, if they are not too many."""
    size = fitted.shape[-1]
    first, second = all_pairs(size)
    if len(first) <= _MOST:
        return np.broadcast_to(np.arange(len(first)), (len(fitted), len(first)))
    variances = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = variances[..., first] + variances[..., second] - 2.0 * covariance[..., first, second]
    doubt = misordered(np.abs(fitted[..., first] - fitted[..., second]), variance).max(axis=1)
    order: Ints = np.argsort(np.where(open_pairs, -doubt, 1.0), axis=-1, kind="stable")[:, :_MOST]
    return order


def _special() -> Any:
    """SciPy's functions, which are slow to import."""
    from scipy import special

    return special


def misordered(gaps: Floats, variance: Floats) -> Floats:
    """Return the chance that a gap has the wrong sign, by the normal approximation."""
    chance: Floats = _special().ndtr(-gaps / np.sqrt(np.maximum(variance, 1e-12)))
    return chance


def log_stake(wins: Floats, losses: Floats) -> Floats:
    """Return the logarithm of the stake after so many wins and losses of the system that was bet on."""
    a, special = _SHAPE, _special()
    upper = special.betaincc(a + wins, a + losses, 0.5)
    with np.errstate(divide="ignore"):
        stake: Floats = (
            (wins + losses) * np.log(2.0)
            + special.betaln(a + wins, a + losses)
            - special.betaln(a, a)
            + np.log(2.0 * upper)
        )
    return stake


def separated_pairs(won: Floats, confidence: float) -> Flags:
    """Return True if the row's system is better than the column's, (…, K, K), from wins (…, K, K).

    Ties do not count.
    """
    size = won.shape[-1]
    limit = np.log(size * (size - 1) / (1.0 - confidence)) if size > 1 else np.inf
    return np.asarray(log_stake(won, np.swapaxes(won, -1, -2)) >= limit)


def settled_axes(won: Floats, strengths: Floats, confidence: float) -> Flags:
    """Return True if every neighbouring pair of the ranking by `strengths` (…, K) is separated in its direction,
    (…)."""
    order = np.argsort(-strengths, axis=-1, kind="stable")
    better = separated_pairs(won, confidence)
    upper, lower = order[..., :-1], order[..., 1:]
    rows = np.take_along_axis(better, upper[..., :, None], axis=-2)
    return np.asarray(np.take_along_axis(rows, lower[..., :, None], axis=-1)[..., 0].all(axis=-1))
