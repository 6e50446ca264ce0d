"""Checks of the rows of a store of unknown origin, or of a damaged one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ragrounds.evals.store import schema
from ragrounds.evals.store.attempt_notes import LONGEST_NOTE

_NAMES = frozenset({"id", "question_id", "chosen", "code", "mark"})
"""Columns that tables show unchanged, in addition to those of a key."""
_TYPES: dict[type[Any], tuple[type, ...]] = {
    sa.Text: (str,),
    sa.Integer: (int,),
    sa.Float: (float, int),
    sa.LargeBinary: (bytes,),
}


def check_names(*names: str) -> None:
    """Raise ValueError for names with control characters: tables show names unchanged, and valid ones have none."""
    for name in names:
        if not name.isprintable():
            raise ValueError(f"a name holds control characters: {name!r}")


def check_row(table: sa.Table, row: Any) -> None:
    """Check the kinds of a row's values, and names.

    Raises:
        ValueError: one of them is invalid.
    """
    # SQLite stores any value in any column.
    for column, value in zip(table.columns, row, strict=True):
        if value is None and column.nullable:
            continue
        if not isinstance(value, _TYPES[type(column.type)]) or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{table.name}.{column.name} holds {type(value).__name__} of the wrong kind")
        if isinstance(value, str) and (column.primary_key or column.name in _NAMES):
            check_names(value)
    if table is schema.notes and len(text := row[table.c.keys().index("text")]) > LONGEST_NOTE:
        raise ValueError(f"a note has {len(text):,} characters")
