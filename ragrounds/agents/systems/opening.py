"""What happens while a system is imported or built: it may ask models already, to embed its documents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

OPENING: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("ragrounds_opening", default=nullcontext)
"""Makes what is entered around the import and the building of a system."""


def watched() -> AbstractContextManager[None]:
    """To be entered while a system is imported or built."""
    return OPENING.get()()
