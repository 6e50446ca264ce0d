"""What is told of indexes: what they hold, which engines and versions they have."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.tools.index.build_report import BuildReport
from ragrounds.tools.index.collection import Manifest


class IndexDetails(Struct, frozen=True, kw_only=True):
    """An index, whole, half-built or damaged."""

    name: str
    manifest: Manifest | None
    """What it was made from, and how; ``None``: it is half-built or damaged."""
    engines: tuple[EngineSize, ...]
    bytes: int
    """All that it takes on the disk."""
    versions: tuple[IndexVersion, ...] = ()
    """All that are kept; the last is searched."""
    report: BuildReport | None = None
    """What became of every file and row; ``None``: it is half-built or damaged."""
    damage: str = ""
    """Why it cannot be read, and what helps; empty: it can."""

    def fields(self) -> dict[str, Any]:
        """As one flat object for ``--json``; `passages` is ``None`` where it is half-built or damaged."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return {"passages": None} | (told.pop("manifest") or {}) | told


class EngineSize(Struct, frozen=True):
    """A search engine that was built over an index."""

    index: str
    bytes: int


class IndexVersion(Struct, frozen=True, kw_only=True):
    """What an index held at some time."""

    version: str
    """Of the corpus: a run over it names ``NAME@VERSION``."""
    documents: int
    passages: int
    built: float
    """Seconds since the epoch."""
    bytes: int
    runs: tuple[str, ...] = ()
    """The stored runs that searched it."""
