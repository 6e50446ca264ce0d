"""What a refinement did: the first answer of an attempt against its last, under one scorer (CoT-Refine's R0)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.contracts import Scorer
from ragrounds.records import Attempt, Gold, Left, Question, Score


class Flips(Struct, frozen=True, kw_only=True):
    """Attempts by what became of their first answer. Right is a value of 1.0."""

    scorer: str
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


class Refinement(Struct, frozen=True):
    """An attempt's first answer and its last, scored alike; no first one: the attempt has none."""

    question: Question
    before: Score | None
    after: Score

    @property
    def told(self) -> bool:
        """Whether both have a value."""
        return self.before is not None and self.before.value is not None and self.after.value is not None


def refinements(
    attempts: Iterable[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    scorer: Scorer,
    key: str = "first",
) -> Iterator[Refinement]:
    """The first and last answer of every attempt, scored."""
    for attempt in attempts:
        question, gold = questions[attempt.question_id], golds[attempt.question_id]
        first = first_answer(attempt, key)
        before = None if first is None else scorer.score(replace(attempt, text=first), question, gold)
        yield Refinement(question, before, scorer.score(attempt, question, gold))


def count_flips(scorer: str, made: Iterable[Refinement]) -> Flips:
    """Count how a refinement moved answers between right and wrong."""
    counts = dict.fromkeys(("right_right", "right_wrong", "wrong_right", "wrong_wrong", "changed", "without"), 0)
    for one in made:
        if one.before is None or not one.told:
            counts["without"] += 1
            continue
        names = ("right" if score.value == 1.0 else "wrong" for score in (one.before, one.after))
        counts["_".join(names)] += 1
        counts["changed"] += one.before.prediction != one.after.prediction
    return Flips(scorer=scorer, **counts)
