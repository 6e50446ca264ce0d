"""What is told of indexes: what they hold, which engines and generations they have, and why these are kept."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ragrounds.tools.build_report import BuildReport
from ragrounds.tools.collection import Manifest
from ragrounds.tools.collection_builder import building_code
from ragrounds.tools.documents import READINGS


class IndexDetails(Struct, frozen=True, kw_only=True):
    """An index, whole, half-built or damaged."""

    name: str
    manifest: Manifest | None
    """What it was made from, and how; ``None``: it is half-built or damaged."""
    engines: tuple[EngineSize, ...]
    bytes: int
    """All that it takes on the disk."""
    generation: int | None = None
    """The generation that is searched."""
    generations: tuple[IndexGeneration, ...] = ()
    """All that are kept, oldest first."""
    report: BuildReport | None = None
    """What became of every file and row; ``None``: it is half-built or damaged."""
    damage: str = ""
    """Why it cannot be read, and what helps; empty: it can."""

    @property
    def current(self) -> bool | None:
        """Whether the code of now would read and cut the documents as they were; ``None``: that is not known."""
        made = self.manifest
        if made is None or not made.code:
            return None
        return made.code in {building_code(made.chunker, reading) for reading in READINGS}

    def fields(self) -> dict[str, Any]:
        """As one flat object for ``--json``; `passages` is ``None`` where it is half-built or damaged."""
        told = {"name": self.name, "passages": None}
        if self.manifest is not None:
            told |= msgspec.to_builtins(self.manifest) | {"name": self.name}
        kept = {"generation": self.generation, "generations": msgspec.to_builtins(self.generations)}
        engines = {"engines": msgspec.to_builtins(self.engines), "bytes": self.bytes}
        report = {"report": msgspec.to_builtins(self.report)}
        return told | {"current": self.current, "damage": self.damage} | kept | engines | report


class EngineSize(Struct, frozen=True):
    """A search engine that was built over an index."""

    index: str
    bytes: int


class IndexGeneration(Struct, frozen=True, kw_only=True):
    """One state of an index, as it was at some time."""

    number: int
    """From 1; 0: a corpus that is searched without naming it."""
    version: str
    """Of the corpus: a run over it names ``NAME@VERSION``."""
    documents: int
    passages: int
    built: float
    """Seconds since the epoch."""
    change: str
    """What made it: ``build``, ``add`` or ``delete``; empty: not known."""
    added: int = 0
    replaced: int = 0
    removed: int = 0
    unchanged: int = 0
    bytes: int = 0
    searched: bool = False
    """Whether it is the one that is searched."""
    open: bool = False
    """Whether some process has it open."""
    runs: tuple[str, ...] = ()
    """The stored runs that searched it."""

    @property
    def kept(self) -> str:
        """Why it is not pruned; empty: it would be."""
        if self.searched:
            return "searched"
        if self.runs:
            more = f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else ""
            return f"needed by the run {self.runs[0]}{more}"
        return "open in a process" if self.open else ""


class PrunedGeneration(Struct, frozen=True):
    """A generation that was looked at by :func:`prune`."""

    index: str
    generation: IndexGeneration
    removed: bool
