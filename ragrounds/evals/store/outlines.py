"""Rows of a list of attempts, and which of them are wanted."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ragrounds.records import Gold, Question, Run

SortBy = Literal["asked", "cost", "calls", "time", "tokens", "score", "newest"]
SORTS: tuple[SortBy, ...] = ("asked", "cost", "calls", "time", "tokens", "score", "newest")


MARKS = ("right", "wrong", "unscored")
OUTCOMES = ("answered", "abstained", "refused", "unreadable", "blocked", "failed", "capped", "paused", "not_run")
"""As :data:`ragrounds.evals.engine.progress.OUTCOMES`, which stands above the store."""


class AttemptSummary(Struct, frozen=True, kw_only=True):
    """One row: a question of a run, and what is known of the attempt at it without its text and events."""

    run: Run
    index: int
    """Its place among all rows, unsorted."""
    question: Question
    gold: Gold
    epoch: int
    outcome: str
    """One of :data:`ragrounds.evals.engine.progress.OUTCOMES`, by the scorer of `scorer`."""
    scorer: str
    """What `value` is by; empty: not scored."""
    value: float | None
    prediction: str
    cost_uncached: float | None
    cost_paid: float | None
    tokens: int | None
    calls: int | None
    seconds: float | None
    at: float | None

    @property
    def wrong(self) -> bool:
        """Answered or not: scored below full marks."""
        return self.value is not None and self.value < 1

    @property
    def troubled(self) -> bool:
        """The attempt did not end as it should."""
        return self.outcome in ("failed", "capped", "blocked", "paused")


class Filter(Struct, frozen=True):
    """Which rows are wanted; empty fields want all."""

    runs: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()
    """Groups of questions, or the benchmark's name where a question has no group."""
    marks: frozenset[str] = frozenset()
    """``right``, ``wrong``, ``unscored``."""
    text: str = ""
    """In the question's id, its text, or its subject."""

    def __bool__(self) -> bool:
        return bool(self.runs or self.outcomes or self.subjects or self.marks or self.text)


class StoredQuestion(Struct, frozen=True):
    """A question as the store keeps it."""

    question: Question
    gold: Gold


def subject(question: Question) -> str:
    """What tables group a question by."""
    return question.group or question.benchmark


def holds(item: StoredQuestion, wanted: Filter) -> bool:
    """Whether a question is wanted by its own words: subject and text."""
    question = item.question
    if wanted.subjects and subject(question) not in wanted.subjects:
        return False
    if not wanted.text:
        return True
    lines = (question.id, subject(question), question.text, *question.options.values())
    return wanted.text.casefold() in "\n".join(lines).casefold()
