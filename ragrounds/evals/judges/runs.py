"""Judging of stored runs within a budget, question by question, so that all runs have verdicts on the same ones.

When a limit is reached, or at the first Ctrl-C, no further question is started. Questions that were started are
finished for every run, epoch and judge. Answers whose calls are all in the journal are still judged. The answers to the
other questions have no verdict of these judges: their scores are missing, with the reason.
"""

from __future__ import annotations

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
from ragrounds.evals.judges.bill import (
    JudgedRun,
    JudgingResult,
    PayingJournal,
    constant_judges,
    paid_now,
    store_judged_run,
)
from ragrounds.evals.judges.gate import Probing, probes_of
from ragrounds.evals.judges.panel import as_panel, by_majority
from ragrounds.evals.scorers.answer_status import read_long
from ragrounds.evals.store.journal import judging_payer
from ragrounds.evals.store.store import Store

T = TypeVar("T", bound=Struct)
INTERRUPTED = "judging was interrupted"
Key = tuple[int, int, int]
"""Indices of a run, of its attempt, and of a judge."""
NEVER_FAILING = FailureLimit()


class JudgeLimits(Struct, frozen=True, kw_only=True):
    """Limits of judging in one command."""

    budget: Budget = Budget()
    fail_after: FailureLimit = NEVER_FAILING
    """Number of judgements of a judge that may fail."""
    at_once: int = 16
    """Number of calls in flight."""


class JudgingOptions(JudgeLimits, frozen=True, kw_only=True):
    """Options of :func:`judge_runs`."""

    wanted: Callable[[Attempt], bool] = lambda attempt: True
    """Function that selects the attempts to judge."""
    done: Callable[[JudgedAnswer], None] = lambda answer: None
    """Called with every judged answer."""
    probing: Probing | None = None
    """Probes of each judge on each run; the scores of a judge that fails are withheld. ``None`` for no probes."""


DEFAULTS = JudgingOptions()


class JudgedRuns(Struct, frozen=True, kw_only=True):
    """Scores, verdicts and costs of judging several runs."""

    runs: tuple[JudgedRun, ...]
    ended: str
    """Reason why not all questions were judged: the limit that was reached, or `INTERRUPTED`; empty if all were
    judged."""
    mute: tuple[str, ...]
    """Judges that were asked and gave no verdict at all; because of them no score was written."""
    unreadable: tuple[UnreadableReply, ...] = ()
    """First reply without a verdict of every judge."""
    silent: bool = False
    """True if a judge was given up because none of its first replies could be read. The same happens if it is asked
    again."""

    @property
    def interrupted(self) -> bool:
        """True if the user ended it; the same call resumes."""
        return self.ended == INTERRUPTED


async def judge_runs(
    store: Store,
    runs: Sequence[Run],
    attempt_judge: AttemptJudge,
    judges: Sequence[Model],
    journal: Journal,
    prompts: Prompts,
    options: JudgingOptions = DEFAULTS,
) -> JudgedRuns:
    """Judge the attempts of these runs, by one judge or the majority of several, and write the scores.

    Judging again replaces the scores and pays only for new calls. A judge without any verdict replaces nothing. No
    further question is started if too many judgements fail, or if none of a judge's first replies can be read.

    Raises:
        UserError: the runs are on different questions, or a run is given twice; the judges cannot be a panel.
        ragrounds.base.errors.StopRun: a judge cannot be asked, or Ctrl-C was pressed twice. Only calls are written.
    """
    unreadable = UnreadableReplies(patient=options.fail_after == NEVER_FAILING)
    label_judge = attempt_judge if isinstance(attempt_judge, LabelJudge) else None
    if label_judge:
        attempt_judge = label_judge = replace(label_judge, unreadable=unreadable)
    has_labels = label_judge is not None or hasattr(attempt_judge, "verifier")  # otherwise its verdicts are numbers
    panel = as_panel(attempt_judge, judges) if len(judges) > 1 else None
    _check_runs(runs)
    questions, golds = store.questions(runs[0])
    question_indices = {question.id: index for index, question in enumerate(questions)}

    def position(attempt: Attempt) -> tuple[int, int]:
        return question_indices[attempt.question_id], attempt.epoch

    attempts_by_run = [sorted(filter(options.wanted, store.attempts(run)), key=position) for run in runs]
    paying_journals = [
        PayingJournal(journal, payer := judging_payer(run), store.graded(run), store.recalled(payer)) for run in runs
    ]
    tasks = {
        (run, number, judge_number): JudgeTask(
            attempt, questions[position(attempt)[0]], golds[attempt.question_id], judge, paying_journals[run]
        )
        for run, attempts in enumerate(attempts_by_run)
        for number, attempt in enumerate(attempts)
        for judge_number, judge in enumerate(judges)
    }
    order = sorted(tasks, key=lambda key: (position(tasks[key].attempt), key))
    interrupts: list[BaseException] = []
    admission = BudgetAdmission(
        BudgetStop(options.budget),
        FailureCount(options.fail_after, "judgements"),
        unreadable if has_labels else None,
        {run.id: paying_journals[run_index] for run_index, run in enumerate(runs)},
        interrupts,
    )
    with interruptible(interrupts):
        ordered_tasks = {key: tasks[key] for key in order}
        answer_by_key = await _judge_admitted(attempt_judge, ordered_tasks, prompts, admission, options)
        probes = probes_of(label_judge.method) if options.probing and label_judge else None
        probe_arguments = (
            store, runs, attempt_judge, tasks, answer_by_key, options.probing, prompts, options.at_once, admission
        )  # fmt: skip
        probed = await probes.probe_runs(*probe_arguments) if probes else {}
    # A number that a judge's replies do not yield is a missing score with a reason, so no judge of numbers is mute.
    mute = _mute(answer_by_key.values()) if has_labels else ()
    judged_runs: list[JudgedRun] = []
    for run, attempts in enumerate(attempts_by_run):
        by_judge = [
            [answer_by_key[key] for number in range(len(attempts)) if (key := (run, number, judge)) in answer_by_key]
            for judge in range(len(judges))
        ]
        judged_answers = [attempt for number, attempt in enumerate(attempts) if (run, number, 0) in answer_by_key]
        unjudged = [attempt for number, attempt in enumerate(attempts) if (run, number, 0) not in answer_by_key]
        missing = [
            _missing(attempt, scorer, admission.ended) for attempt in unjudged for scorer in attempt_judge.scorers
        ]
        judged_attempts = by_one(by_judge[0]) if panel is None else by_majority(panel, judged_answers, golds, by_judge)
        judged_runs.append(
            store_judged_run(
                store,
                runs[run],
                attempt_judge,
                judges,
                _with_probes(judged_attempts, probed.get(run, JudgingResult())),
                missing,
                code=attempt_judge.code if panel is None else judge_code(panel.method, panel=True),
                attempts=len(judged_answers),
                earlier=paying_journals[run].earlier,
                replace=not mute,
            )
        )
    return JudgedRuns(
        runs=tuple(map(_with_constants, judged_runs) if label_judge else judged_runs),
        ended=admission.end(any(judged_run.left for judged_run in judged_runs)) or unreadable.reached(),
        mute=mute,
        unreadable=unreadable.first(),
        silent=bool(unreadable.reached()),
    )


def _with_constants(judged_run: JudgedRun) -> JudgedRun:
    """Return the judged run with its constant judges. Agreement with a constant judge is not defined."""
    constant = constant_judges(judged_run.verdicts)
    if not constant:
        return judged_run
    panel = judged_run.panel and replace(judged_run.panel, kappa=None, alpha=None)
    return replace(judged_run, constant=constant, panel=panel)


def by_one(answers: Sequence[JudgedAnswer]) -> JudgingResult:
    """Return the result of a single judge on a run's attempts."""
    return JudgingResult(
        scores=tuple(score for answer in answers for score in answer.scores),
        verdicts=tuple(verdict for answer in answers for verdict in answer.verdicts),
        calls=tuple(call for answer in answers for call in answer.calls),
    )


def _check_runs(runs: Sequence[Run]) -> None:
    """Raise UserError if the runs cannot be judged together.

    Raises:
        UserError: the runs are on different questions, or a run is given twice.
    """
    repeated = next((run.id for index, run in enumerate(runs) if run in runs[:index]), None)
    if repeated is not None:
        raise UserError(f"The run {repeated} is given twice; give each run once.")
    if len({run.questions for run in runs}) > 1:
        differing = "; ".join(f"{run.id}: {run.count:,} questions of {run.benchmark}" for run in runs)
        raise UserError(f"These runs answer different questions ({differing}). Judge each by itself.")


async def _judge_admitted(
    attempt_judge: AttemptJudge,
    tasks: Mapping[Key, JudgeTask],
    prompts: Prompts,
    admission: BudgetAdmission,
    options: JudgingOptions,
) -> dict[Key, JudgedAnswer]:
    """Return the judged answers to the admitted questions, and those that the journal can answer alone."""

    def judged_one(task: JudgeTask, answer: JudgedAnswer) -> None:
        """Count the calls of an answer and report it."""
        admission.judged(task, answer)
        options.done(answer)

    task_list = list(tasks.values())
    answers = await judge_tasks(
        attempt_judge, task_list, prompts, at_once=options.at_once, admits=admission.admits, done=judged_one
    )
    answer_by_key = {key: answer for key, answer in zip(tasks, answers, strict=True) if answer is not None}
    if admission.silent:  # no score will be written, so recorded answers are of no use
        return answer_by_key
    refused: dict[str, dict[Key, JudgeTask]] = defaultdict(dict)
    for key, task in tasks.items():
        if not admission.admits(task):
            refused[task.question.id][key] = task
    for question_tasks in refused.values():
        answer_by_key |= await _recorded(attempt_judge, question_tasks, prompts)
    return answer_by_key


def _with_probes(judged_run: JudgingResult, probes: JudgingResult) -> JudgingResult:
    return replace(judged_run, calls=(*judged_run.calls, *probes.calls), gates=probes.gates, unprobed=probes.unprobed)


def _mute(answers: Iterable[JudgedAnswer]) -> tuple[str, ...]:
    """Return the judges that were asked for verdicts and gave none."""
    gave_verdict: dict[str, bool] = {}
    for answer in answers:
        for verdict in answer.verdicts:
            gave_verdict[verdict.judge] = gave_verdict.get(verdict.judge, False) or bool(verdict.outcome)
    return tuple(judge for judge, spoke in gave_verdict.items() if not spoke)


class BudgetAdmission:
    """Admission of questions until a limit is reached, judgements fail, or `ends` is not empty."""

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
        """Return True if the task's question was started before the end."""
        question = task.question.id
        if question not in self._open:
            reason = self._give_up_reason() or self._failures.reached() or self._spending.reached()
            self.ended = self.ended or (INTERRUPTED if self._ends else reason)
            self._open[question] = not self.ended
        return self._open[question]

    def end(self, left: bool) -> str:
        """Return the reason why judging ended: a limit, if answers were `left`, or Ctrl-C."""
        return (self.ended if left else "") or (INTERRUPTED if self._ends else "")

    def affords(self, task: JudgeTask) -> bool:
        """Return True if the budget allows more than the questions, and the user has not ended it."""
        return not (self.ended or self._ends or self._spending.reached())

    @property
    def silent(self) -> bool:
        """True if a judge was given up."""
        return bool(self._give_up_reason())

    def _give_up_reason(self) -> str:
        return self._unreadable.reached() if self._unreadable is not None else ""

    def judged(self, task: JudgeTask, answer: JudgedAnswer) -> None:
        """Count the costs of an answer against the budget, and its failed calls and unreadable verdicts as failures."""
        if answer.calls or answer.failed:
            unreadable_reason = none_readable(answer.verdicts) if self._unreadable is not None else ""
            reason = next((call.error for call in answer.calls if call.error), unreadable_reason)
            self._failures.count(task.judge.spec, task.judge.spec, answer.failed or bool(unreadable_reason), reason)
        self._spending.count(*paid_now(answer.calls, self._paying[task.attempt.run].earlier))


class _RecordedCalls:
    """Journal that answers recorded calls and makes no call."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """Return the recorded response.

        Raises:
            ragrounds.base.errors.StopRun: the response is not recorded.
        """
        return await self._journal.once(entry, _refuse, kind)


async def _refuse() -> Never:
    raise StopRun("the budget is used up")


async def _recorded(
    attempt_judge: AttemptJudge, tasks: Mapping[Key, JudgeTask], prompts: Prompts
) -> dict[Key, JudgedAnswer]:
    """Return the judged answers to a question if the journal holds all of their calls, otherwise none."""
    recorded_tasks = [replace(task, journal=_RecordedCalls(task.journal)) for task in tasks.values()]
    try:
        answers = await judge_tasks(
            attempt_judge, recorded_tasks, prompts, at_once=1, admits=lambda task: True, done=lambda *_: None
        )
    except StopRun:
        return {}
    return {key: answer for key, answer in zip(tasks, answers, strict=True) if answer is not None}


def _missing(attempt: Attempt, scorer: str, reason: str) -> Score:
    return Score(
        question_id=attempt.question_id,
        epoch=attempt.epoch,
        scorer=scorer,
        value=None,
        answer_status=read_long(attempt).status,
        reason=f"not judged: {reason}",
    )
