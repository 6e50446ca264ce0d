"""What happens inside a block, told from deep below to whoever began it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")


class Listening(Generic[T]):
    """One kind of thing that may be listened for."""

    def __init__(self, name: str) -> None:
        self._heard: ContextVar[list[T] | None] = ContextVar(name, default=None)

    @contextlib.contextmanager
    def listening(self) -> Iterator[list[T]]:
        """Everything that is told in here, also in the tasks and threads that are begun in here."""
        heard: list[T] = []
        mark = self._heard.set(heard)
        try:
            yield heard
        finally:
            self._heard.reset(mark)

    def tell(self, what: T) -> None:
        """This happened; nobody may be listening."""
        heard = self._heard.get()
        if heard is not None:
            heard.append(what)
