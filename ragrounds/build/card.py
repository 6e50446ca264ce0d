"""How a benchmark was made: the card that stands beside its files."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from ragrounds.build.counting import StageCount
from ragrounds.build.intake import Intake
from ragrounds.build.pipeline import Pipeline
from ragrounds.evals.benchmarks.cards import Card
from ragrounds.evals.judges.bill import Bill, bill
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from ragrounds.records import Run


class Made(Struct, frozen=True, kw_only=True):
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
    parameters: dict[str, Any]
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
    figures: dict[str, Any] = field(default_factory=dict)
    """What the pipeline measures beside its benchmark."""
    notes: tuple[str, ...] = ()


class BuiltCard(Struct, frozen=True, kw_only=True):
    """``card.json``. `benchmark` is what :mod:`ragrounds.evals.benchmarks` shows of it."""

    benchmark: Card
    made: Made


def made_by(
    store: Store,
    run: Run,
    pipeline: Pipeline,
    intake: Intake,
    stages: Sequence[StageCount],
    *,
    figures: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> Made:
    """The card's part on how it was made, from the run's identity and its attempts."""
    identity = run.identity
    asked = [call for attempt in store.attempts(run) for call in calls(attempt.events) if call.kind == "model"]
    asked.sort(key=lambda call: call.actor)
    return Made(
        pipeline=pipeline.name,
        source=pipeline.source,
        ragrounds=str(identity["ragrounds"]),
        run=run.id,
        fingerprint=run.fingerprint,
        begun=datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
        models=dict(identity["models"]),
        prompts=dict(identity["prompts"]),
        parameters=dict(identity["parameters"]),
        retriever=identity["retriever"],
        corpus=identity["corpus"],
        items=intake.items.card.source,
        items_version=intake.items.version,
        read=intake.read,
        seed=intake.seed,
        limit=intake.limit,
        stages=tuple(stages),
        bill=bill(asked),
        by_model={actor: bill(list(group)) for actor, group in itertools.groupby(asked, key=lambda call: call.actor)},
        figures=figures or {},
        notes=tuple(notes),
    )
