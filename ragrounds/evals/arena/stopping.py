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
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ragrounds.evals.arena.matches import Floats

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


def separated(won: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    """(…, K, K): the row's system is better than the column's, from wins (…, K, K), ties left out."""
    size = won.shape[-1]
    limit = np.log(size * (size - 1) / (1.0 - confidence)) if size > 1 else np.inf
    return np.asarray(log_stake(won, np.swapaxes(won, -1, -2)) >= limit)


def settled(won: Floats, strengths: Floats, confidence: float) -> npt.NDArray[np.bool_]:
    """(…): every neighbouring pair of the ranking by `strengths` (…, K) is separated, in the ranking's direction."""
    order = np.argsort(-strengths, axis=-1, kind="stable")
    better = separated(won, confidence)
    upper, lower = order[..., :-1], order[..., 1:]
    rows = np.take_along_axis(better, upper[..., :, None], axis=-2)
    return np.asarray(np.take_along_axis(rows, lower[..., :, None], axis=-1)[..., 0].all(axis=-1))
