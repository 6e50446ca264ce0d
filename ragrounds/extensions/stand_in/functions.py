"""Serve a stand-in for a model, to try ragrounds without a key."""

from __future__ import annotations

from collections.abc import Callable


def serve_stand_in(port: int = 8000, *, message: Callable[[str], None] = lambda text: None) -> None:
    """Serve OpenAI's protocol on loopback until it is interrupted, with replies computed from the words of the prompt.

    Args:
        port: port on 127.0.0.1; 0: a free one.
        message: called with the base URL when the server listens.

    Raises:
        UserError: it cannot listen at this port.
    """
    from ragrounds.extensions.stand_in import server as stand_in_server

    stand_in_server.serve_stand_in(port, message)
