"""Which pairs of systems meet next.

A schedule is asked for a batch of pairs, given what has been played; an empty batch ends it. It is a pure function of
its seed and of the results, so that the same command after a crash plays the same matches.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ragrounds.errors import UserError, unknown
from ragrounds.evals.arena.adaptive import choose
from ragrounds.evals.arena.bradley_terry import fit
from ragrounds.evals.arena.matches import Floats, Ints
from ragrounds.evals.arena.pairs import all_pairs
from ragrounds.evals.arena.stopping import settled

NAMES = ("published", "full", "adaptive")
LEAST = 80
"""Matches a pair must have on every axis before the published schedule ends (MRAG-Bench, LFQA arena)."""


class Standing(Struct, frozen=True):
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

    def batch(self, standing: Standing) -> list[int]:
        """Numbers of the pairs that play next, in order; a pair may stand several times. Empty: the end."""

    def reason(self, standing: Standing) -> str:
        """Why it ended, for the report."""


class Full:
    """Every pair on every question."""

    def __init__(self, size: int, questions: int, seed: int) -> None:
        self._pairs = np.repeat(np.arange(size * (size - 1) // 2), questions)
        np.random.default_rng([seed, 1]).shuffle(self._pairs)

    def batch(self, standing: Standing) -> list[int]:
        """All of it at once."""
        return [] if standing.played.any() else self._pairs.tolist()

    def reason(self, standing: Standing) -> str:
        """It always ends for one reason."""
        return "every pair has played every question"


class Published:
    """Random pairs until every pair has `least` matches with a verdict on every axis, as MRAG-Bench does it."""

    def __init__(self, size: int, questions: int, seed: int, least: int = LEAST) -> None:
        self._questions = questions
        self._least = least
        self._pairs = size * (size - 1) // 2
        self._draw = np.random.default_rng([seed, 2])

    def batch(self, standing: Standing) -> list[int]:
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

    def reason(self, standing: Standing) -> str:
        """Enough matches, or no questions left."""
        short = int((standing.finished < self._least).sum())
        if not short:
            return f"every pair has {self._least} matches on every axis"
        return f"{short} of {self._pairs} pairs ran out of questions before {self._least} matches with a verdict"


class Adaptive:
    """Pairs where the ranking is most uncertain, until every neighbouring pair is separated on every axis."""

    def __init__(self, size: int, questions: int, confidence: float = 0.95, at_once: int | None = None) -> None:
        self._questions = questions
        self._confidence = confidence
        # Fixed, not by concurrency: another concurrency must not choose other matches.
        self._at_once = at_once or min(256, max(8, size * (size - 1) // 2))

    def batch(self, standing: Standing) -> list[int]:
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
                together = choose(standing.points[unsettled][None], open_pairs[None], self._at_once)[0]
                return [int(pair) for pair in together]
            pick = choose(_with(standing.points[unsettled], chosen)[None], (left > 0)[None], 1)[0]
            chosen.append(int(pick[0]))
        return chosen

    def reason(self, standing: Standing) -> str:
        """Settled, or out of questions."""
        if self._settled(standing).all():
            return f"every neighbouring pair is separated on every axis at {self._confidence:.0%}, valid at every look"
        return "no questions are left; some neighbouring pairs are not separated"

    def _settled(self, standing: Standing) -> npt.NDArray[np.bool_]:
        strengths = fit(standing.points, prior=True).strengths
        return settled(standing.wins, strengths, self._confidence)


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
        return Published(size, questions, seed, least)
    if name == "full":
        return Full(size, questions, seed)
    if name == "adaptive":
        return Adaptive(size, questions, confidence)
    raise unknown("schedule", name, NAMES, "ragrounds arena --help")
