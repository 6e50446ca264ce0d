"""Rows on the pages of a SQLite file, read one page after the other, so that damage on one page does not affect others.

The format: https://www.sqlite.org/fileformat2.html (sections 1.5 and 1.6: b-tree pages and overflow; 2.1: records).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLE, _INDEX, _INDEX_INNER, _TABLE_INNER = 0x0D, 0x0A, 0x02, 0x05
"""Kinds of pages, by their first byte. Tables without rowids are stored as indexes, whose inner pages contain rows,
too.
"""
_HEAD = 8
"""Number of bytes of a page's header; an inner one has four more."""
_CONSTANT = {0: None, 8: 0, 9: 1}
"""Kinds of values that take no bytes."""
_BROKEN = (IndexError, struct.error, ValueError, OverflowError)
"""Exceptions that are raised by reading garbage."""


class Pages:
    """Pages of a file.

    Args:
        path: the file.
        size: bytes of a page, used if the file's own header is invalid.
    """

    def __init__(self, path: Path, size: int) -> None:
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        header_size = int.from_bytes(self._data[16:18], "big")
        self._size = (
            header_size
            if self._data[:15] == b"SQLite format 3" and header_size >= 512 and not header_size & (header_size - 1)
            else size
        )
        self._count = len(self._data) // self._size
        self._free = set(self._freed())
        self._seen = {1, *self._free}

    def rows(self) -> Iterator[tuple[int | None, list[Any]]]:
        """Yield each row that can be read: its rowid, for a table with rowids, and its values."""
        for number in range(2, self._count + 1):
            page = self._page(number)
            if number in self._free or page[0] not in (_TABLE, _INDEX, _INDEX_INNER, _TABLE_INNER):
                continue
            self._seen.add(number)
            start = _HEAD + (4 if page[0] in (_INDEX_INNER, _TABLE_INNER) else 0)
            count = min(int.from_bytes(page[3:5], "big"), (self._size - start) // 2)
            for offset in struct.unpack_from(f">{count}H", page, start) if page[0] != _TABLE_INNER else ():
                try:
                    yield self._cell(page, offset)
                except _BROKEN:
                    continue

    @property
    def unread(self) -> int:
        """Return the number of pages that are not free and on which nothing could be read, after all rows were read."""
        return self._count - len(self._seen)

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self._count:
            raise ValueError(f"there is no page {number}")
        return self._data[(number - 1) * self._size : number * self._size]

    def _freed(self) -> Iterator[int]:
        """Yield the pages of the free list: rows on them were removed."""
        trunk, seen = int.from_bytes(self._data[32:36], "big"), set[int]()
        while 1 < trunk <= self._count and trunk not in seen:
            seen.add(trunk)
            page = self._page(trunk)
            next_trunk, count = struct.unpack_from(">2I", page)
            if count > self._size // 4 - 2:
                return
            yield from (trunk, *struct.unpack_from(f">{count}I", page, 8))
            trunk = next_trunk

    def _cell(self, page: bytes, offset: int) -> tuple[int | None, list[Any]]:
        """Return the row of a cell."""
        offset += 4 if page[0] == _INDEX_INNER else 0
        length, offset = _varint(page, offset)
        rowid, offset = _varint(page, offset) if page[0] == _TABLE else (None, offset)
        min_local = (self._size - 12) * 32 // 255 - 23
        max_local = self._size - 35 if page[0] == _TABLE else (self._size - 12) * 64 // 255 - 23
        n_read = length
        if length > max_local:
            n_read = min_local + (length - min_local) % (self._size - 4)
            n_read = n_read if n_read <= max_local else min_local
        if length > len(self._data) or offset + n_read > self._size:
            raise ValueError("a row is longer than its page")
        parts, next_page = [page[offset : offset + n_read]], 0
        if length > n_read:
            next_page = int.from_bytes(page[offset + n_read : offset + n_read + 4], "big")
        while (remaining := length - n_read) > 0:
            overflow_page = self._page(next_page)
            self._seen.add(next_page)
            parts.append(overflow_page[4 : 4 + remaining])
            n_read, next_page = n_read + len(parts[-1]), int.from_bytes(overflow_page[:4], "big")
        return rowid, _values(b"".join(parts))


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Decode a number of one to nine bytes, and return it with the offset of its end."""
    value = 0
    for position in range(offset, offset + 8):
        value = value << 7 | data[position] & 0x7F
        if data[position] < 0x80:
            return value, position + 1
    return value << 8 | data[offset + 8], offset + 9


def _values(record: bytes) -> list[Any]:
    """Decode the values of a record: each has a number in the header that gives its kind and length."""
    end, offset = _varint(record, 0)
    kinds: list[int] = []
    while offset < end:
        kind, offset = _varint(record, offset)
        kinds.append(kind)
    values: list[Any] = []
    for kind in kinds:
        length = (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]
        raw = record[end : end + length]
        if len(raw) < length:
            raise ValueError("a record is cut")
        end += length
        if kind >= 12:
            values.append(raw.decode() if kind % 2 else raw)
        elif kind == 7:
            values.append(struct.unpack(">d", raw)[0])
        elif kind in _CONSTANT:
            values.append(_CONSTANT[kind])
        else:
            values.append(int.from_bytes(raw, "big", signed=True))
    return values
