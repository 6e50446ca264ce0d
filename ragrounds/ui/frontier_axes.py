"""Where things stand in a picture of the frontier. Shared by the terminal and the SVG."""

from __future__ import annotations

from ragrounds.evals.analyses.pictures import PictureAxis, linear, scale
from ragrounds.evals.compare.frontier import Frontier


def axes(frontier: Frontier) -> tuple[PictureAxis, PictureAxis]:
    """The axes of cost and of accuracy that hold every point with its intervals."""
    costs = [
        end for spot in frontier.spots for end in (spot.cost.value, spot.cost.low, spot.cost.high) if end is not None
    ]
    shares = [
        end
        for spot in frontier.spots
        for end in (spot.accuracy.value, spot.accuracy.low, spot.accuracy.high)
        if end is not None
    ]
    return scale(costs), linear(min(shares), max(shares), top=1.0)
