"""A server that stands in for a model, for trying things out without a key."""

from __future__ import annotations

from collections.abc import Callable


def serve_stand_in(port: int = 8000, *, message: Callable[[str], None] = lambda text: None) -> None:
    """Serve OpenAI's protocol on loopback until it is interrupted, with replies that follow from the words alone.

    Args:
        port: where it listens, on 127.0.0.1; 0 is a free one.
        message: told the base URL once it listens.

    Raises:
        UserError: it cannot listen at this port.
    """
    from ragrounds.extensions.stand_in import server as stand_in_server

    stand_in_server.serve_stand_in(port, message)
