"""The rows on the pages of a SQLite file, read one page after the other: what is damaged hides nothing that is not.

The format: https://www.sqlite.org/fileformat2.html (sections 1.5 and 1.6: b-tree pages and overflow; 2.1: records).
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLE, _INDEX, _INDEX_INNER, _TABLE_INNER = 0x0D, 0x0A, 0x02, 0x05
"""Kinds of pages, by their first byte. Tables without rowids are kept as indexes, whose inner pages hold rows, too."""
_HEAD = 8
"""Bytes of a page's header; an inner one has four more."""
_CONSTANT = {0: None, 8: 0, 9: 1}
"""Kinds of values that take no bytes."""
_BROKEN = (IndexError, struct.error, ValueError, OverflowError)
"""What reading garbage raises."""


class Pages:
    """The pages of a file.

    Args:
        path: the file.
        size: bytes of a page, where the file's own header cannot be believed.
    """

    def __init__(self, path: Path, size: int) -> None:
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        told = int.from_bytes(self._data[16:18], "big")
        self._size = told if self._data[:15] == b"SQLite format 3" and told >= 512 and not told & (told - 1) else size
        self._count = len(self._data) // self._size
        self._free = set(self._freed())
        self._seen = {1, *self._free}

    def rows(self) -> Iterator[tuple[int | None, list[Any]]]:
        """Each row that can be read: its rowid, of a table that has them, and its values."""
        for number in range(2, self._count + 1):
            page = self._page(number)
            if number in self._free or page[0] not in (_TABLE, _INDEX, _INDEX_INNER, _TABLE_INNER):
                continue
            self._seen.add(number)
            start = _HEAD + (4 if page[0] in (_INDEX_INNER, _TABLE_INNER) else 0)
            count = min(int.from_bytes(page[3:5], "big"), (self._size - start) // 2)
            for place in struct.unpack_from(f">{count}H", page, start) if page[0] != _TABLE_INNER else ():
                try:
                    yield self._cell(page, place)
                except _BROKEN:
                    continue

    @property
    def unread(self) -> int:
        """Pages that hold nothing that could be read and are not free, after all rows were."""
        return self._count - len(self._seen)

    def close(self) -> None:
        """Let go of the file."""
        self._data.close()

    def _page(self, number: int) -> bytes:
        if not 1 <= number <= self._count:
            raise ValueError(f"there is no page {number}")
        return self._data[(number - 1) * self._size : number * self._size]

    def _freed(self) -> Iterator[int]:
        """The pages of the list of free ones: what is left on them was removed."""
        trunk, met = int.from_bytes(self._data[32:36], "big"), set[int]()
        while 1 < trunk <= self._count and trunk not in met:
            met.add(trunk)
            page = self._page(trunk)
            following, count = struct.unpack_from(">2I", page)
            if count > self._size // 4 - 2:
                return
            yield from (trunk, *struct.unpack_from(f">{count}I", page, 8))
            trunk = following

    def _cell(self, page: bytes, at: int) -> tuple[int | None, list[Any]]:
        """The row of a cell."""
        at += 4 if page[0] == _INDEX_INNER else 0
        length, at = _varint(page, at)
        rowid, at = _varint(page, at) if page[0] == _TABLE else (None, at)
        least = (self._size - 12) * 32 // 255 - 23
        most = self._size - 35 if page[0] == _TABLE else (self._size - 12) * 64 // 255 - 23
        here = length
        if length > most:
            here = least + (length - least) % (self._size - 4)
            here = here if here <= most else least
        if length > len(self._data) or at + here > self._size:
            raise ValueError("a row is longer than its page")
        parts, following = [page[at : at + here]], 0
        if length > here:
            following = int.from_bytes(page[at + here : at + here + 4], "big")
        while (left := length - here) > 0:
            over = self._page(following)
            self._seen.add(following)
            parts.append(over[4 : 4 + left])
            here, following = here + len(parts[-1]), int.from_bytes(over[:4], "big")
        return rowid, _values(b"".join(parts))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends."""
    value = 0
    for place in range(at, at + 8):
        value = value << 7 | data[place] & 0x7F
        if data[place] < 0x80:
            return value, place + 1
    return value << 8 | data[at + 8], at + 9


def _values(record: bytes) -> list[Any]:
    """The values of a record: each has a number in the head that says its kind and length."""
    end, at = _varint(record, 0)
    kinds: list[int] = []
    while at < end:
        kind, at = _varint(record, at)
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
