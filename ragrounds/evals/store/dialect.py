"""What a store asks of a database, and each kind of database does in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import sqlalchemy as sa

Say = Callable[[str], None]


class Dialect(Protocol):
    """One kind of database."""

    changes: str
    """The statement that reads a number which grows when another connection has written attempts or scores."""
    binary: str
    """The collation that orders texts by their code points."""

    def insert(self, table: sa.Table) -> Any:
        """An INSERT statement of this kind, which knows ON CONFLICT."""

    def exclusive(self, engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
        """A transaction beside which no other process changes tables; it is rolled back where the block raises."""

    def lock(self, connection: sa.Connection, tables: str) -> None:
        """Have nobody else write to these tables until the transaction ends."""

    def snapshot(self, engine: sa.Engine) -> AbstractContextManager[sa.Connection]:
        """A connection that sees the store as it is now, whatever is written meanwhile."""

    def among(self, column: Any, values: Sequence[int] | Sequence[str]) -> sa.ColumnElement[bool]:
        """Whether a column's value is one of these; however many, they are one parameter."""

    def reclaim(self, engine: sa.Engine) -> None:
        """Return the space of removed rows to the disk."""

    def faults(self, engine: sa.Engine, most: int) -> Iterator[tuple[str, str, str]]:
        """What the database itself finds wrong: a kind, a place, what it is; at most so many of a kind."""

    def reconnect(self, engine: sa.Engine, place: str, seconds: float, say: Say) -> Callable[[], None]:
        """Have connections wait so many seconds for a server that does not answer any more; `say` is told in any
        thread. Gives what ends the waiting."""
