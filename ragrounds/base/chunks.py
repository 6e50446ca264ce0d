"""Parts of a sequence of equal length, and batches of any items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def chunks(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """Return the parts of a sequence with at most `size` items each, by default few enough for one SQL statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


def in_batches(
    items: Iterable[T], max_items: int, size: Callable[[T], int] = lambda item: 0, limit: int = 0
) -> Iterator[list[T]]:
    """Yield items in batches of at most `max_items` items and of at most `limit` total size, unless one item alone is
    larger.
    """
    batch, batch_size = list[T](), 0
    for element in items:
        item_size = size(element)
        if batch and (len(batch) >= max_items or (limit and batch_size + item_size > limit)):
            yield batch
            batch, batch_size = [], 0
        batch.append(element)
        batch_size += item_size
    if batch:
        yield batch
