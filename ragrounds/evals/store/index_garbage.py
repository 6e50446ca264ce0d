"""Documents of the full-text index that no attempt has any more: of retries, of removed runs, of their passages.

PostgreSQL removes them. SQLite's index keeps no text, and can take a document out only by its text: it is emptied as a
whole where no attempt has the larger part of it, and made again.
"""

from __future__ import annotations

import numpy as np
import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.database import is_sqlite
from ragrounds.evals.store.text_index import Documents, clear, has_words, packed_documents, renew_edition

_CHUNK = 500
_A, _S = schema.text_attempts, schema.text_shared


def removable_documents(connection: sa.Connection) -> int:
    """How many documents of the index no attempt has, as far as they would be removed."""
    named, unnamed = _count(connection) if has_words(connection) else (0, 0)
    return unnamed if unnamed > named or not is_sqlite(connection.engine) else 0


def _count(connection: sa.Connection) -> tuple[int, int]:
    """How many documents attempts have, and how many none has."""
    own, shared = _named(connection)
    counted = "*" if is_sqlite(connection.engine) else "DISTINCT doc"
    there = connection.exec_driver_sql(f"SELECT count({counted}) FROM {schema.WORDS}").scalar_one()  # noqa: S608
    named = own + len(shared)
    return named, max(0, int(there) - named)


def remove_documents(connection: sa.Connection) -> bool:
    """Remove documents that no attempt has.

    Returns:
        Whether all of it was removed, and is to be made again.
    """
    if not has_words(connection):
        return False
    named, unnamed = _count(connection)
    if is_sqlite(connection.engine) and unnamed > named:
        clear(connection)
        return named > 0
    _, used = _named(connection)
    held = {bytes(row.hash): row.doc for row in connection.execute(sa.select(_S))}
    numbers = np.fromiter(held.values(), np.uint32, len(held))
    gone = [name for name, kept in zip(held, np.isin(numbers, used), strict=True) if not kept]
    for start in range(0, len(gone), _CHUNK):
        connection.execute(sa.delete(_S).where(_S.c.hash.in_(gone[start : start + _CHUNK])))
    if gone:
        renew_edition(connection)
    if not is_sqlite(connection.engine):
        words = sa.table(schema.WORDS, sa.column("doc"))
        own = sa.exists().where(_A.c.doc == words.c.doc)
        shared = sa.exists().where(_S.c.doc == words.c.doc)
        connection.execute(sa.delete(words).where(~own, ~shared))
    return False


def _named(connection: sa.Connection) -> tuple[int, Documents]:
    """How many attempts are indexed, and the shared documents that they have."""
    rows = connection.execute(sa.select(_A.c.question, _A.c.passages)).all()
    questions = np.fromiter((row.question or 0 for row in rows), np.uint32, len(rows))
    passages = packed_documents(b"".join(bytes(row.passages) for row in rows))
    shared = np.unique(np.concatenate((questions, passages)))
    return len(rows), shared[shared > 0]
