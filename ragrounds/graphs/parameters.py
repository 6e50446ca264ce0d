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
