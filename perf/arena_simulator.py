"""Arenas with known strengths, played by a judge with noise, position bias and ties, many at once."""

from __future__ import annotations

import numpy as np

from ragrounds.extensions.arena.ratings import fit
from ragrounds.extensions.arena.schedules import all_pairs, choose_pairs


class Judge:
    """What one order says: first, second or tie; what both orders together say."""

    def __init__(self, position: float = 0.4, tie: float = 0.3) -> None:
        self.position = position
        """Log-odds that the answer shown first gets for being shown first."""
        self.tie = tie
        """Log-odds by which an answer must be ahead to be preferred."""

    def one_order(self, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(first preferred, second preferred) where the first is ahead by `gap`."""
        return _sigmoid(gap + self.position - self.tie), _sigmoid(-gap - self.position - self.tie)

    def both_orders(self, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(won, lost) of the system ahead by `gap`: both orders agree; anything else is a tie."""
        won_first, lost_first = self.one_order(gap)
        lost_second, won_second = self.one_order(-gap)
        return won_first * won_second, lost_first * lost_second


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


class Arenas:
    """S arenas of the same strengths; counts of wins, ties, losses of each pair."""

    def __init__(self, strengths: list[float], judge: Judge, copies: int, seed: int) -> None:
        self.strengths = np.array(strengths)
        self.size, self.copies = len(strengths), copies
        self.first, self.second = all_pairs(self.size)
        self.won, self.lost = judge.both_orders(self.strengths[self.first] - self.strengths[self.second])
        self.counts = np.zeros((copies, len(self.first), 3), dtype=np.int64)
        self.draw = np.random.default_rng(seed)

    def play(self, times: np.ndarray) -> None:
        """Play every pair as often as `times` (S, P) says."""
        won = self.draw.binomial(times, self.won)
        lost = self.draw.binomial(times - won, self.lost / (1.0 - self.won))
        self.counts += np.stack([won, times - won - lost, lost], axis=-1)

    def random(self, count: int) -> None:
        """`count` matches of random pairs, as published."""
        pairs = len(self.first)
        self.play(self.draw.multinomial(count, np.full(pairs, 1.0 / pairs), size=self.copies))

    def adaptive(self, count: int, open_pairs: np.ndarray | None = None) -> None:
        """`count` matches, chosen together."""
        open_pairs = np.ones((self.copies, len(self.first)), dtype=bool) if open_pairs is None else open_pairs
        chosen = choose_pairs(self.points()[:, None], open_pairs, count)
        times = np.zeros((self.copies, len(self.first)), dtype=np.int64)
        rows, columns = np.nonzero(chosen >= 0)
        np.add.at(times, (rows, chosen[rows, columns]), 1)
        self.play(times)

    def points(self) -> np.ndarray:
        """(S, K, K)"""
        points = np.zeros((self.copies, self.size, self.size))
        points[:, self.first, self.second] = self.counts[..., 0] + 0.5 * self.counts[..., 1]
        points[:, self.second, self.first] = self.counts[..., 2] + 0.5 * self.counts[..., 1]
        return points

    def wins(self) -> np.ndarray:
        """(S, K, K) without ties."""
        wins = np.zeros((self.copies, self.size, self.size))
        wins[:, self.first, self.second] = self.counts[..., 0]
        wins[:, self.second, self.first] = self.counts[..., 2]
        return wins

    def right(self) -> np.ndarray:
        """(S,): the ranking is the true one."""
        order = np.argsort(-fit(self.points(), prior=True).strengths, axis=-1)
        return (order == np.argsort(-self.strengths)).all(axis=-1)
