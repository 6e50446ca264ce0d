"""Elo and Bradley–Terry beside FastChat's own, on random arenas.

    python perf/arena_elo.py FASTCHAT/fastchat/serve/monitor/rating_systems.py [arenas]

The file is FastChat's (lm-sys/FastChat at 0e6d3e4b; it needs pandas, scipy and tqdm). Online Elo is compared order by
order at K = 40, Bradley–Terry once for each arena. The last lines say what the order of the matches alone does.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import numpy as np
import pandas as pd

from ragrounds.extensions.arena.matches import Matches
from ragrounds.extensions.arena.online_elo import rate_orders
from ragrounds.extensions.arena.ratings import START, fit

K = 40.0
ORDERS = 30
_WINNER = {1.0: "model_a", 0.5: "tie", 0.0: "model_b"}


def load_fastchat(path: str) -> ModuleType:
    """Return FastChat's module of ratings."""
    spec = importlib.util.spec_from_file_location("rating_systems", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_arena(seed: int) -> Matches:
    """Return some hundred matches of two to eight systems, about three per question."""
    draw = np.random.default_rng([40, seed])
    size, count = int(draw.integers(2, 9)), int(draw.integers(120, 600))
    strengths = draw.normal(0, 0.7, size)
    first = draw.integers(0, size, count)
    second = (first + draw.integers(1, size, count)) % size
    chance = 1 / (1 + np.exp(strengths[second] - strengths[first]))
    score = np.where(draw.random(count) < 0.3, 0.5, (draw.random(count) < chance).astype(float))
    return Matches(tuple("abcdefgh"[:size]), first, second, score, np.arange(count) // 3)


def battles(matches: Matches, order: np.ndarray) -> pd.DataFrame:
    """Return the matches in an order, as FastChat reads them."""
    names = np.array(matches.systems)
    return pd.DataFrame(
        {
            "model_a": names[matches.first[order]],
            "model_b": names[matches.second[order]],
            "winner": [_WINNER[score] for score in matches.score[order]],
        }
    )


def main(path: str, arenas: int) -> None:
    """Print the largest differences and the effect of the order."""
    fastchat = load_fastchat(path)
    elo_gap = strength_gap = 0.0
    spreads, same_ranking, mean_gaps = [], 0, []
    for seed in range(arenas):
        matches = random_arena(seed)
        draw = np.random.default_rng([41, seed])
        orders = np.array([draw.permutation(len(matches)) for _ in range(ORDERS)])
        ours = rate_orders(matches, orders, K)
        for rated, order in zip(ours, orders, strict=True):
            theirs = fastchat.compute_elo(battles(matches, order), k=K)
            elo_gap = max(elo_gap, *(abs(theirs[name] - rated[i]) for i, name in enumerate(matches.systems)))
        fitted = fit(matches.totals()).ratings
        theirs = fastchat.compute_bt(battles(matches, orders[0]))
        centred = theirs - theirs.mean() + START
        strength_gap = max(strength_gap, *(abs(centred[name] - fitted[i]) for i, name in enumerate(matches.systems)))
        spreads.append(ours.std(axis=0, ddof=1).mean())
        mean_gaps.append(np.abs(ours.mean(axis=0) - fitted).mean())
        same_ranking += int((np.argsort(ours, axis=1) == np.argsort(fitted)).all(axis=1).sum())
    print(f"{arenas} arenas, {ORDERS} orders each")
    print(f"online Elo, K {K:g}: largest difference from FastChat's compute_elo {elo_gap:.1e} points")
    print(f"Bradley-Terry: largest difference from FastChat's compute_bt {strength_gap:.2g} points")
    print(f"order alone: sd {np.mean(spreads):.0f} points; {same_ranking / arenas / ORDERS:.0%} of orders rank as")
    print(f"Bradley-Terry does; the mean over orders lies {np.mean(mean_gaps):.0f} points from it")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)
