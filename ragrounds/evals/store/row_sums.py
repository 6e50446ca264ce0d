"""Check sums of rows: what a table, a bill or a verdict is made of is what was written, or its damage is named.

A sum is of all columns of a row but two: the number of its run or arena, which is another one in every store, and the
digest of the code that made a score, which is made again where that is another. Its first half is of what is long
(bodies, requests, responses), its second of everything else and of the first: figures are checked without texts.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

CHECKSUM = "checksum"
_LONG = frozenset({"body", "request", "response"})
_HALF = 4
"""Bytes."""
_encode = msgspec.msgpack.Encoder().encode


class _Plan(msgspec.Struct, frozen=True):
    """What the sum of a table's rows is of."""

    short: tuple[str, ...]
    long: tuple[str, ...]
    floats: tuple[str, ...]
    of_row: attrgetter[Any]
    """The short columns and the sum of a row that was read, as a tuple."""
    given: itemgetter[Any]
    """The same of one that is to be written."""


@functools.cache
def _plan(table: sa.Table) -> _Plan:
    summed = [column for column in table.c if not column.foreign_keys and column.name not in (CHECKSUM, "code")]
    short = tuple(column.name for column in summed if column.name not in _LONG)
    return _Plan(
        short=short,
        long=tuple(column.name for column in summed if column.name in _LONG),
        floats=tuple(column.name for column in summed if isinstance(column.type, sa.Float)),
        of_row=attrgetter(*short, CHECKSUM),
        given=itemgetter(*short, CHECKSUM),
    )


def summed_columns(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """The columns by which :func:`is_whole` tells whether a row is what was written: all short ones, the sum last."""
    return tuple(table.c[name] for name in (*_plan(table).short, CHECKSUM))


def summed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row, with every column of its table, as it is written: with its sum."""
    plan, kept, long = _plan(table), dict(row), 0
    for name in plan.floats:
        if (value := kept[name]) is not None:
            # SQLite gives a whole number back as a float, and keeps no -0.0.
            kept[name] = float(value) + 0.0
    for name in plan.long:
        long = zlib.crc32(kept[name], long)
    kept[CHECKSUM] = first = long.to_bytes(_HALF, "big")
    kept[CHECKSUM] = first + zlib.crc32(_encode(plan.given(kept))).to_bytes(_HALF, "big")
    return kept


def is_whole(values: Sequence[Any]) -> bool:
    """Whether values of :func:`summed_columns` are what was written."""
    try:
        checksum = bytes(values[-1])
        return int.from_bytes(checksum[_HALF:], "big") == zlib.crc32(_encode((*values[:-1], checksum[:_HALF])))
    except (TypeError, ValueError, OverflowError):  # a value of another kind than was written
        return False


def is_whole_row(table: sa.Table, row: Any, *, long: bool = True) -> bool:
    """Whether a row is what was written; its long columns too, or the others alone."""
    plan, found = _plan(table), 0
    if not is_whole(plan.of_row(row)):
        return False
    try:
        for name in plan.long if long else ():
            found = zlib.crc32(getattr(row, name), found)
    except TypeError:
        return False
    return not long or found.to_bytes(_HALF, "big") == bytes(row.checksum)[:_HALF]
