"""Counts kept and dropped at every stage. Each line's `kept` is the next line's `entered`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ragrounds.build.intake import INTAKE, SAMPLE, Intake

if TYPE_CHECKING:
    from ragrounds.build.running import Result

RUN = "run"


class StageCount(Struct, frozen=True, kw_only=True):
    """What a stage was given and what it let through."""

    stage: str
    entered: int
    kept: int
    dropped: dict[str, int]
    """Reason → items, most first. ``entered - kept`` in all."""


def stage_count(stage: str, entered: int, reasons: Iterable[str]) -> StageCount:
    """One line, from a reason for each item that is dropped."""
    dropped = Counter(reasons)
    ordered = dict(sorted(dropped.items(), key=lambda entry: (-entry[1], entry[0])))
    return StageCount(stage=stage, entered=entered, kept=entered - dropped.total(), dropped=ordered)


def count(stages: Sequence[str], intake: Intake, results: Sequence[Result]) -> list[StageCount]:
    """All lines up to the graph's end: intake, sample, run (what failed or was not begun), then the graph's stages.

    A rejection at a place that is none of `stages` (before the first) counts at the first.
    """
    lines = [
        stage_count(INTAKE, intake.read, (each.reason for each in intake.dropped)),
        stage_count(SAMPLE, intake.passed, ["not drawn"] * (intake.passed - len(intake.items))),
        stage_count(RUN, len(intake.items), (each.status for each in results if each.outcome is None)),
    ]
    ended = [each.outcome for each in results if each.outcome is not None]
    here = len(ended)
    for number, stage in enumerate(stages):
        reasons = [
            each.reason
            for each in ended
            if not each.kept and (each.stage == stage or (number == 0 and each.stage not in stages))
        ]
        lines.append(stage_count(stage, here, reasons))
        here = lines[-1].kept
    return lines
