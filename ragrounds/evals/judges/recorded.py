"""What each judge said of a run, read again from the journal: a pure function of the store, and no model is asked.

The store keeps scores by the last judge or panel, and the calls of all of them. The same questions are put
to a journal that only replays; what a judge was never asked, or was asked in other words (by another version), has no
verdict here.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Set
from typing import Any, TypeVar

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.errors import StopRun
from ragrounds.evals.judges.attempts import JudgedAnswer, LabelJudge
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.evals.store.journal import StoreJournal
from ragrounds.evals.store.store import Store
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Fault, Gold, Question, Reply, Run

T = TypeVar("T")


class AbsentModel:
    """A judge that is known by name alone, and never asked."""

    window = None

    def __init__(self, spec: str) -> None:
        self.spec = spec

    async def complete(self, request: Request, faults: list[Fault]) -> Reply:
        """Never: nothing is asked.

        Raises:
            ragrounds.errors.StopRun: always.
        """
        raise StopRun("a recorded judge is never asked")

    def count(self, text: str) -> int:
        """Nothing is counted."""
        return 0

    def cut(self, text: str, tokens: int, /) -> str:
        """The whole text: nothing is cut for a model without a window."""
        return text

    def price(self, reply: Reply) -> float | None:
        """Unknown: nothing is paid here."""
        return None

    async def close(self) -> None:
        """There is nothing to close."""


class RecordedVerdicts(Struct, frozen=True, kw_only=True):
    """One judge's verdicts on one epoch of a run."""

    judge: str
    verdicts: dict[str, str | None]
    """Item → label; ``None``: it was asked, and gave none."""


def recorded_verdicts(
    store: Store, run: Run, method: LabelMethod, epoch: int = 0, only: Set[str] | None = None
) -> list[RecordedVerdicts]:
    """The verdicts of every judge that the journal holds replies of, of one epoch; judges without any are left out.
    `only` holds the ids of the questions that are read; ``None``: all."""
    named = store.judges(run)
    if not named:
        return []
    questions, golds = store.questions(run)
    fitting = {question.id: question for question in questions if method.fits(question, golds[question.id])}
    wanted = fitting.keys() if only is None else fitting.keys() & only
    attempts = [each for each in store.attempts(run) if each.epoch == epoch and each.question_id in wanted]
    journal = StoreJournal(store, "replay")
    try:
        made = [
            RecordedVerdicts(judge=name, verdicts=_said(method, name, attempts, fitting, golds, journal))
            for name in named
        ]
    finally:
        journal.close()
    return [said for said in made if said.verdicts]


def _said(
    method: LabelMethod,
    judge: str,
    attempts: list[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    journal: StoreJournal,
) -> dict[str, str | None]:
    by, prompts, absent = LabelJudge(method), PromptFolder(), AbsentModel(judge)
    said: dict[str, str | None] = {}
    for attempt in attempts:
        question, gold = questions[attempt.question_id], golds[attempt.question_id]
        try:
            judged: JudgedAnswer = finished(by.judge(attempt, question, gold, absent, journal, prompts))
        except StopRun:
            continue
        items = list(method.items(gold))
        if len(items) == len(judged.verdicts):
            said |= {item: verdict.outcome or None for item, verdict in zip(items, judged.verdicts, strict=True)}
    return said


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as a replay from the journal does: it needs no event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a replay waited for something")
