"""What a grader is and gives.

Grading many attempts: several at a time, in the order they were given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class AttemptJudge(Protocol):
    """Grades attempts by a judge, under named scorers."""

    @property
    def scorers(self) -> tuple[str, ...]: ...

    async def grade(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> Grade: ...


@runtime_checkable
class Voting(AttemptJudge, Protocol):
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


class Job(Struct, frozen=True):
    """An attempt that one judge is to grade."""

    attempt: Attempt
    question: Question
    gold: Gold
    judge: Model
    journal: Journal
    """What the judge's calls go through."""


class Gate(Protocol):
    """Decides whether a job is begun. Asked when its turn has come."""

    def admits(self, job: Job) -> bool: ...

    def hear(self, job: Job, grade: Grade) -> None:
        """A job has ended."""


class Open:
    """A gate that lets everything through."""

    def admits(self, job: Job) -> bool:
        return True

    def hear(self, job: Job, grade: Grade) -> None:
        """It makes no difference."""


async def judge_attempts(
    grader: AttemptJudge,
    attempts: Iterable[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    judge: Model,
    journal: Journal,
    prompts: Prompts,
    *,
    at_once: int = 16,
    done: Callable[[Grade], None] = lambda grade: None,
) -> list[Grade]:
    """Grade attempts, at most `at_once` at a time; `done` is called as each grade comes in.

    Calls go through the journal: grading again pays only for what was never answered.

    Raises:
        ragrounds.errors.StopRun: the judge cannot be asked at all; the other gradings are cancelled.
    """
    jobs = [Job(each, questions[each.question_id], golds[each.question_id], judge, journal) for each in attempts]
    graded = await judge_jobs(grader, jobs, prompts, at_once=at_once, gate=Open(), done=done)
    return [grade for grade in graded if grade is not None]


async def judge_jobs(
    grader: AttemptJudge,
    jobs: Sequence[Job],
    prompts: Prompts,
    *,
    at_once: int,
    gate: Gate,
    done: Callable[[Grade], None],
) -> list[Grade | None]:
    """The grade of every job, begun in their order; ``None``: the gate did not let it through.

    Raises:
        ragrounds.errors.StopRun: a judge cannot be asked at all; the other gradings are cancelled.
    """
    free = asyncio.Semaphore(at_once)

    async def one(job: Job) -> Grade | None:
        async with free:
            if not gate.admits(job):
                return None
            grade = await grader.grade(job.attempt, job.question, job.gold, job.judge, job.journal, prompts)
            gate.hear(job, grade)
            done(grade)
            return grade

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(job)) for job in jobs]
    except* Exception as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
