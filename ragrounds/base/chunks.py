"""Parts of a sequence of equal length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def chunks(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Return the parts of a sequence with at most `size` items each, by default few enough for one SQL statement."""
    return (items[start : start + size] for start in range(0, len(items), size))
