"""Matches made up with a seed, for the tests of the arena."""

import numpy as np

from ragrounds.extensions.arena.matches import Matches


def played(strengths, count, *, questions, ties=0.3, seed=0):
    """`count` random matches between systems of known strengths; a share `ties` of them are ties."""
    draw = np.random.default_rng(seed)
    size = len(strengths)
    strengths = np.asarray(strengths, dtype=float)
    first = draw.integers(0, size, count)
    second = (first + draw.integers(1, size, count)) % size
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    score = np.where(draw.random(count) < ties, 0.5, (draw.random(count) < chance).astype(float))
    cluster = draw.permutation(np.arange(count) % questions)
    return Matches(tuple("abcdefghijkl"[:size]), first, second, score, cluster)
