"""Operations of a store that each kind of database implements differently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import sqlalchemy as sa

Say = Callable[[str], None]


class Dialect(Protocol):
    """One kind of database."""

    changes: str
    """Statement that reads a number which grows when another connection has written attempts or scores."""

    def insert(self, table: sa.Table) -> Any:
        """Return an INSERT statement of this kind, which supports ON CONFLICT."""

    def exclusive(self, engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
        """Return a transaction during which no other process changes tables; it is rolled back if the block raises."""

    def lock(self, connection: sa.Connection, tables: str) -> None:
        """Prevent all other writes to these tables until the transaction ends."""

    def snapshot(self, engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
        """Return a connection that sees the store as it is now, whatever is written meanwhile."""

    def among(self, column: Any, values: Sequence[int] | Sequence[str]) -> sa.ColumnElement[bool]:
        """Return the condition that a column's value is one of these; they are one parameter, however many."""

    def reclaim(self, engine: sa.Engine) -> None:
        """Return the space of removed rows to the disk."""

    def faults(self, engine: sa.Engine, limit: int) -> Iterator[tuple[str, str, str]]:
        """Yield the faults that the database itself finds: a kind, a location, a description; at most `limit` of a
        kind.
        """

    def reconnect(self, engine: sa.Engine, location: str, seconds: float, say: Say) -> Callable[[], None]:
        """Let connections wait `seconds` seconds for a server that no longer answers, and return a function that ends
        the waiting.

        `say` may be called in any thread.
        """
