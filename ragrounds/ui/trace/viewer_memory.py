"""What the viewer remembers from one time to the next: the theme, and what was typed into the filter and the search.

A file of the user's own, `viewer.json` in the home folder. It can be deleted at any time; where it cannot be read or
written, nothing is remembered and nothing else is different.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

_LONGEST = 40
"""Entries that are kept of each history."""
_WIDEST = 2000
"""Characters of an entry."""


class _Remembered(msgspec.Struct):
    theme: str = ""
    filters: list[str] = msgspec.field(default_factory=list)
    texts: list[str] = msgspec.field(default_factory=list)


class ViewerMemory:
    """The theme and the histories; without a file, for this time only."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._kept = _Remembered()
        if file is not None:
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._kept = msgspec.json.decode(file.read_bytes(), type=_Remembered)

    @property
    def theme(self) -> str:
        """The name of the theme that was chosen last; empty: none was."""
        return self._kept.theme

    @property
    def filters(self) -> tuple[str, ...]:
        """Filters that were used, the last one first."""
        return tuple(self._kept.filters)

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts that were searched for, the last one first."""
        return tuple(self._kept.texts)

    def take_theme(self, name: str) -> None:
        """Remember a theme."""
        self._kept.theme = name
        self._write()

    def take_filter(self, where: str) -> None:
        """Remember a filter."""
        self._kept.filters = _first(where, self._kept.filters)
        self._write()

    def take_text(self, text: str) -> None:
        """Remember a text that was searched for."""
        self._kept.texts = _first(text, self._kept.texts)
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        # Written beside and renamed: two viewers at once leave one's or the other's, never half of both.
        beside = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            beside.write_bytes(msgspec.json.format(msgspec.json.encode(self._kept)))
            beside.replace(self._file)


def _first(text: str, kept: list[str]) -> list[str]:
    if not text or len(text) > _WIDEST:
        return kept
    return [text, *(each for each in kept if each != text)][:_LONGEST]
