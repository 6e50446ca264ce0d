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

from ragrounds.base.contracts import Entry, Journal, Model, Prompts
from ragrounds.base.errors import StopRun, UserError
from ragrounds.base.records import Attempt, Run, Score
from ragrounds.evals.engine.budget import Budget, BudgetStop
from ragrounds.evals.engine.circuit_breaker import FailureCount, FailureLimit
from ragrounds.evals.engine.interrupts import interruptible
from ragrounds.evals.judges.attempts import (
    AttemptJudge,
    JudgedAnswer,
    JudgeTask,
    LabelJudge,
    UnreadableReplies,
    UnreadableReply,
    judge_code,
    judge_tasks,
    none_readable,
)
from ragrounds.evals.judges.bill import Judged, JudgedRun, PayingJournal, constant_judges, paid_now, store_judged_run
from ragrounds.evals.judges.gate import Probing, probes_of
from ragrounds.evals.judges.panel import as_panel, by_majority
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.store import Store

T = TypeVar("T", bound=Struct)
INTERRUPTED = "judging was interrupted"
Key = tuple[int, int, int]
"""Places of a run, of an attempt of it, and of a judge."""
NO_LIMIT = Budget()
NEVER_FAILING = FailureLimit()


class JudgedRuns(Struct, frozen=True, kw_only=True):
    """What judging several runs gave and took."""

    runs: tuple[JudgedRun, ...]
    ended: str
    """Why not all questions were judged: which limit was reached, or `INTERRUPTED`; empty: all were."""
    mute: tuple[str, ...]
    """Judges that were asked and gave no verdict at all: because of them no score was written."""
    unreadable: tuple[UnreadableReply, ...] = ()
    """Of every judge, the first reply that holds no verdict."""
    silent: bool = False
    """A judge was given up, for none of its first replies could be read; asked again, it is given up again."""

    @property
    def interrupted(self) -> bool:
        """Whether the user ended it; the same call resumes."""
        return self.ended == INTERRUPTED


async def judge_runs(
    store: Store,
    runs: Sequence[Run],
    by: AttemptJudge,
    judges: Sequence[Model],
    journal: Journal,
    prompts: Prompts,
    *,
    budget: Budget = NO_LIMIT,
    fail_after: FailureLimit = NEVER_FAILING,
    at_once: int = 16,
    wanted: Callable[[Attempt], bool] = lambda attempt: True,
    done: Callable[[JudgedAnswer], None] = lambda answer: None,
    probing: Probing | None = None,
) -> JudgedRuns:
    """Judge the attempts of these runs that are `wanted`, by one judge or the majority of several, and write the
    scores. Judging again replaces them and pays only for what is new. A judge without any verdict replaces nothing; of
    one whose judgements fail as `fail_after` says, or none of whose first replies can be read, no further question is
    begun. Where `probing` says so, each judge is probed on each run, and scores of one that fails are withheld.

    Raises:
        UserError: runs on different questions, or one of them twice; judges that cannot be a panel.
        ragrounds.base.errors.StopRun: a judge cannot be asked at all, or Ctrl-C was pressed twice; nothing is written
            but the calls.
    """
    unreadable = UnreadableReplies(patient=fail_after == NEVER_FAILING)
    by = replace(by, unreadable=unreadable) if isinstance(by, LabelJudge) else by
    labels = isinstance(by, LabelJudge) or hasattr(by, "verifier")  # else its verdicts are numbers
    panel = as_panel(by, judges) if len(judges) > 1 else None
    _check_runs(runs)
    questions, golds = store.questions(runs[0])
    places = {question.id: place for place, question in enumerate(questions)}
    tried = [
        sorted(filter(wanted, store.attempts(run)), key=lambda one: (places[one.question_id], one.epoch))
        for run in runs
    ]
    paying = [
        PayingJournal(journal, payer := judging_payer(run), store.graded(run), store.recalled(payer)) for run in runs
    ]
    tasks = {
        (run, number, place): JudgeTask(
            one, questions[places[one.question_id]], golds[one.question_id], judge, paying[run]
        )
        for run, attempts in enumerate(tried)
        for number, one in enumerate(attempts)
        for place, judge in enumerate(judges)
    }
    order = sorted(tasks, key=lambda key: (places[tasks[key].question.id], tasks[key].attempt.epoch, key))
    ends: list[BaseException] = []
    admission = BudgetAdmission(
        BudgetStop(budget),
        FailureCount(fail_after, "judgements"),
        unreadable if labels else None,
        {run.id: paying[number] for number, run in enumerate(runs)},
        ends,
    )
    with interruptible(ends):
        try:
            judged = await _judged(by, {key: tasks[key] for key in order}, prompts, at_once, admission, done)
            probes = probes_of(by.method) if probing and isinstance(by, LabelJudge) else None
            given = (store, runs, by, tasks, judged, probing, prompts, at_once, admission)
            probed = await probes.probe_runs(*given) if probes else {}
        except asyncio.CancelledError:
            if not ends:  # not by our own second Ctrl-C
                raise
            raise ends[0] from None
    # A number that a judge's replies do not make is a result with a reason.
    mute = _mute(judged.values()) if labels else ()
    kept: list[JudgedRun] = []
    for run, attempts in enumerate(tried):
        by_judge = [
            [judged[run, number, place] for number in range(len(attempts)) if (run, number, place) in judged]
            for place in range(len(judges))
        ]
        answered = [one for number, one in enumerate(attempts) if (run, number, 0) in judged]
        left = [one for number, one in enumerate(attempts) if (run, number, 0) not in judged]
        missing = [_missing(one, scorer, admission.ended) for one in left for scorer in by.scorers]
        made = by_one(by_judge[0]) if panel is None else by_majority(panel, answered, golds, by_judge)
        kept.append(
            store_judged_run(
                store,
                runs[run],
                by,
                judges,
                _with_probes(made, probed.get(run, Judged())),
                missing,
                code=by.code if panel is None else judge_code(panel.method, panel=True),
                attempts=len(answered),
                earlier=paying[run].earlier,
                replace=not mute,
            )
        )
    return JudgedRuns(
        runs=tuple(map(_with_constants, kept) if isinstance(by, LabelJudge) else kept),
        ended=admission.end(any(one.left for one in kept)) or unreadable.reached(),
        mute=mute,
        unreadable=unreadable.first(),
        silent=bool(unreadable.reached()),
    )


def _with_constants(judged: JudgedRun) -> JudgedRun:
    """The same, with the judges that say the same of everything; agreement with one of them is not defined."""
    constant = constant_judges(judged.verdicts)
    if not constant:
        return judged
    panel = judged.panel and replace(judged.panel, kappa=None, alpha=None)
    return replace(judged, constant=constant, panel=panel)


def by_one(answers: Sequence[JudgedAnswer]) -> Judged:
    """What a single judge made of a run's attempts."""
    return Judged(
        scores=tuple(score for answer in answers for score in answer.scores),
        verdicts=tuple(verdict for answer in answers for verdict in answer.verdicts),
        calls=tuple(call for answer in answers for call in answer.calls),
    )


def _check_runs(runs: Sequence[Run]) -> None:
    """See that runs can be judged together.

    Raises:
        UserError: runs on different questions, or one of them twice.
    """
    twice = next((run.id for place, run in enumerate(runs) if run in runs[:place]), None)
    if twice is not None:
        raise UserError(f"The run {twice} is given twice; give each run once.")
    if len({run.questions for run in runs}) > 1:
        asked = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(f"These runs answer different questions ({asked}). Judge each by itself.")


async def _judged(
    by: AttemptJudge,
    tasks: Mapping[Key, JudgeTask],
    prompts: Prompts,
    at_once: int,
    admission: BudgetAdmission,
    done: Callable[[JudgedAnswer], None],
) -> dict[Key, JudgedAnswer]:
    """The judged answers to the questions that are admitted, and those that the journal can answer alone."""

    def judged_one(task: JudgeTask, answer: JudgedAnswer) -> None:
        """Count what it took, and say it."""
        admission.judged(task, answer)
        done(answer)

    given = list(tasks.values())
    found = await judge_tasks(by, given, prompts, at_once=at_once, admits=admission.admits, done=judged_one)
    judged = {key: answer for key, answer in zip(tasks, found, strict=True) if answer is not None}
    if admission.silent:  # no score will be written: nothing is gained by what the journal holds
        return judged
    shut: dict[str, dict[Key, JudgeTask]] = defaultdict(dict)
    for key, task in tasks.items():
        if not admission.admits(task):
            shut[task.question.id][key] = task
    for of_one in shut.values():
        judged |= await _recorded(by, of_one, prompts)
    return judged


def _with_probes(made: Judged, probes: Judged) -> Judged:
    return replace(made, calls=(*made.calls, *probes.calls), gates=probes.gates, unprobed=probes.unprobed)


def _mute(judged: Iterable[JudgedAnswer]) -> tuple[str, ...]:
    """The judges that were asked for verdicts and gave none."""
    spoke: dict[str, bool] = {}
    for answer in judged:
        for verdict in answer.verdicts:
            spoke[verdict.judge] = spoke.get(verdict.judge, False) or bool(verdict.outcome)
    return tuple(judge for judge, any_ in spoke.items() if not any_)


class BudgetAdmission:
    """Admits question by question until a limit is reached, judgements fail, or something stands in `ends`."""

    def __init__(
        self,
        spending: BudgetStop,
        failures: FailureCount,
        unreadable: UnreadableReplies | None,
        paying: Mapping[str, PayingJournal],
        ends: Sequence[BaseException],
    ) -> None:
        self._spending, self._failures, self._paying, self._ends = spending, failures, paying, ends
        self._unreadable = unreadable
        self._open: dict[str, bool] = {}
        self.ended = ""

    def admits(self, task: JudgeTask) -> bool:
        """Whether the task's question was begun before the end."""
        question = task.question.id
        if question not in self._open:
            stopped = self._given_up() or self._failures.reached or self._spending.reached()
            self.ended = self.ended or (INTERRUPTED if self._ends else stopped)
            self._open[question] = not self.ended
        return self._open[question]

    def end(self, left: bool) -> str:
        """Why it ended: a limit, where answers were `left`, or Ctrl-C."""
        return (self.ended if left else "") or (INTERRUPTED if self._ends else "")

    def affords(self, task: JudgeTask) -> bool:
        """Whether there is money, and nobody ended it, for more than the questions."""
        return not (self.ended or self._ends or self._spending.reached())

    @property
    def silent(self) -> bool:
        """Whether a judge was given up."""
        return bool(self._given_up())

    def _given_up(self) -> str:
        return self._unreadable.reached() if self._unreadable is not None else ""

    def judged(self, task: JudgeTask, answer: JudgedAnswer) -> None:
        """Count what it took against the budget, and whether a call of it failed or no verdict could be read."""
        if answer.calls or answer.failed:
            unread = none_readable(answer.verdicts) if self._unreadable is not None else ""
            reason = next((call.error for call in answer.calls if call.error), unread)
            self._failures.count(task.judge.spec, task.judge.spec, answer.failed or bool(unread), reason)
        self._spending.count(*paid_now(answer.calls, self._paying[task.attempt.run].earlier))


class _RecordedCalls:
    """A journal that answers what it holds and makes no call."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The recorded response.

        Raises:
            ragrounds.base.errors.StopRun: there is none.
        """
        return await self._journal.once(entry, _refuse, kind)


async def _refuse() -> Never:
    raise StopRun("the budget is used up")


async def _recorded(by: AttemptJudge, tasks: Mapping[Key, JudgeTask], prompts: Prompts) -> dict[Key, JudgedAnswer]:
    """The judged answers to a question where the journal holds all of their calls, else none."""
    only = [replace(task, journal=_RecordedCalls(task.journal)) for task in tasks.values()]
    try:
        found = await judge_tasks(by, only, prompts, at_once=1, admits=lambda task: True, done=lambda *_: None)
    except StopRun:
        return {}
    return {key: answer for key, answer in zip(tasks, found, strict=True) if answer is not None}


def _missing(attempt: Attempt, scorer: str, reason: str) -> Score:
    return Score(
        question_id=attempt.question_id,
        epoch=attempt.epoch,
        scorer=scorer,
        value=None,
        answer_status=read_long(attempt).status,
        reason=f"not judged: {reason}",
    )
