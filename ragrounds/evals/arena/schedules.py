"""When a pair is separated, in a way that stays valid however often one looks.

For a pair, the null hypothesis is that the first system does not win more often than it loses. Bet on its wins with a
fraction λ of the stake: a win multiplies the stake by 1 + λ, a loss by 1 − λ, a tie leaves it. Under the null the stake
is a supermartingale, and so is its average over λ; by Ville's inequality it ever reaches 1/a with a chance of at most a
(Ville 1939; Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting"). Nothing is
assumed about the model, the share of ties, or when and why one looks: only that the questions come in an order drawn
beforehand.

With λ = 2p − 1 and p drawn from a Beta distribution cut to (½, 1), the average has a closed form. All K(K−1) one-sided
hypotheses share the error: a pair is separated at the stake K(K−1)/(1 − confidence), so that the chance that any pair
is ever called separated the wrong way is at most 1 − confidence.

Choosing the next pairs where they shrink the ranking's uncertainty most.

With strengths θ and covariance Σ from the matches so far, a pair is misordered with a chance of about
Φ(−|gap| / error). One more match of a pair changes the error of every gap, by how much is known before it is played.
The pair is chosen that most reduces the relative error variances of all gaps, each weighted by the square of its chance
of being misordered; then Σ is updated as if the match had been played, and the next pair of the batch is chosen. (The
square spares what is nearly certain; weights of power 1 and ½, and the slope of Φ, needed more matches when simulated.)

Which pairs of systems meet next.

A schedule is asked for a batch of pairs, given what has been played; an empty batch ends it. It is a pure function of
its seed and of the results, so that the same command after a crash plays the same matches.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.errors import UserError, unknown
from ragrounds.evals.arena.matches import Floats, Ints, all_pairs
from ragrounds.evals.arena.ratings import fit, information

_SHAPE = 5.0
"""Beta(5, 5): most weight on chances of .5 to .7, where it takes long; lopsided pairs are found soon at any weight."""


def log_stake(wins: Floats, losses: Floats) -> Floats:
    """Logarithm of the stake after so many wins and losses, bet on the winner of the first argument."""
    from scipy import special

    a = _SHAPE
    upper = special.betaincc(a + wins, a + losses, 0.5)
    with np.errstate(divide="ignore"):
        stake: Floats = (
            (wins + losses) * np.log(2.0)
            + special.betaln(a + wins, a + losses)
            - special.betaln(a, a)
            + np.log(2.0 * upper)
        )
    return stake


def separated_pairs(won: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    """(…, K, K): the row's system is better than the column's, from wins (…, K, K), ties left out."""
    size = won.shape[-1]
    limit = np.log(size * (size - 1) / (1.0 - confidence)) if size > 1 else np.inf
    return np.asarray(log_stake(won, np.swapaxes(won, -1, -2)) >= limit)


def settled_axes(won: Floats, strengths: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    """(…): every neighbouring pair of the ranking by `strengths` (…, K) is separated, in the ranking's direction."""
    order = np.argsort(-strengths, axis=-1, kind="stable")
    better = separated_pairs(won, confidence)
    upper, lower = order[..., :-1], order[..., 1:]
    rows = np.take_along_axis(better, upper[..., :, None], axis=-2)
    return np.asarray(np.take_along_axis(rows, lower[..., :, None], axis=-1)[..., 0].all(axis=-1))


_MOST = 400
"""Pairs that are weighed against each other: all of them up to 28 systems, the most doubtful ones beyond."""
_PRIOR = 0.25
"""Information of the imaginary tie that each system is given, so that there is a choice before the first match."""


def choose_pairs(points: Floats, open_pairs: npt.NDArray[np.bool_], count: int) -> Ints:
    """(S, n) numbers of pairs to play next, for S arenas at once, each with A axes.

    `points` (S, A, K, K) are points taken, a tie as half a point each; `open_pairs` (S, P) says which pairs may still
    play. A pair may be chosen several times; −1 stands where nothing is open.
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
    chosen = np.empty((len(points), count), dtype=np.int64)
    for number in range(count):
        variance = np.diagonal(gaps_covariance, axis1=-2, axis2=-1)
        doubt = misordered(gaps, variance) ** 2 / variance
        shrunk = np.einsum("sap,sapq->saq", doubt, gaps_covariance**2)
        gain = (shrunk * weight / (1.0 + weight * variance)).sum(axis=1)
        gain = np.where(open_pairs, gain, -np.inf)
        pick = gain.argmax(axis=-1)
        chosen[:, number] = np.where(np.isfinite(gain[index, pick]), pairs[index, pick], -1)
        column = gaps_covariance[index, :, :, pick]
        factor = weight[index, :, pick] / (1.0 + weight[index, :, pick] * variance[index, :, pick])
        gaps_covariance = gaps_covariance - factor[..., None, None] * column[..., :, None] * column[..., None, :]
    return chosen


def _doubtful(fitted: Floats, covariance: Floats, open_pairs: npt.NDArray[np.bool_]) -> Ints:
    """(S, M) the open pairs whose order is least sure on some axis; all pairs, where they are not too many."""
    size = fitted.shape[-1]
    first, second = all_pairs(size)
    if len(first) <= _MOST:
        return np.broadcast_to(np.arange(len(first)), (len(fitted), len(first)))
    own = np.diagonal(covariance, axis1=-2, axis2=-1)
    variance = own[..., first] + own[..., second] - 2.0 * covariance[..., first, second]
    doubt = misordered(np.abs(fitted[..., first] - fitted[..., second]), variance).max(axis=1)
    order: Ints = np.argsort(np.where(open_pairs, -doubt, 1.0), axis=-1, kind="stable")[:, :_MOST]
    return order


def misordered(gaps: Floats, variance: Floats) -> Floats:
    """The chance that a gap has the wrong sign, by the normal approximation."""
    from scipy import special

    chance: Floats = special.ndtr(-gaps / np.sqrt(np.maximum(variance, 1e-12)))
    return chance


SCHEDULES = ("published", "full", "adaptive")
LEAST = 80
"""Matches a pair must have on every axis before the published schedule ends (MRAG-Bench, LFQA arena)."""


class MatchCounts(Struct, frozen=True):
    """What has been played, for each axis."""

    wins: Floats
    """(A, K, K) matches the row's system won."""
    ties: Floats
    """(A, K, K), symmetric."""
    played: Ints
    """(P,) matches each pair has begun, whether or not a verdict came of them."""

    @property
    def points(self) -> Floats:
        """(A, K, K), a tie as half a point."""
        points: Floats = self.wins + 0.5 * self.ties
        return points

    @property
    def finished(self) -> Ints:
        """(P,) matches with a verdict, on the axis that has fewest."""
        games = self.points + np.swapaxes(self.points, -1, -2)
        first, second = all_pairs(games.shape[-1])
        counts: Ints = np.rint(games[:, first, second].min(axis=0)).astype(np.int64)
        return counts


class Schedule(Protocol):
    """Chooses pairs."""

    def batch(self, standing: MatchCounts) -> list[int]:
        """Numbers of the pairs that play next, in order; a pair may stand several times. Empty: the end."""

    def reason(self, standing: MatchCounts) -> str:
        """Why it ended, for the report."""


class FullSchedule:
    """Every pair on every question."""

    def __init__(self, size: int, questions: int, seed: int) -> None:
        self._pairs = np.repeat(np.arange(size * (size - 1) // 2), questions)
        np.random.default_rng([seed, 1]).shuffle(self._pairs)

    def batch(self, standing: MatchCounts) -> list[int]:
        """All of it at once."""
        return [] if standing.played.any() else self._pairs.tolist()

    def reason(self, standing: MatchCounts) -> str:
        """It always ends for one reason."""
        return "every pair has played every question"


class PublishedSchedule:
    """Random pairs until every pair has `least` matches with a verdict on every axis, as MRAG-Bench does it."""

    def __init__(self, size: int, questions: int, seed: int, least: int = LEAST) -> None:
        self._questions = questions
        self._least = least
        self._pairs = size * (size - 1) // 2
        self._draw = np.random.default_rng([seed, 2])

    def batch(self, standing: MatchCounts) -> list[int]:
        """Draw until every pair would have enough, if every match gives a verdict."""
        played, finished = standing.played.copy(), standing.finished
        chosen: list[int] = []
        while True:
            waiting = (finished < self._least) & (played < self._questions)
            if not waiting.any():
                return chosen
            open_pairs = np.flatnonzero(played < self._questions)
            pair = int(open_pairs[self._draw.integers(len(open_pairs))])
            chosen.append(pair)
            played[pair] += 1
            finished[pair] += 1

    def reason(self, standing: MatchCounts) -> str:
        """Enough matches, or no questions left."""
        short = int((standing.finished < self._least).sum())
        if not short:
            return f"every pair has {self._least} matches on every axis"
        return f"{short} of {self._pairs} pairs ran out of questions before {self._least} matches with a verdict"


class AdaptiveSchedule:
    """Pairs where the ranking is most uncertain, until every neighbouring pair is separated on every axis."""

    def __init__(self, size: int, questions: int, confidence: float = 0.95, at_once: int | None = None) -> None:
        self._questions = questions
        self._confidence = confidence
        # Fixed, not by concurrency: another concurrency must not choose other matches.
        self._at_once = at_once or min(256, max(8, size * (size - 1) // 2))

    def batch(self, standing: MatchCounts) -> list[int]:
        """The next few matches; axes that are settled have no say."""
        unsettled = ~self._settled(standing)
        open_pairs = standing.played < self._questions
        if not unsettled.any() or not open_pairs.any():
            return []
        room = int((self._questions - standing.played).sum())
        chosen: list[int] = []
        for _ in range(min(self._at_once, room)):
            # One at a time where a pair may run out of questions within the batch.
            left = self._questions - standing.played - np.bincount(chosen, minlength=len(standing.played))
            if (left[open_pairs] >= self._at_once).all() and not chosen:
                together = choose_pairs(standing.points[unsettled][None], open_pairs[None], self._at_once)[0]
                return [int(pair) for pair in together]
            pick = choose_pairs(_with(standing.points[unsettled], chosen)[None], (left > 0)[None], 1)[0]
            chosen.append(int(pick[0]))
        return chosen

    def reason(self, standing: MatchCounts) -> str:
        """Settled, or out of questions."""
        if self._settled(standing).all():
            return f"every neighbouring pair is separated on every axis at {self._confidence:.0%}, valid at every look"
        return "no questions are left; some neighbouring pairs are not separated"

    def _settled(self, standing: MatchCounts) -> npt.NDArray[np.bool_]:
        strengths = fit(standing.points, prior=True).strengths
        return settled_axes(standing.wins, strengths, self._confidence)


def _with(points: Floats, chosen: list[int]) -> Floats:
    """Points as if the chosen matches had ended in ties."""
    first, second = all_pairs(points.shape[-1])
    more = points.copy()
    for pair in chosen:
        more[:, first[pair], second[pair]] += 0.5
        more[:, second[pair], first[pair]] += 0.5
    return more


def open_schedule(
    name: str, size: int, questions: int, *, seed: int = 0, least: int = LEAST, confidence: float = 0.95
) -> Schedule:
    """The schedule `name` for so many systems and questions.

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
