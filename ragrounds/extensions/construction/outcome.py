"""Outcome of an item: kept with its product, or rejected at a stage for a reason. It is the answer text of the item's
attempt."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from ragrounds.base.records import AnswerStatus, Attempt, Gold, Kind, Question, Score
from ragrounds.evals.scorers.answer_status import AnswerRead
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.trace.traces import node_path

KEPT = "kept"
REFUSED = "refused by the provider"
CAPPED = "the item's cap was reached"
_UNREADABLE = "the pipeline gave no outcome"

JsonObject = dict[str, Any]
"""JSON object whose fields depend on its pipeline: a product, figures of a card, a row of a file."""


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Final outcome of an item."""

    kept: bool
    product: JsonObject = field(default_factory=dict)
    """Product of the pipeline, if the item is kept."""
    stage: str = ""
    """Stage that rejected the item."""
    reason: str = ""
    """Reason from a small set: reasons are counted."""
    detail: str = ""
    """Details of the case: a model's reply, the check that failed."""


def encode(outcome: Outcome) -> str:
    """Return the outcome as the text of an attempt."""
    return msgspec.json.encode(outcome).decode()


def read_outcome(attempt: Attempt) -> Outcome | None:
    """Return the outcome of an attempt; ``None`` if it failed or was not run, and may be tried again."""
    if attempt.status in ("failed", "not_run"):
        return None
    if attempt.status != "completed":
        nodes = node_path(attempt.events)
        reason = REFUSED if attempt.status == "blocked" else CAPPED
        return Outcome(kept=False, stage=nodes[-1] if nodes else "", reason=reason, detail=attempt.reason)
    try:
        return msgspec.json.decode(attempt.text, type=Outcome)
    except (msgspec.MsgspecError, RecursionError) as error:
        return Outcome(kept=False, reason=_UNREADABLE, detail=str(error))


class KeptScorer(ScorerRecord, frozen=True, kw_only=True):
    """Scorer that gives 1 to a kept item and 0 to a rejected one, so that progress, traces and tables distinguish
    them."""

    name: str = KEPT
    summary: str = "share of the items that were kept"
    method: str = "the share of items that the pipeline kept"
    kinds: tuple[Kind, ...] = ("choice", "long", "extraction")
    reads: str = "the outcome of the pipeline"

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        """Return 1.0, 0.0, or no value if the outcome cannot be read. The prediction states the outcome."""
        outcome = read_outcome(attempt)
        status: AnswerStatus = "answered"
        if outcome is None:
            status = "empty"
        elif attempt.status == "blocked":
            status = "refused"
        prediction = "" if outcome is None else "kept" if outcome.kept else f"rejected: {outcome.stage}"
        reason = attempt.reason if outcome is None else f"{outcome.reason}: {outcome.detail}".strip(": ")
        return self.scored(
            attempt, None if outcome is None else float(outcome.kept), AnswerRead(status), prediction, reason
        )
