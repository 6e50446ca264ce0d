"""What a call may ask of a model beside its messages, and the line that says that a model cannot take it."""

from __future__ import annotations

from collections.abc import Iterable

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun

ARGUMENTS = ("temperature", "seed", "response_format", "logprobs", "tool_choice", "parallel_tool_calls")
"""Fields of :class:`ragrounds.base.contracts.Request` that not every model can take."""


class CannotTake(StopRun):
    """A model cannot be given what a call asks for."""


def refuse_arguments(request: Request, model: str, unknown: Iterable[str], why: str = "") -> None:
    """Refuse a request that asks for what a model cannot take: to leave it out would change what is measured.

    Args:
        request: The request.
        model: The model, for the message.
        unknown: The fields of :data:`ARGUMENTS` that it cannot take.
        why: The reason, in words.

    Raises:
        CannotTake: the request gives one of them.
    """
    if given := [name for name in unknown if getattr(request, name) is not None]:
        because = f" ({why})" if why else ""
        raise CannotTake(
            f"{model} takes no {' and no '.join(given)}{because}, but the graph needs it. Use another model."
        )
