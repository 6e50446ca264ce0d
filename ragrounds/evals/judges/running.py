"""Grading many attempts: several at a time, in the order they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.judges.grade import Grade, Grader
from ragrounds.records import Attempt, Gold, Question


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


async def grade_attempts(
    grader: Grader,
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
    graded = await grade_jobs(grader, jobs, prompts, at_once=at_once, gate=Open(), done=done)
    return [grade for grade in graded if grade is not None]


async def grade_jobs(
    grader: Grader,
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
