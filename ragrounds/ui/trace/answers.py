"""What a screen asked for on a thread may come when the screen was left: then it is shown nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from textual._context import NoActiveAppError
from textual.screen import Screen

Ending = TypeVar("Ending")
Given = TypeVarTuple("Given")


def is_open(screen: Screen[Ending]) -> bool:
    """Whether a screen still has its panes: it was not left, though another one may stand before it."""
    return screen.is_attached and screen in screen.app.screen_stack


def answer(screen: Screen[Ending], show: Callable[[*Given], object], *given: *Given) -> None:
    """Call `show` with what was read, on the thread that draws, and wait for it; where the screen was left, do nothing.

    Args:
        screen: whose worker it is that calls this, on a thread of its own.
        show: shows it on the screen.
        given: the arguments of `show`.
    """

    def shown() -> None:
        """Look only now whether it is wanted: keys may have been pressed since the call."""
        if is_open(screen):
            show(*given)

    try:
        app = screen.app
    except NoActiveAppError:  # it is gone altogether
        return
    app.call_from_thread(shown)
