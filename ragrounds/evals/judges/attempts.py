"""Attempts before a judge: one by labels, or many at a time in the order that they were given.

A judged answer is its scores with the calls that they took. What the judge could not say is missing, never right or
wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from ragrounds.contracts import Journal, Model, Prompts
from ragrounds.errors import UserError
from ragrounds.evals.judges.codes import judge_code
from ragrounds.evals.judges.silence import NOT_ASKED, HeardJournal, Silence
from ragrounds.evals.judges.verdict import TRIES, Judgement, ask
from ragrounds.evals.scorers.judged import LabelMethod
from ragrounds.records import Attempt, Call, Gold, Question, Score, Verdict
from ragrounds.specs import Spec, parse


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
            ragrounds.errors.StopRun: the judge cannot be asked at all.
        """


class LabelJudge(Struct, frozen=True):
    """Judges attempts by labels (contract: :class:`AttemptJudge`)."""

    method: LabelMethod
    tries: int = TRIES
    silence: Silence | None = None
    """Hears every reply; a judge that it has given up is asked no more."""

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
            if self.silence is not None and self.silence.given_up(judge.spec):
                made = Judgement(values={}, reasons=dict.fromkeys(asked.form.axes, NOT_ASKED), calls=())
            else:
                heard = HeardJournal(journal)
                made = await ask(judge, heard, messages, asked.form, tries=self.tries)
                if self.silence is not None:
                    self.silence.hear(judge.spec, asked.form, made, heard.text)
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


class Admission(Protocol):
    """Decides whether a task is begun."""

    def admits(self, task: JudgeTask) -> bool:
        """Whether to begin it; asked when its turn has come."""

    def judged(self, task: JudgeTask, answer: JudgedAnswer) -> None:
        """A task has ended."""


class AdmitAll:
    """Lets every task begin (contract: :class:`Admission`)."""

    def admits(self, task: JudgeTask) -> bool:
        """Always."""
        return True

    def judged(self, task: JudgeTask, answer: JudgedAnswer) -> None:
        """It makes no difference."""


async def judge_tasks(
    by: AttemptJudge,
    tasks: Sequence[JudgeTask],
    prompts: Prompts,
    *,
    at_once: int,
    admission: Admission,
    done: Callable[[JudgedAnswer], None],
) -> list[JudgedAnswer | None]:
    """The judged answer of every task, begun in their order; ``None``: it was not admitted.

    Raises:
        ragrounds.errors.StopRun: a judge cannot be asked at all; the other tasks are cancelled.
    """
    free = asyncio.Semaphore(at_once)

    async def one(task: JudgeTask) -> JudgedAnswer | None:
        """One task, when its turn has come."""
        async with free:
            if not admission.admits(task):
                return None
            answer = await by.judge(task.attempt, task.question, task.gold, task.judge, task.journal, prompts)
            admission.judged(task, answer)
            done(answer)
            return answer

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(task)) for task in tasks]
    except* Exception as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in running]
