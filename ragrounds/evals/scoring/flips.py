"""What a refinement did: the first answer of an attempt against its last, under one protocol (CoT-Refine's R0)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.contracts import Scorer
from ragrounds.records import Attempt, Gold, Left, Question


class Flips(Struct, frozen=True, kw_only=True):
    """Attempts by what became of their first answer. Right is a value of 1.0."""

    protocol: str
    right_right: int = 0
    right_wrong: int = 0
    wrong_right: int = 0
    wrong_wrong: int = 0
    changed: int = 0
    """Attempts whose prediction changed, right or wrong."""
    without: int = 0
    """Attempts without a first answer, or without a score of either; they are in no other figure."""

    @property
    def net(self) -> int:
        """Right answers gained, less those lost."""
        return self.wrong_right - self.right_wrong


def first_answer(attempt: Attempt, key: str = "first") -> str | None:
    """What a node wrote to the state under `key`, the first time it did; ``None`` where none has."""
    for event in attempt.events:
        if isinstance(event, Left) and isinstance(event.changes.get(key), str):
            return str(event.changes[key])
    return None


def flips(
    attempts: Iterable[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    scorer: Scorer,
    key: str = "first",
) -> Flips:
    """Count how a refinement moved answers between right and wrong."""
    counts = dict.fromkeys(("right_right", "right_wrong", "wrong_right", "wrong_wrong", "changed", "without"), 0)
    for attempt in attempts:
        question, gold = questions[attempt.question_id], golds[attempt.question_id]
        first = first_answer(attempt, key)
        before = None if first is None else scorer.score(replace(attempt, text=first), question, gold)
        after = scorer.score(attempt, question, gold)
        if before is None or before.value is None or after.value is None:
            counts["without"] += 1
            continue
        names = ("right" if score.value == 1.0 else "wrong" for score in (before, after))
        counts["_".join(names)] += 1
        counts["changed"] += before.prediction != after.prediction
    return Flips(protocol=scorer.protocol, **counts)
