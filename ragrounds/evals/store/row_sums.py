"""Checksums of rows: a row that makes up a table, a bill or a verdict matches its checksum, or its damage is reported.

A checksum covers all columns of a row except the number of its run or arena, which differs in every store. Its first
half covers the long columns (bodies, requests, responses), its second half all others and the first half: figures are
checked without texts. A row of the table `meta` has its checksum at the end of its value.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

CHECKSUM = "checksum"
_LONG = frozenset({"body", "request", "response"})
_HALF = 4
"""Number of bytes of each half."""
_MARK = "\x1f"
"""Separator of a value in the table `meta` and its checksum: neither a name nor JSON contains it."""
_encode = msgspec.msgpack.Encoder().encode


class _Plan(msgspec.Struct, frozen=True):
    """Columns that the checksum of a table's rows covers."""

    short: tuple[str, ...]
    long: tuple[str, ...]
    floats: tuple[str, ...]
    of_row: itemgetter[Any]
    """Getter of the short columns and the checksum of a row that was read, as a tuple."""
    long_of_row: tuple[int, ...]
    """Positions of the long columns in such a row."""
    new_values: itemgetter[Any]
    """Getter of the same values of a row that is to be written."""


@functools.cache
def _plan(table: sa.Table) -> _Plan:
    summed = [column for column in table.c if not column.foreign_keys and column.name != CHECKSUM]
    short = tuple(column.name for column in summed if column.name not in _LONG)
    long = tuple(column.name for column in summed if column.name in _LONG)
    # A row's values are read by position: by name each costs many times more.
    position_of = table.c.keys().index
    return _Plan(
        short=short,
        long=long,
        floats=tuple(column.name for column in summed if isinstance(column.type, sa.Float)),
        of_row=itemgetter(*map(position_of, (*short, CHECKSUM))),
        long_of_row=tuple(map(position_of, long)),
        new_values=itemgetter(*short, CHECKSUM),
    )


def summed_columns(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """Return the columns by which :func:`is_whole` verifies a row: all short ones, the checksum last."""
    return tuple(table.c[name] for name in (*_plan(table).short, CHECKSUM))


def summed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row, with every column of its table, as it is written: with its checksum."""
    plan, written_row, long = _plan(table), dict(row), 0
    for name in plan.floats:
        if (value := written_row[name]) is not None:
            # SQLite returns an integer as a float, and stores no -0.0.
            written_row[name] = float(value) + 0.0
    for name in plan.long:
        long = zlib.crc32(written_row[name], long)
    written_row[CHECKSUM] = first_half = long.to_bytes(_HALF, "big")
    written_row[CHECKSUM] = first_half + zlib.crc32(_encode(plan.new_values(written_row))).to_bytes(_HALF, "big")
    return written_row


def is_whole(values: Sequence[Any]) -> bool:
    """Return True if values of :func:`summed_columns` match their checksum."""
    try:
        checksum = bytes(values[-1])
        return zlib.crc32(_encode((*values[:-1], checksum[:_HALF]))) == int.from_bytes(checksum[_HALF:], "big")
    except (TypeError, ValueError, OverflowError):  # a value of another kind than was written
        return False


def summed_values(table: sa.Table, row: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values of :func:`summed_columns` in a row of all columns."""
    values: tuple[Any, ...] = _plan(table).of_row(row)
    return values


def is_whole_row(table: sa.Table, row: Sequence[Any], *, long: bool = True) -> bool:
    """Return True if a row of all columns matches its checksum, with or without its long columns."""
    plan, crc = _plan(table), 0
    values = plan.of_row(row)
    if not is_whole(values):
        return False
    try:
        for position in plan.long_of_row if long else ():
            crc = zlib.crc32(row[position], crc)
    except TypeError:
        return False
    return not long or crc.to_bytes(_HALF, "big") == bytes(values[-1])[:_HALF]


def summed_meta(key: str, value: str) -> dict[str, str]:
    """Return a row of the table `meta` as it is written: its value ends with a checksum of both columns."""
    return {"key": key, "value": f"{value}{_MARK}{zlib.crc32(_encode((key, value))):08x}"}


def meta_value(key: str, stored: str) -> str | None:
    """Return a value of the table `meta` without its checksum; ``None`` if the row has changed."""
    value = stored.rpartition(_MARK)[0]
    return value if summed_meta(key, value)["value"] == stored else None
