"""Attempts before a judge: one by labels, or many at a time in the order that they were given.

A judged answer is its scores with the calls that they took. What the judge could not say is missing, never right or
wrong. A judge of whose first replies none can be read is given up, long before every answer was put to it.
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
from ragrounds.models.traffic import ResizableSemaphore
from ragrounds.prompts.loader import PromptFolder

_ASKING = "ragrounds.evals.judges.verdict"
_VOTING = "ragrounds.evals.judges.panel"
_VERIFYING = "ragrounds.evals.judges.verifiers"
FIRST = 20
"""Replies after which a judge is given up, where none of them could be read."""
NOT_ASKED = "not asked any more"
_APART = (FAILED, REFUSED, NOT_ASKED)
"""Reasons of verdicts that are missing though no reply was unreadable."""


class UnreadableReply(Struct, frozen=True, kw_only=True):
    """The first reply of a judge that holds no verdict."""

    judge: str
    asked: str
    """The form of the verdict that was asked for, as it stands in the prompt."""
    text: str
    """What it said, from outside: to be shown as text."""


@dataclass(eq=False)
class _Counted:
    """The replies of one judge."""

    spoke: bool = False
    unreadable: int = 0
    first: UnreadableReply | None = None


class UnreadableReplies:
    """Counts what judges reply without a verdict, each judge by itself, and says whom to ask no more: one that does
    not keep to the form costs as much as one that does.

    Args:
        patient: no judge is ever given up.
    """

    def __init__(self, patient: bool = False) -> None:
        self._patient = patient
        self._counted: dict[str, _Counted] = {}

    def count(self, judge: str, form: VerdictForm, made: Judgement) -> None:
        """Note what came of asking a judge."""
        one = self._counted.setdefault(judge, _Counted())
        one.spoke = one.spoke or bool(made.values)
        replies = [call for call in made.calls if not call.error]
        if replies and any(unreadable(reason) for reason in made.reasons.values()):
            one.unreadable += len(replies)
            one.first = one.first or UnreadableReply(judge=judge, asked=form.example, text=made.said)

    def given_up(self, judge: str) -> bool:
        """Whether none of a judge's first `FIRST` replies could be read."""
        one = self._counted.get(judge)
        return one is not None and not self._patient and not one.spoke and one.unreadable >= FIRST

    def reached(self) -> str:
        """Say who was given up, and why; empty: nobody."""
        for judge, one in self._counted.items():
            if self.given_up(judge):
                return f"none of the first {one.unreadable:,} replies of {judge} holds a verdict that can be read"
        return ""

    def first(self) -> tuple[UnreadableReply, ...]:
        """Of every judge what it said first that could not be read."""
        return tuple(one.first for one in self._counted.values() if one.first is not None)


def unreadable(reason: str) -> bool:
    """Whether this is why a reply could not be read; not: no reply came, a filter refused, nothing was asked."""
    return bool(reason) and reason not in _APART


def none_readable(verdicts: Iterable[Verdict]) -> str:
    """Why none of these verdicts could be read; empty: one could, or no reply was unreadable."""
    given = list(verdicts)
    reasons = (verdict.reason for verdict in given if unreadable(verdict.reason))
    return "" if any(verdict.outcome for verdict in given) else next(reasons, "")


class JudgedAnswer(Struct, frozen=True, kw_only=True):
    """One attempt's scores by a judge, with all that was said and paid."""

    scores: tuple[Score, ...]
    verdicts: tuple[Verdict, ...] = ()
    calls: tuple[Call, ...] = ()
    """The judge's calls, role ``judging``: for the ledger."""
    failed: bool = False
    """A call gave no reply: judging again may give what is missing."""


class AttemptJudge(Protocol):
    """Judges attempts by a model."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the scorers whose scores it gives, in the order that they are given."""

    @property
    def code(self) -> str:
        """The digest of what its scores rest on beside the replies."""

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Ask the judge about one attempt; free where nothing needs to be asked.

        Raises:
            ragrounds.base.errors.StopRun: the judge cannot be asked at all.
        """


def judge_code(method: JudgeMethod, *, panel: bool = False, verifier: str = "llm") -> str:
    """The digest of what a judged score rests on beside the replies: the way of judging, its prompts, and the code that
    asks and reads verdicts.

    Args:
        method: the way of judging.
        panel: the majority of several judges counts.
        verifier: what says whether a text entails a claim.

    Raises:
        UserError: it names a prompt that is not there.
    """
    asking = [method.asked_by.partition(":")[0] or _ASKING, *([_VOTING] if panel else ())]
    asking += [_ASKING, _VERIFYING] if method.verifiers else []
    codes = [code_digest(home_of(method), within=("ragrounds.evals.scorers",)), *map(code_digest, asking)]
    by = () if verifier == "llm" else (verifier,)
    return text_digest(*codes, *PromptFolder().digest(method.prompts).values(), *by)


class LabelJudge(Struct, frozen=True):
    """Judges attempts by labels (contract: :class:`AttemptJudge`)."""

    method: LabelMethod
    tries: int = TRIES
    unreadable: UnreadableReplies | None = None
    """Counts them; a judge that it has given up is asked no more."""

    @property
    def scorers(self) -> tuple[str, ...]:
        """Names of the method's scorers."""
        return tuple(scorer.name for scorer in self.method.scorers)

    @property
    def code(self) -> str:
        """The digest of the method, its prompts and the parser."""
        return judge_code(self.method)

    async def judge(
        self, attempt: Attempt, question: Question, gold: Gold, judge: Model, journal: Journal, prompts: Prompts
    ) -> JudgedAnswer:
        """Put the method's questions to the judge, one after the other; what has no verdict is missing."""
        unasked = self.method.unasked(attempt, question, gold)
        if unasked:
            return JudgedAnswer(scores=unasked)
        judgements: list[Judgement] = []
        verdicts: list[Verdict] = []
        for asked in self.method.questions(attempt, question, gold):
            messages = prompts.render(asked.prompt, question.language, **asked.texts, form=asked.form.example)
            if self.unreadable is not None and self.unreadable.given_up(judge.spec):
                made = Judgement(values={}, reasons=dict.fromkeys(asked.form.axes, NOT_ASKED), calls=())
            else:
                made = await ask(judge, journal, messages, asked.form, tries=self.tries)
                if self.unreadable is not None:
                    self.unreadable.count(judge.spec, asked.form, made)
            judgements.append(made)
            verdicts += [
                Verdict(
                    question_id=question.id,
                    judge=judge.spec,
                    axis=subject,
                    first=attempt.run,
                    outcome=made.values.get(axis, ""),
                    reason=made.reasons.get(axis, ""),
                )
                for axis, subject in zip(asked.form.axes, asked.subjects, strict=True)
            ]
        return JudgedAnswer(
            scores=self.method.scores(attempt, gold, [(verdict.outcome, verdict.reason) for verdict in verdicts]),
            verdicts=tuple(verdicts),
            calls=tuple(call for made in judgements for call in made.calls),
            failed=any(made.failed for made in judgements),
        )


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


class JudgeTask(Struct, frozen=True):
    """An attempt that one judge is to judge."""

    attempt: Attempt
    question: Question
    gold: Gold
    judge: Model
    journal: Journal
    """What the judge's calls go through."""


async def judge_tasks(
    by: AttemptJudge,
    tasks: Sequence[JudgeTask],
    prompts: Prompts,
    *,
    at_once: int,
    admits: Callable[[JudgeTask], bool],
    done: Callable[[JudgeTask, JudgedAnswer], None],
) -> list[JudgedAnswer | None]:
    """The judged answer of every task, begun in their order where `admits`, asked in its turn, says so; ``None``: it
    was not. `done` is told of each.

    Raises:
        ragrounds.base.errors.StopRun: a judge cannot be asked at all; the other tasks are cancelled.
    """
    free = ResizableSemaphore(at_once)
    kept = KeptPrefixes(free, {task.judge.spec for task in tasks})

    async def one(task: JudgeTask) -> JudgedAnswer | None:
        """One task, when its turn has come."""
        await free.acquire()
        try:
            if not admits(task):
                return None
            ASKED.set(AskedPrompts(kept))
            answer = await by.judge(task.attempt, task.question, task.gold, task.judge, task.journal, prompts)
            done(task, answer)
            return answer
        finally:
            kept.ended()
            free.release()

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    except* Exception as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in running]
