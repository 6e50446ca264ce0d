"""What became of an item: kept with its product, or rejected at a stage for a reason. It is the answer text of the
item's attempt."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from ragrounds.evals.store.traces import node_path
from ragrounds.records import Attempt, Gold, Question, Score

PROTOCOL = "kept"
REFUSED = "refused by the provider"
CAPPED = "the item's cap was reached"
_UNREADABLE = "the pipeline gave no outcome"


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an item that was answered for good."""

    kept: bool
    product: dict[str, Any] = field(default_factory=dict)
    """What the pipeline made of it, where it is kept."""
    stage: str = ""
    """Where it was rejected."""
    reason: str = ""
    """One of a few: they are counted."""
    detail: str = ""
    """The case itself: what a model said, which check failed."""


def encode(outcome: Outcome) -> str:
    """As the text of an attempt."""
    return msgspec.json.encode(outcome).decode()


def read_outcome(attempt: Attempt) -> Outcome | None:
    """The outcome of an attempt; ``None``: it failed or was not run, and may be tried again."""
    if attempt.status in ("failed", "not_run"):
        return None
    if attempt.status != "completed":
        nodes = node_path(attempt.events)
        reason = REFUSED if attempt.status == "blocked" else CAPPED
        return Outcome(kept=False, stage=nodes[-1] if nodes else "", reason=reason, detail=attempt.reason)
    try:
        return msgspec.json.decode(attempt.text, type=Outcome)
    except msgspec.MsgspecError as error:
        return Outcome(kept=False, reason=_UNREADABLE, detail=str(error))


class KeptScorer(Struct, frozen=True):
    """Scores 1 for a kept item and 0 for a rejected one, so that progress, traces and tables show them apart."""

    scorer: str = PROTOCOL

    def score(self, attempt: Attempt, question: Question, gold: Gold) -> Score:
        outcome = read_outcome(attempt)
        return Score(
            question_id=attempt.question_id,
            epoch=attempt.epoch,
            scorer=self.scorer,
            value=None if outcome is None else float(outcome.kept),
            answer_status="empty" if outcome is None else "refused" if attempt.status == "blocked" else "answered",
            prediction="" if outcome is None else "kept" if outcome.kept else f"rejected: {outcome.stage}",
            reason=attempt.reason if outcome is None else f"{outcome.reason}: {outcome.detail}".strip(": "),
        )
