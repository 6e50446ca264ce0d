"""How a benchmark was made: ``card.json``, with what every stage kept and dropped."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ragrounds.base.records import Run
from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.judges.bill import Bill, bill
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import calls
from ragrounds.extensions.construction.items import INTAKE, SAMPLE, ItemSet
from ragrounds.extensions.construction.outcome import JsonObject
from ragrounds.extensions.construction.pipeline import Pipeline

if TYPE_CHECKING:
    from ragrounds.extensions.construction.pipeline import ItemResult


class Provenance(Struct, frozen=True, kw_only=True):
    """Everything that the result depends on, and what came of each stage."""

    pipeline: str
    source: str
    """The paper that it follows."""
    ragrounds: str
    run: str
    """Whose traces `ragrounds trace` shows."""
    fingerprint: str
    begun: str
    """When the run was begun (UTC)."""
    models: dict[str, str]
    """Role → the model's canonical text, with all its parameters."""
    prompts: dict[str, str]
    """Name → hash."""
    parameters: JsonObject
    retriever: str | None
    corpus: str | None
    items: str
    """What the items were made of."""
    items_version: str
    """Content hash of the items that were drawn."""
    read: int
    seed: int
    limit: int | None
    stages: tuple[StageCount, ...]
    bill: Bill
    """Of all model calls; what is not known of one is not known of the sum."""
    by_model: dict[str, Bill]
    files: dict[str, str] = field(default_factory=dict)
    """Name → SHA-256."""
    figures: JsonObject = field(default_factory=dict)
    """What the pipeline measures beside its benchmark."""
    notes: tuple[str, ...] = ()


class BuiltCard(Struct, frozen=True, kw_only=True):
    """``card.json``. `benchmark` is what :mod:`ragrounds.evals.benchmarks` shows of it."""

    benchmark: Card
    made: Provenance


def provenance(
    store: Store,
    run: Run,
    pipeline: Pipeline,
    item_set: ItemSet,
    stages: Sequence[StageCount],
    *,
    figures: JsonObject | None = None,
    notes: Sequence[str] = (),
) -> Provenance:
    """The card's part on how it was made, from the run's identity and its attempts."""
    identity = run.identity
    asked = [call for attempt in store.attempts(run) for call in calls(attempt.events) if call.kind == "model"]
    asked.sort(key=lambda call: call.actor)
    return Provenance(
        pipeline=pipeline.name,
        source=pipeline.source,
        ragrounds=run.version,
        run=run.id,
        fingerprint=run.fingerprint,
        begun=datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
        models=dict(identity["models"]),
        prompts=dict(identity["prompts"]),
        parameters=dict(identity["parameters"]),
        retriever=identity["retriever"],
        corpus=identity["corpus"],
        items=item_set.items.card.source,
        items_version=item_set.items.version,
        read=item_set.read,
        seed=item_set.seed,
        limit=item_set.limit,
        stages=tuple(stages),
        bill=bill(asked),
        by_model={actor: bill(list(group)) for actor, group in itertools.groupby(asked, key=lambda call: call.actor)},
        figures=figures or {},
        notes=tuple(notes),
    )


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


def count(stages: Sequence[str], item_set: ItemSet, results: Sequence[ItemResult]) -> list[StageCount]:
    """All lines up to the graph's end: intake, sample, run (what failed or was not begun), then the graph's stages.

    A rejection at a place that is none of `stages` (before the first) counts at the first.
    """
    lines = [
        stage_count(INTAKE, item_set.read, (each.reason for each in item_set.dropped)),
        stage_count(SAMPLE, item_set.passed, ["not drawn"] * (item_set.passed - len(item_set.items))),
        stage_count(RUN, len(item_set.items), (each.status for each in results if each.outcome is None)),
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
