"""What a store asks of a database, and each kind of database does in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import sqlalchemy as sa
from msgspec import Struct

from ragrounds.evals.store.text_folding import TextTerm

AttemptPlace = tuple[int, str, int]
"""The number of a run in its store, a question's id, an epoch."""
Say = Callable[[str], None]


class Document(Struct, frozen=True):
    """Words that join the full-text index."""

    number: int
    fields: Mapping[str, str]
    """Field → folded text."""


class Words(Protocol):
    """The full-text index: words of numbered documents, in :data:`ragrounds.evals.store.schema.TEXT_FIELDS`."""

    def there(self, connection: sa.Connection) -> bool:
        """Whether the store has one."""

    def make(self, connection: sa.Connection) -> None:
        """Make an empty one, where the database can."""

    def clear(self, connection: sa.Connection) -> None:
        """Empty it, also where it is damaged."""

    def is_damage(self, error: sa.exc.DatabaseError) -> bool:
        """Whether an error says that it is not what was written."""

    def newest(self, connection: sa.Connection) -> int:
        """The largest number of a document; 0: it has none."""

    def documents(self, connection: sa.Connection) -> int:
        """How many documents it holds."""

    def count(self, connection: sa.Connection) -> int:
        """How many different words it holds."""

    def add(self, connection: sa.Connection, documents: Sequence[Document]) -> None:
        """Add documents, whose numbers ascend and are beyond the newest."""

    def find(self, connection: sa.Connection, term: TextTerm, fields: Sequence[str]) -> Iterable[int]:
        """The documents that hold a term in one of some fields, each once."""


class Dialect(Protocol):
    """One kind of database."""

    changes: str
    """The statement that reads a number which grows when another connection has written attempts or scores."""
    binary: str
    """The collation that orders texts by their code points."""

    @property
    def words(self) -> Words:
        """The full-text index."""

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
