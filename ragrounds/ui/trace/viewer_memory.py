"""What the viewer remembers from one time to the next: the theme, and what was typed into the filter.

A file of the user's own, `viewer.json` in the home folder. It can be deleted at any time; where it cannot be read or
written, nothing is remembered and nothing else is different.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

_LONGEST = 40
"""Filters that are kept."""
_WIDEST = 2000
"""Characters of one."""


class ViewerMemory:
    """The theme and the filters; without a file, for this time only."""

    class _Remembered(msgspec.Struct):
        theme: str = ""
        filters: list[str] = msgspec.field(default_factory=list)

    def __init__(self, file: Path | None = None) -> None:
        self._file, kept = file, self._Remembered()
        if file is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                kept = msgspec.json.decode(file.read_bytes(), type=self._Remembered)
        self.theme = kept.theme
        """The name of the theme that was chosen last; empty: none was."""
        self.filters = tuple(kept.filters)
        """Filters that were used, the last one first."""

    def take(self, *, theme: str = "", where: str = "") -> None:
        """Remember a theme, or a filter."""
        self.theme = theme or self.theme
        if where and len(where) <= _WIDEST:
            self.filters = tuple(dict.fromkeys((where, *self.filters)))[:_LONGEST]
        if self._file is None:
            return
        # Written beside and renamed: two viewers at once leave one's or the other's, never half of both.
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            kept = self._Remembered(theme=self.theme, filters=list(self.filters))
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(kept)))
            beside.replace(self._file)
