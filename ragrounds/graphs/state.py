"""What the nodes of the built-in graphs share: their state, and the reading of an agent's parameters."""

from __future__ import annotations

from typing import Protocol, TypeVar

from typing_extensions import TypedDict

from ragrounds.contracts import Context
from ragrounds.errors import UserError

ContextT = TypeVar("ContextT", covariant=True)


class Runtime(Protocol[ContextT]):
    """What LangGraph hands to a node. Its own class takes half a second to import, and a run is planned by what graphs
    say of themselves: they import LangGraph when they are built."""

    @property
    def context(self) -> ContextT:
        """By which a node asks, searches and reads its parameters."""


class State(TypedDict, total=False):
    """What travels between nodes. It holds ids, not passages: those stay with the context."""

    passages: list[str]
    """Ids of passages, best first."""
    answer: str
    """The final text, exactly as the model gave it. Every graph ends with it."""
    choice: str
    """The letter of the option in a final text of the strategy's own form; every scorer of choices takes it."""


def whole(context: Context, name: str, default: int, least: int = 1) -> int:
    """A whole number of at least `least`.

    Raises:
        UserError: it is something else.
    """
    value = context.parameters.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name} must be a whole number of at least {least}, not {str(value)!r}.")
    return value


def switch(context: Context, name: str, default: bool) -> bool:
    """True or false.

    Raises:
        UserError: it is something else.
    """
    value = context.parameters.get(name, default)
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false, not {str(value)!r}.")
    return value


def word(context: Context, name: str, default: str) -> str:
    """A word, or a spec as its text."""
    return str(context.parameters.get(name, default))
