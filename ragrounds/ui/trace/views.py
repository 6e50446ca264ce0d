"""The views of the same attempts beside the main screen, opened by the number before their name."""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from typing import cast

from textual.screen import Screen

from ragrounds.ui.trace.attempt_list import AttemptList

_SCREENS = {
    "hops": ("ragrounds.ui.trace.hop_screen", "HopScreen"),
    "grid": ("ragrounds.ui.trace.grid_screen", "GridScreen"),
}


@lru_cache(maxsize=1)
def known_views() -> tuple[str, ...]:
    """The names of all views."""
    return (
        "attempts",
        *(name for name, (module, _) in _SCREENS.items() if importlib.util.find_spec(module)),
        "compare",
    )


def view_screen(name: str, attempt_list: AttemptList) -> Screen[int | None] | None:
    """A view over a list, which gives the place of the attempt that is to be opened; ``None``: there is none of this
    name."""
    if name not in _SCREENS or name not in known_views():
        return None
    module, called = _SCREENS[name]
    return cast("Screen[int | None]", getattr(importlib.import_module(module), called)(attempt_list))
