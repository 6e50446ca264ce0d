"""The views of the same attempts, opened by the number before their name."""

from __future__ import annotations

VIEWS = (("1", "attempts"), ("2", "hops"), ("3", "grid"), ("4", "compare"))
"""Key and name of each view."""


def known_views() -> tuple[str, ...]:
    """The names of all views, in the order of their numbers."""
    return tuple(name for _, name in VIEWS)
