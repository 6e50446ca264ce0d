"""Optional arguments of a call, and the error for a model that does not support them."""

from __future__ import annotations

from collections.abc import Iterable

from ragrounds.base.contracts import Request
from ragrounds.base.errors import StopRun

ARGUMENTS = ("temperature", "seed", "response_format", "logprobs", "tool_choice", "parallel_tool_calls")
"""Fields of :class:`ragrounds.base.contracts.Request` that not every model supports."""


class CannotTake(StopRun):
    """Error for a model that does not support an argument of a call."""


def refuse_arguments(request: Request, model: str, unknown: Iterable[str], reason: str = "") -> None:
    """Refuse a request with unsupported arguments: leaving them out would change what is measured.

    Args:
        request: the request.
        model: the model, for the message.
        unknown: fields of :data:`ARGUMENTS` that it does not support.
        reason: the reason, in words.

    Raises:
        CannotTake: the request sets one of them.
    """
    if requested := [name for name in unknown if getattr(request, name) is not None]:
        because = f" ({reason})" if reason else ""
        raise CannotTake(
            f"{model} takes no {' and no '.join(requested)}{because}, but the graph needs it. Use another model."
        )
