"""The journal as one judging sees it: its calls say who pays for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.contracts import Entry, Journal

T = TypeVar("T", bound=Struct)


class Paying:
    """A journal whose calls carry the mark `payer` (contract: :class:`ragrounds.contracts.Journal`).

    What a killed process paid under this mark counts as paid now, once, unless it is `settled`: keys (hexadecimal) of
    the calls that already stand in a bill. `earlier` are the keys of such calls that were asked for: paid for, but not
    made by this process.
    """

    def __init__(self, journal: Journal, payer: bytes, settled: Collection[str] = ()) -> None:
        self._journal, self._payer, self._settled = journal, payer, set(settled)
        self.earlier: set[str] = set()

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """See the contract."""
        called = False

        async def making() -> T:
            nonlocal called
            called = True
            return await make()

        response, cached = await self._journal.once(replace(entry, payer=self._payer), making, kind)
        cached = cached or entry.key in self._settled
        self._settled.add(entry.key)
        if not cached and not called:
            self.earlier.add(entry.key)
        return response, cached
