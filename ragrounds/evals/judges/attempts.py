"""Judging of attempts: one attempt by labels, or many at a time in the given order.

A judged answer is its scores with the calls that they took. A verdict that the judge did not give is missing, never
right or wrong. A judge none of whose first replies can be read is given up, long before it has been shown every answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from ragrounds.base.contracts import Journal, Model, Prompts
from ragrounds.base.digests import code_digest, home_of, text_digest
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Call, Gold, Question, Score, Verdict
from ragrounds.base.specs import Spec, parse
from ragrounds.evals.judges.verdict import FAILED, REFUSED, TRIES, Judgement, ask
from ragrounds.evals.scorers.judged import JudgeMethod, LabelMethod, VerdictForm
from ragrounds.models.kept_prefixes import ASKED, AskedPrompts, KeptPrefixes
from ragrounds.models.options import uses_vllm
from ragrounds.models.traffic import ResizableSemaphore
from ragrounds.prompts.loader import PromptFolder

_ASKING = "ragrounds.evals.judges.verdict"
_VOTING = "ragrounds.evals.judges.panel"
_VERIFYING = "ragrounds.evals.judges.verifiers"
_SHARED = ("ragrounds.evals.judges.claims", "ragrounds.evals.judges.measures")
"""Modules whose code other judges use."""
FIRST = 20
"""Number of replies after which a judge is given up if none of them could be read."""
NOT_ASKED = "not asked any more"
_NOT_UNREADABLE = (FAILED, REFUSED, NOT_ASKED)
"""Reasons of missing verdicts that do not mean an unreadable reply."""


class UnreadableReply(Struct, frozen=True, kw_only=True):
    """First reply of a judge that contains no verdict."""

    judge: str
    expected_form: str
    """Requested form of the verdict, as it is written in the prompt."""
    text: str
    """Text of the reply. It comes from outside and must be shown as plain text."""


@dataclass(eq=False)
class _ReplyCount:
    """Counts of the replies of one judge."""

    spoke: bool = False
    unreadable: int = 0
    first: UnreadableReply | None = None


class UnreadableReplies:
    """Counter of replies without a verdict, for each judge separately.

    It decides when a judge is not asked any more: a judge that ignores the form costs as much as one that keeps to it.

    Args:
        patient: True if no judge is ever given up.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._counted: dict[str, _ReplyCount] = {}

    def count(self, judge: str, form: VerdictForm, judgement: Judgement) -> None:
        """Record the outcome of asking a judge."""
        reply_count = self._counted.setdefault(judge, _ReplyCount())
        reply_count.spoke = reply_count.spoke or bool(judgement.values)
        replies = [call for call in judgement.calls if not call.error]
        if replies and any(unreadable(reason) for reason in judgement.reasons.values()):
            reply_count.unreadable += len(replies)
            reply_count.first = reply_count.first or UnreadableReply(
                judge=judge, expected_form=form.example, text=judgement.reply_text
            )

    def given_up(self, judge: str) -> bool:
        """Return True if none of a judge's first `FIRST` replies could be read."""
        reply_count = self._counted.get(judge)
        return (
            reply_count is not None and not self._patient and not reply_count.spoke and reply_count.unreadable >= FIRST
        )

    def reached(self) -> str:
        """Return which judge was given up and why; empty if none was."""
        for judge, reply_count in self._counted.items():
            if self.given_up(judge):
                return (
                    f"none of the first {reply_count.unreadable:,} replies of {judge} holds a verdict that can be read"
                )
        return ""

    def first(self) -> tuple[UnreadableReply, ...]:
        """Return the first unreadable reply of every judge."""
        return tuple(reply_count.first for reply_count in self._counted.values() if reply_count.first is not None)


def unreadable(reason: str) -> bool:
    """Return True if this reason means an unreadable reply, and not a failed call, a refusal or a question that was not
    asked."""
    return bool(reason) and reason not in _NOT_UNREADABLE


def none_readable(verdicts: Iterable[Verdict]) -> str:
    """Return the reason why none of these verdicts could be read; empty if one could, or if no reply was unreadable."""
    verdict_list = list(verdicts)
    reasons = (verdict.reason for verdict in verdict_list if unreadable(verdict.reason))
    return "" if any(verdict.outcome for verdict in verdict_list) else next(reasons, "")


class JudgedAnswer(Struct, frozen=True, kw_only=True):
    """Scores of one attempt by a judge, with all verdicts and calls."""

    scores: tuple[Score, ...]
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    """Calls of the judge, with the role ``judging``, for the ledger."""
    failed: bool = False
    """True if a call gave no reply, so that judging again may give the missing verdicts."""


class AttemptJudge(Protocol):
    """Contract of a judge of attempts that asks a model."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the scorers whose scores it gives, in this order."""

    @property
    def code(self) -> str:
        """Digest of everything that its scores depend on except the replies."""

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask the judge about one attempt. It costs nothing if nothing needs to be asked.

        Raises:
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """


def judge_code(method: JudgeMethod, *, panel: bool = False, verifier: str = "llm") -> str:
    """Return the digest of everything that a judged score depends on except the replies.

    These are the judge method, its prompts, and the code that asks and reads verdicts.

    Args:
        method: judge method.
        panel: True if the majority of several judges counts.
        verifier: name of the verifier that decides whether a text entails a claim.

    Raises:
        UserError: the method names a prompt that does not exist.
    """
    asked_by = method.asked_by.partition(":")[0]
    asking = [asked_by or _ASKING, *([_VOTING] if panel else ())]
    asking += [_ASKING, _VERIFYING] if asked_by and method.prompts else []
    codes = [code_digest(home_of(method), within=("ragrounds.evals.scorers",))]
    codes += [code_digest(module, within=_SHARED) for module in asking]
    verifiers = () if verifier == "llm" else (verifier,)
    return text_digest(*codes, *PromptFolder().digest(method.prompts).values(), *verifiers)


class LabelJudge(Struct, frozen=True):
    """Judge of attempts that gives labels (contract: :class:`AttemptJudge`)."""

    method: LabelMethod
    tries: int = TRIES
    unreadable: UnreadableReplies | None = None
    """Counter of unreadable replies. A judge that it has given up is not asked any more."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the method's scorers."""
        return tuple(scorer.name for scorer in self.method.scorers)

    @property
    def code(self) -> str:
        """Digest of the method, its prompts and the parser."""
        return judge_code(self.method)

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask the judge the method's questions, one after the other. Parts without a verdict are missing."""
        unasked = self.method.unasked(attempt, question, gold)
        if unasked:
            return JudgedAnswer(scores=unasked)
        judgements: list[Judgement] = []
        verdicts: list[Verdict] = []
        for judge_question in self.method.questions(attempt, question, gold):
            messages = prompts.render(
                judge_question.prompt, question.language, **judge_question.texts, form=judge_question.form.example
            )
            if self.unreadable is not None and self.unreadable.given_up(judge.spec):
                judgement = Judgement(values={}, reasons=dict.fromkeys(judge_question.form.axes, NOT_ASKED), calls=())
            else:
                judgement = await ask(judge, journal, messages, judge_question.form, tries=self.tries)
                if self.unreadable is not None:
                    self.unreadable.count(judge.spec, judge_question.form, judgement)
            judgements.append(judgement)
            verdicts += [
                Verdict(
                    question_id=question.id,
                    judge=judge.spec,
                    axis=subject,
                    first=attempt.run,
                    outcome=judgement.values.get(axis, ""),
                    reason=judgement.reasons.get(axis, ""),
                )
                for axis, subject in zip(judge_question.form.axes, judge_question.subjects, strict=True)
            ]
        return JudgedAnswer(
            scores=self.method.scores(attempt, gold, [(verdict.outcome, verdict.reason) for verdict in verdicts]),
            verdicts=tuple(verdicts),
            calls=tuple(call for judgement in judgements for call in judgement.calls),
            failed=any(judgement.failed for judgement in judgements),
        )


def judges_itself(judge: str, candidates: Iterable[str]) -> bool:
    """Return True if a judge is the same model as one that wrote the answers.

    Models are compared by canonical texts such as ``openai:gpt-4o[temperature=0]``. Parameters and the case of names do
    not matter.
    """
    return any(_model(judge) == _model(candidate) for candidate in candidates)


def _model(text: str) -> str:
    try:
        spec = parse(text)
    except UserError:
        spec = Spec(text)
    return spec.name.partition(":")[2].casefold() or spec.name.casefold()


class JudgeTask(Struct, frozen=True):
    """Task of one judge to judge one attempt."""

    attempt: Attempt
    question: Question
    gold: Gold
    judge: Model
    journal: Journal
    """Journal for the judge's calls."""


async def judge_tasks(
    attempt_judge: AttemptJudge,
    tasks: Sequence[JudgeTask],
    prompts: Prompts,
    *,
    at_once: int,
    admits: Callable[[JudgeTask], bool],
    done: Callable[[JudgeTask, JudgedAnswer], None],
) -> list[JudgedAnswer | None]:
    """Judge the tasks in their order and return the judged answers.

    `admits` is asked when a task's turn has come; the answer is ``None`` if it refuses. `done` is called with each
    answer.

    Raises:
        ragrounds.base.errors.StopRun: a judge cannot be asked at all; the other tasks are cancelled.
    """
    free = ResizableSemaphore(at_once)
    prefixes = KeptPrefixes(free) if uses_vllm(task.judge.spec for task in tasks) else None

    async def run_task(task: JudgeTask) -> JudgedAnswer | None:
        """Judge one task when its turn has come."""
        await free.acquire()
        try:
            if not admits(task):
                return None
            if prefixes:
                ASKED.set(AskedPrompts(prefixes))
            answer = await attempt_judge.judge(
                task.attempt, task.question, task.gold, task.judge, task.journal, prompts
            )
            done(task, answer)
            return answer
        finally:
            if prefixes:
                prefixes.ended()
            free.release()

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run_task(task)) for task in tasks]
    except* Exception as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in running]
