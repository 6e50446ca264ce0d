"""What a search uses of models on servers: embedders tell it while they work, whoever began the search hears it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ragrounds.contracts import Used

_heard: ContextVar[list[Used] | None] = ContextVar("ragrounds_used", default=None)


@contextlib.contextmanager
def hearing() -> Iterator[list[Used]]:
    """Everything that is used in here, also in the tasks and threads that are begun in here."""
    used: list[Used] = []
    mark = _heard.set(used)
    try:
        yield used
    finally:
        _heard.reset(mark)


def tell(used: Used) -> None:
    """This was used."""
    heard = _heard.get()
    if heard is not None:
        heard.append(used)
