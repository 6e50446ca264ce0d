"""Details of indexes for display: their contents, engines and versions."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.tools.index.build_report import BuildReport
from ragrounds.tools.index.collection import Manifest


class IndexDetails(Struct, frozen=True, kw_only=True):
    """Details of an index: complete, half-built or damaged."""

    name: str
    manifest: Manifest | None
    """Description of the collection; ``None`` if it is half-built or damaged."""
    engines: tuple[EngineSize, ...]
    bytes: int
    """Bytes that the index takes on the disk in all."""
    versions: tuple[IndexVersion, ...] = ()
    """All stored versions. The last is searched."""
    report: BuildReport | None = None
    """Outcomes of every file and row; ``None`` if the index is half-built or damaged."""
    damage: str = ""
    """Reason why the index cannot be read, and what helps; empty if it can be read."""

    def fields(self) -> dict[str, Any]:
        """Return the details as a flat object for ``--json``.

        `passages` is ``None`` if the index is half-built or damaged.
        """
        columns: dict[str, Any] = msgspec.to_builtins(self)
        return {"passages": None} | (columns.pop("manifest") or {}) | columns


class EngineSize(Struct, frozen=True):
    """A search engine that was built over an index."""

    index: str
    bytes: int


class IndexVersion(Struct, frozen=True, kw_only=True):
    """A version of an index."""

    version: str
    """Version of the corpus. A run over it names ``NAME@VERSION``."""
    documents: int
    passages: int
    built: float
    """Seconds since the epoch."""
    bytes: int
    runs: tuple[str, ...] = ()
    """Stored runs that searched this version."""
