"""The state that the built-in graphs share. It holds ids, not passages: those stay with the context."""

from __future__ import annotations

from typing_extensions import TypedDict


class State(TypedDict, total=False):
    """What travels between nodes."""

    passages: list[str]
    """Ids of passages, best first."""
    answer: str
    """The final text, exactly as the model gave it. Every graph ends with it."""
