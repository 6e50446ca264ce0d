"""Events of builds of indexes over vectors."""

from __future__ import annotations

from ragrounds.base.contracts import EventCollector

BUILT = EventCollector[str]("ragrounds_vectors_built")
"""Collector with a line, including the recall, for each index over vectors that was built."""
