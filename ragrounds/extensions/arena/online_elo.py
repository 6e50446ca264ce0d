"""Online Elo, as a table of a paper may be rated: a rating moves after every match, by at most `k` points.

The result depends on the order of the matches, which is arbitrary: at 40 points a match, order alone moves a rating
by about ±30. So the ratings of many random orders are computed, and their mean is shown with their standard deviation.
Each order's ratings equal FastChat's `compute_elo` (lm-sys/FastChat at 0e6d3e4b). Ranks and intervals stay with
Bradley–Terry (:mod:`ragrounds.extensions.arena.ratings`), which depends on no order.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ragrounds.base.errors import UserError, unknown
from ragrounds.base.specs import check_known, parse
from ragrounds.extensions.arena.matches import Floats, Ints, Matches
from ragrounds.extensions.arena.ratings import POINTS, START

BRADLEY_TERRY = "bradley-terry"
_DEFAULTS = {"k": 32.0, "orders": 1000}


class EloRating(Struct, frozen=True):
    """Online Elo of one system."""

    rating: float
    """Mean over the orders."""
    sd: float
    """Standard deviation over the orders."""


class EloRatings(Struct, frozen=True, kw_only=True):
    """Online Elo of all systems, over random orders of the same matches."""

    k: float
    """Points that a match can move."""
    orders: int
    by_system: dict[str, EloRating]

    @property
    def about(self) -> str:
        """Return the meaning of the figures."""
        return f"Elo, start {START:g}, K {self.k:g}: mean ± sd over {self.orders:,} random orders of the matches"


class EloSettings(Struct, frozen=True):
    """Parameters of ``elo[k=…,orders=…]``."""

    k: float
    orders: int


def parse_rating(text: str) -> EloSettings | None:
    """Return the settings of ``elo[k=40,orders=1000]``; ``None`` for ``bradley-terry``.

    Raises:
        UserError: there is no such rating, or a parameter is unknown or impossible.
    """
    if text == BRADLEY_TERRY:
        return None
    spec = parse(text)
    if spec.name != "elo":
        raise unknown("rating", text, (BRADLEY_TERRY, "elo[k=40]"), "ragrounds arena play --help")
    check_known(spec, tuple(_DEFAULTS))
    values = {**_DEFAULTS, **spec.parameters}
    k, orders = values["k"], values["orders"]
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 < k < np.inf:
        raise UserError(f"{text}: k is the number of points that a match can move, a positive number.")
    if isinstance(orders, bool) or not isinstance(orders, int) or not 2 <= orders <= 100_000:
        raise UserError(f"{text}: orders is the number of random orders, from 2 to 100000.")
    return EloSettings(float(k), orders)


def rate_orders(matches: Matches, orders: Ints, k: float) -> Floats:
    """Return the ratings (orders, systems) after the matches were played in each order (orders, matches)."""
    ratings = np.full((len(orders), len(matches.systems)), START)
    row = np.arange(len(orders))
    for played in orders.T:
        first, second = matches.first[played], matches.second[played]
        expected = 1.0 / (1.0 + np.exp((ratings[row, second] - ratings[row, first]) / POINTS))
        change = k * (matches.score[played] - expected)
        ratings[row, first] += change
        ratings[row, second] -= change
    return ratings


def rate_online(matches: Matches, settings: EloSettings, seed: int = 0) -> EloRatings:
    """Rate the systems over random orders of the matches, which `seed` decides."""
    draw = np.random.default_rng(seed)
    orders = np.array([draw.permutation(len(matches)) for _ in range(settings.orders)], dtype=np.int64)
    ratings = rate_orders(matches, orders, settings.k)
    by_system = {
        name: EloRating(float(ratings[:, index].mean()), float(ratings[:, index].std(ddof=1)))
        for index, name in enumerate(matches.systems)
    }
    return EloRatings(k=settings.k, orders=settings.orders, by_system=by_system)
