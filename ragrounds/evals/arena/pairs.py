"""Pairs of systems in a fixed order, and which question a pair plays next."""

from __future__ import annotations

import hashlib

import numpy as np

from ragrounds.evals.arena.matches import Ints


def all_pairs(size: int) -> tuple[Ints, Ints]:
    """Both members of the K(K−1)/2 pairs."""
    first, second = np.triu_indices(size, 1)
    return first.astype(np.int64), second.astype(np.int64)


def question_orders(size: int, questions: int, seed: int) -> Ints:
    """(P, Q): in which order each pair plays the questions.

    Drawn for each pair before anything is played: the results of a pair are then a fixed sequence of which a schedule
    only decides how much is seen, and this is what keeps the stopping rule valid however pairs are chosen.
    """
    count = size * (size - 1) // 2
    return np.array([_draw(seed, pair).permutation(questions) for pair in range(count)], dtype=np.int64).reshape(
        count, questions
    )


def _draw(seed: int, pair: int) -> np.random.Generator:
    digest = hashlib.sha256(f"arena order {seed} {pair}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))
