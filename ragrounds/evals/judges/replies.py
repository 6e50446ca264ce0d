"""What judges replied about one attempt, read again from the recorded calls: no model is asked.

The questions that a way of judging puts to its judge are made again, and the calls are looked up by their keys. So a
reply to another wording of the prompt (an earlier version's) is not found, and neither is one of ragas' judges: then
the judges of the run are named alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from ragrounds.contracts import Entry, Request
from ragrounds.errors import StopRun
from ragrounds.evals.judges.attempts import LabelJudge
from ragrounds.evals.judges.methods import judge_methods
from ragrounds.evals.judges.recorded import AbsentModel, finished
from ragrounds.evals.scorers import described
from ragrounds.evals.scorers.judged import JudgedScorer, LabelMethod
from ragrounds.evals.store.codec import DamagedRecord
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import JudgeReply, Trace
from ragrounds.prompts.loader import PromptFolder
from ragrounds.records import Attempt, Gold, Question, Reply, Run, Score

T = TypeVar("T")


class RecordedReplies:
    """Looks calls up and makes none (contract: :class:`ragrounds.contracts.Journal`); keeps the replies."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.replies: list[Reply] = []

    async def once(self, entry: Entry, make: Callable[[], Awaitable[T]], kind: type[T]) -> tuple[T, bool]:
        """The recorded reply.

        Raises:
            ragrounds.errors.StopRun: there is none, or it is damaged.
        """
        try:
            found = self._store.call(entry.key, Request, kind)
        except DamagedRecord as damaged:
            raise StopRun(str(damaged)) from None
        if found is None:
            raise StopRun("the call is not recorded")
        reply: T = found[1]
        if isinstance(reply, Reply):
            self.replies.append(reply)
        return reply, True


def judge_replies(
    store: Store, run: Run, attempt: Attempt, question: Question, gold: Gold, scores: tuple[Score, ...]
) -> tuple[JudgeReply, ...]:
    """What each judge of a run replied about an attempt, by scorer and judge, in the order of the calls.

    Args:
        store: of the run.
        run: judged.
        attempt: of the run.
        question: of the attempt.
        gold: of the question.
        scores: of the attempt, by all scorers.
    """
    judged = [(score.scorer, one) for score in scores if isinstance(one := described(score.scorer), JudgedScorer)]
    if not judged:
        return ()
    judges, methods = store.judges(run), judge_methods()
    made: list[JudgeReply] = []
    for name, scorer in judged:
        method = methods.get(scorer.judging)
        told: dict[str, list[Reply]] = {}
        if isinstance(method, LabelMethod):
            found = {judge: _replies(store, method, judge, attempt, question, gold) for judge in judges}
            told = {judge: replies for judge, replies in found.items() if replies is not None}
        made += [
            JudgeReply(scorer=name, judge=judge, model=one.model, text=one.text)
            for judge, replies in told.items()
            for one in replies
        ]
        if judges and not told:
            made.append(JudgeReply(scorer=name, judge=" or ".join(judges), text="", told=False))
    return tuple(made)


def with_replies(store: Store, trace: Trace) -> Trace:
    """A trace with what judges replied about it."""
    made = judge_replies(store, trace.run, trace.attempt, trace.question, trace.gold, trace.scores)
    return replace(trace, judged=made)


def _replies(
    store: Store, method: LabelMethod, judge: str, attempt: Attempt, question: Question, gold: Gold
) -> list[Reply] | None:
    """Empty: nothing needed to be asked. ``None``: not this judge was asked, or in other words."""
    recorded = RecordedReplies(store)
    with suppress(StopRun):
        finished(LabelJudge(method).judge(attempt, question, gold, AbsentModel(judge), recorded, PromptFolder()))
        return recorded.replies
    return recorded.replies or None
