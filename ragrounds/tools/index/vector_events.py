"""What is told of indexes over vectors when they are built."""

from __future__ import annotations

from ragrounds.base.contracts import EventCollector

BUILT = EventCollector[str]("ragrounds_vectors_built")
"""A line for each index over vectors that was built, with its recall: for whoever asked for it to tell."""
