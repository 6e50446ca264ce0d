"""Stored runs judged, within a budget: question by question, so that all have verdicts on the same ones.

When a limit is reached, or at the first Ctrl-C, no further question is begun, and those that are begun are finished for
every run, epoch and judge. What the journal can answer for nothing is still taken. The answers of the other questions
have no verdict of these judges: their scores are missing, with the reason.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Never, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.contracts import Entry, Journal, Model, Prompts
from ragrounds.errors import StopRun, UserError
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.scheduler import interruptible
from ragrounds.evals.judges.attempts import AttemptJudge, Grade, Job, Open, Voting, judge_jobs
from ragrounds.evals.judges.bill import JudgedRun, Paying, made, store_judged_run
from ragrounds.evals.judges.panel import PanelJudgedRun, as_panel, by_majority, store_panel_run
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Run, Score

T = TypeVar("T", bound=Struct)
INTERRUPTED = "judging was interrupted"
Key = tuple[int, int, int]
"""Places of a run, of an attempt of it, and of a judge."""


NO_LIMIT = Budget()


class JudgedRuns(Struct, frozen=True, kw_only=True):
    """What judging several runs gave and took."""

    runs: tuple[JudgedRun | PanelJudgedRun, ...]
    ended: str
    """Why not all questions were judged: which limit was reached, or `INTERRUPTED`; empty: all were."""
    mute: tuple[str, ...]
    """Judges that were asked and gave no verdict at all: because of them no score was written."""


async def judge_runs(
    store: Store,
    runs: Sequence[Run],
    grader: AttemptJudge,
    judges: Sequence[Model],
    journal: Journal,
    prompts: Prompts,
    *,
    budget: Budget = NO_LIMIT,
    at_once: int = 16,
    wanted: Callable[[Attempt], bool] = lambda attempt: True,
    done: Callable[[Grade], None] = lambda grade: None,
) -> JudgedRuns:
    """Grade the attempts of these runs that are `wanted`, by one judge or the majority of several, and write the
    scores. Grading again replaces them and pays only for what is new. A judge without any verdict replaces nothing.

    Raises:
        UserError: runs on different questions, or one of them twice; judges that cannot be a panel.
        ragrounds.errors.StopRun: a judge cannot be asked at all, or Ctrl-C was pressed twice; nothing is written but
            the calls.
    """
    panel = as_panel(grader, judges) if len(judges) > 1 else None
    twice = next((run.id for place, run in enumerate(runs) if run in runs[:place]), None)
    if twice is not None:
        raise UserError(f"The run {twice} is named twice; name each run once.")
    if len({run.questions for run in runs}) > 1:
        told = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(f"These runs answer different questions ({told}). Judge each by itself.")
    questions, golds = store.questions(runs[0])
    by_id, places = {one.id: one for one in questions}, {one.id: place for place, one in enumerate(questions)}
    tried = [
        sorted(filter(wanted, store.attempts(run)), key=lambda one: (places[one.question_id], one.epoch))
        for run in runs
    ]
    paying = [Paying(journal, judging_payer(run), store.graded(run)) for run in runs]
    jobs = {
        (run, number, place): Job(one, by_id[one.question_id], golds[one.question_id], judge, paying[run])
        for run, attempts in enumerate(tried)
        for number, one in enumerate(attempts)
        for place, judge in enumerate(judges)
    }
    order = sorted(jobs, key=lambda key: (places[jobs[key].question.id], jobs[key].attempt.epoch, key))
    ends: list[BaseException] = []
    gate = _Gate(BudgetStop(budget), {run.id: paying[number] for number, run in enumerate(runs)}, ends)
    with interruptible(ends):
        try:
            grades = await _graded(grader, {key: jobs[key] for key in order}, prompts, at_once, gate, done)
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
            raise ends[0] from None
    # A number that a judge's replies do not make is a result with a reason, not silence.
    mute = _mute(grades.values()) if isinstance(grader, Voting) else ()
    kept: list[JudgedRun | PanelJudgedRun] = []
    for run, attempts in enumerate(tried):
        by_judge = [
            [grades[run, number, place] for number in range(len(attempts)) if (run, number, place) in grades]
            for place in range(len(judges))
        ]
        judged = [one for number, one in enumerate(attempts) if (run, number, 0) in grades]
        left = [one for number, one in enumerate(attempts) if (run, number, 0) not in grades]
        missing = [_missing(one, scorer, gate.ended) for one in left for scorer in grader.scorers]
        earlier, replaces = paying[run].earlier, not mute
        if panel is None:
            made_by = (store, runs[run], grader, judges[0], by_judge[0], missing)
            kept.append(store_judged_run(*made_by, earlier=earlier, replace=replaces))
        else:
            voted = by_majority(panel, judges, judged, golds, by_judge)
            made_by_all = (store, runs[run], panel, judged, voted, missing)
            kept.append(store_panel_run(*made_by_all, earlier=earlier, replace=replaces))
    return JudgedRuns(runs=tuple(kept), ended=gate.ended if any(one.left for one in kept) else "", mute=mute)


async def _graded(
    grader: AttemptJudge,
    jobs: Mapping[Key, Job],
    prompts: Prompts,
    at_once: int,
    gate: _Gate,
    done: Callable[[Grade], None],
) -> dict[Key, Grade]:
    """The grades of the questions that the gate opens, and of those that the journal can answer alone."""
    found = await judge_jobs(grader, list(jobs.values()), prompts, at_once=at_once, gate=gate, done=done)
    grades = {key: grade for key, grade in zip(jobs, found, strict=True) if grade is not None}
    shut: dict[str, dict[Key, Job]] = defaultdict(dict)
    for key, job in jobs.items():
        if not gate.admits(job):
            shut[job.question.id][key] = job
    for of_one in shut.values():
        grades |= await _recorded(grader, of_one, prompts)
    return grades


def _mute(grades: Iterable[Grade]) -> tuple[str, ...]:
    """The judges that were asked for verdicts and gave none."""
    spoke: dict[str, bool] = {}
    for grade in grades:
        for verdict in grade.verdicts:
            spoke[verdict.judge] = spoke.get(verdict.judge, False) or bool(verdict.outcome)
    return tuple(judge for judge, any_ in spoke.items() if not any_)


class _Gate:
    """Opens question by question until a limit is reached, or something stands in `ends` (contract:
    :class:`ragrounds.evals.judges.attempts.Gate`)."""

    def __init__(self, spending: BudgetStop, paying: Mapping[str, Paying], ends: Sequence[BaseException]) -> None:
        self._spending, self._paying, self._ends = spending, paying, ends
        self._open: dict[str, bool] = {}
        self.ended = ""

    def admits(self, job: Job) -> bool:
        question = job.question.id
        if question not in self._open:
            self.ended = self.ended or (INTERRUPTED if self._ends else self._spending.reached())
            self._open[question] = not self.ended
        return self._open[question]

    def hear(self, job: Job, grade: Grade) -> None:
        self._spending.count(*made(grade.calls, self._paying[job.attempt.run].earlier))


class _Recorded:
    """A journal that answers what it holds and makes no call."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        return await self._journal.once(entry, _refuse, kind)


async def _refuse() -> Never:
    raise StopRun("the budget is used up")


async def _recorded(grader: AttemptJudge, jobs: Mapping[Key, Job], prompts: Prompts) -> dict[Key, Grade]:
    """The grades of a question's jobs where the journal holds all of their calls, else none."""
    only = [replace(job, journal=_Recorded(job.journal)) for job in jobs.values()]
    try:
        found = await judge_jobs(grader, only, prompts, at_once=1, gate=Open(), done=lambda grade: None)
    except StopRun:
        return {}
    return {key: grade for key, grade in zip(jobs, found, strict=True) if grade is not None}


def _missing(attempt: Attempt, scorer: str, reason: str) -> Score:
    return Score(
        question_id=attempt.question_id,
        epoch=attempt.epoch,
        scorer=scorer,
        value=None,
        answer_status=read_long(attempt).status,
        reason=f"not judged: {reason}",
    )
