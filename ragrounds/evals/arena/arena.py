"""What an arena is: who plays, on what, judged how. Equal settings are the same arena, which goes on."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec
from msgspec import Struct

from ragrounds.evals.arena.axes import Axis

Orders = Literal["both", "one"]
Calls = Literal["together", "apart"]
Part = Literal["whole", "final"]


class System(Struct, frozen=True, kw_only=True):
    """One contestant: a stored run, or the benchmark's own reference answers."""

    name: str
    run: str = ""
    """The run's id; empty for reference answers."""
    model: str = ""
    """The answering model's canonical text, to see whether a judge favours its own."""


class Arena(Struct, frozen=True, kw_only=True):
    """The settings that decide which calls are made and how they are read."""

    systems: tuple[System, ...]
    benchmark: str
    questions: str
    """Hash of the questions that all systems answered, and of the answers."""
    count: int
    axes: tuple[Axis, ...]
    judges: tuple[str, ...]
    """Canonical texts of the models."""
    prompts: dict[str, str]
    """Prompt → hash."""
    calls: Calls = "together"
    """One call for all axes, or one for each, as published."""
    orders: Orders = "both"
    tries: int = 3
    part: Part = "whole"
    epoch: int = 0
    schedule: str = "published"
    least: int = 80
    confidence: float = 0.95
    seed: int = 0

    @property
    def fingerprint(self) -> str:
        """Hash of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    @property
    def id(self) -> str:
        """A short name for commands."""
        return f"arena-{self.fingerprint[:8]}"

    @property
    def names(self) -> tuple[str, ...]:
        """The systems' names."""
        return tuple(system.name for system in self.systems)

    @property
    def parts(self) -> tuple[tuple[Axis, ...], ...]:
        """The axes of each call."""
        return (self.axes,) if self.calls == "together" else tuple((axis,) for axis in self.axes)
