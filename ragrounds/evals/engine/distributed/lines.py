"""The line between the leader of a replay and one worker, seen from either end. What carries it is another matter."""

from __future__ import annotations

from typing import Protocol


class Line(Protocol):
    """The leader's end."""

    @property
    def name(self) -> str:
        """The worker, as a user is told of it."""

    def post(self, frame: bytes) -> None:
        """Send; to a worker that is gone: nothing happens."""

    async def receive(self) -> bytes | None:
        """The worker's next frame; ``None``: it has ended, or is lost."""

    async def end(self) -> str:
        """Make sure that the worker is gone, soon where it still works; gives how it ended, empty: properly."""


class Post(Protocol):
    """The worker's end: frames come to it one by one, and it answers by this."""

    def __call__(self, frame: bytes) -> None: ...
