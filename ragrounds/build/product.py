"""What a pipeline's finish gives: files, and what the card says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ragrounds.build.counting import StageCount
from ragrounds.build.running import Result
from ragrounds.build.writing import Lines
from ragrounds.evals.benchmarks.cards import Card


class Product(Struct, frozen=True, kw_only=True):
    """A benchmark before it is written."""

    benchmark: Card
    files: Mapping[str, Lines]
    """Name inside the folder → lines. Empty where nothing is left to make a benchmark of; the card and the rejections
    are written all the same."""
    sets: Mapping[str, Card] = field(default_factory=dict)
    """Folders inside the folder that are benchmarks of their own."""
    stages: tuple[StageCount, ...] = ()
    """Those after the graph's."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What was measured, for the card."""
    notes: tuple[str, ...] = ()
    """What a reader of the card must know."""
    following: tuple[str, ...] = ()
    """Commands to try next; ``{out}`` stands for the folder."""


Finish = Callable[[Sequence[Result]], Product]
"""All items with their outcomes → the benchmark. It asks no model: whatever it needs stands in the outcomes."""
