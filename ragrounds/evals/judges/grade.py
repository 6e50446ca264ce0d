"""What a grader is and gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.records import Attempt, Call, Gold, Question, Score, Verdict
from ragrounds.specs import Spec, parse


class Grade(Struct, frozen=True, kw_only=True):
    """One attempt's scores by a judge, with all that was said and paid."""

    scores: tuple[Score, ...]
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    """The judge's calls, role ``judging``: for the ledger."""
    failed: bool = False
    """A call gave no reply: grading again may give what is missing."""


class Grader(Protocol):
    """Grades attempts by a judge, under named scorers."""

    @property
    def scorers(self) -> tuple[str, ...]: ...

    async def grade(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> Grade: ...


@runtime_checkable
class Voting(Grader, Protocol):
    """A grader whose verdicts are labels, so that several judges can vote on them."""

    def scored(self, attempt: Attempt, gold: Gold, said: Sequence[tuple[str, str]]) -> tuple[Score, ...]:
        """Scores from verdicts, in the order that :meth:`grade` gives them: each an outcome, or why there is none."""


def judges_itself(judge: str, candidates: Iterable[str]) -> bool:
    """Whether a judge is the same model as one that wrote the answers, by canonical texts such as
    ``openai:gpt-4o[temperature=0]``; parameters and the case of names do not matter."""
    return any(_model(judge) == _model(candidate) for candidate in candidates)


def _model(text: str) -> str:
    try:
        spec = parse(text)
    except UserError:
        spec = Spec(text)
    return spec.name.partition(":")[2].casefold() or spec.name.casefold()
