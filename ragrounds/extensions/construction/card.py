"""Card of a built benchmark, ``card.json``: its provenance, with the numbers that every stage kept and dropped."""

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
    """Everything that a built benchmark depends on, and the results of each stage."""

    pipeline: str
    source: str
    """Paper that the pipeline follows."""
    ragrounds: str
    run: str
    """Id of the run, whose traces `ragrounds trace` shows."""
    fingerprint: str
    begun: str
    """Time at which the run was started (UTC)."""
    models: dict[str, str]
    """Role → canonical text of the model, with all its parameters."""
    prompts: dict[str, str]
    """Name of the prompt → hash."""
    parameters: JsonObject
    retriever: str | None
    corpus: str | None
    items: str
    """Source of the items."""
    items_version: str
    """Content hash of the sampled items."""
    read: int
    seed: int
    limit: int | None
    stages: tuple[StageCount, ...]
    bill: Bill
    """Bill of all model calls. A value that is unknown for one call is unknown for the sum."""
    by_model: dict[str, Bill]
    files: dict[str, str] = field(default_factory=dict)
    """Name of the file → SHA-256."""
    figures: JsonObject = field(default_factory=dict)
    """Figures that the pipeline measures in addition to its benchmark."""
    notes: tuple[str, ...] = ()


class BuiltCard(Struct, frozen=True, kw_only=True):
    """Contents of ``card.json``. :mod:`ragrounds.evals.benchmarks` shows its part `benchmark`."""

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
    """Return the card's provenance, from the run's identity and its attempts."""
    identity = run.identity
    model_calls = [call for attempt in store.attempts(run) for call in calls(attempt.events) if call.kind == "model"]
    model_calls.sort(key=lambda call: call.actor)
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
        bill=bill(model_calls),
        by_model={
            actor: bill(list(group)) for actor, group in itertools.groupby(model_calls, key=lambda call: call.actor)
        },
        figures=figures or {},
        notes=tuple(notes),
    )


RUN = "run"


class StageCount(Struct, frozen=True, kw_only=True):
    """Numbers of items that entered a stage and that it kept."""

    stage: str
    entered: int
    kept: int
    dropped: dict[str, int]
    """Reason → number of items, most frequent first. The sum is ``entered - kept``."""


def stage_count(stage: str, entered: int, reasons: Iterable[str]) -> StageCount:
    """Return the counts of one stage, from a reason for each item that is dropped."""
    dropped = Counter(reasons)
    ordered = dict(sorted(dropped.items(), key=lambda entry: (-entry[1], entry[0])))
    return StageCount(stage=stage, entered=entered, kept=entered - dropped.total(), dropped=ordered)


def count(stages: Sequence[str], item_set: ItemSet, results: Sequence[ItemResult]) -> list[StageCount]:
    """Return the counts of all stages up to the graph's end: intake, sample, run, then the graph's stages.

    Items that failed or were not started are dropped at the stage run. A rejection outside of `stages` (before the
    first one) counts at the first.
    """
    lines = [
        stage_count(INTAKE, item_set.read, (drop.reason for drop in item_set.dropped)),
        stage_count(SAMPLE, item_set.passed, ["not sampled"] * (item_set.passed - len(item_set.items))),
        stage_count(
            RUN, len(item_set.items), (item_result.status for item_result in results if item_result.outcome is None)
        ),
    ]
    outcomes = [item_result.outcome for item_result in results if item_result.outcome is not None]
    remaining = len(outcomes)
    for number, stage in enumerate(stages):
        reasons = [
            outcome.reason
            for outcome in outcomes
            if not outcome.kept and (outcome.stage == stage or (number == 0 and outcome.stage not in stages))
        ]
        lines.append(stage_count(stage, remaining, reasons))
        remaining = lines[-1].kept
    return lines
