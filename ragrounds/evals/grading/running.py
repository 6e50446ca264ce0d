"""Grading many attempts: several at a time, in the order they were given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.evals.grading.grade import Grade, Grader
from ragrounds.records import Attempt, Gold, Question


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
    free = asyncio.Semaphore(at_once)

    async def one(attempt: Attempt) -> Grade:
        async with free:
            id = attempt.question_id
            grade = await grader.grade(attempt, questions[id], golds[id], judge, journal, prompts)
            done(grade)
            return grade

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(attempt)) for attempt in attempts]
    except* Exception as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]
