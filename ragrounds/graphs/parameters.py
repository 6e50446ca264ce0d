"""Reading an agent's parameters inside a node."""

from __future__ import annotations

from ragrounds.contracts import Context
from ragrounds.errors import UserError


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
