"""The views of the same attempts beside the main screen, opened by the number before their name."""

from __future__ import annotations

from textual.screen import Screen

from ragrounds.ui.trace.attempt_list import AttemptList


def known_views() -> tuple[str, ...]:
    """The names of all views, in the order of their numbers."""
    return ("attempts", "hops", "grid", "compare")


def view_screen(name: str, attempt_list: AttemptList) -> Screen[int | None] | None:
    """A view over a list, which gives the place of the attempt that is to be opened; ``None``: there is none of this
    name that needs only the list."""
    from ragrounds.ui.trace.grid_screen import GridScreen
    from ragrounds.ui.trace.hop_screen import HopScreen

    if name == "hops":
        return HopScreen(attempt_list)
    return GridScreen(attempt_list) if name == "grid" else None
