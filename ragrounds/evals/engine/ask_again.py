"""Choosing attempts that are to be made again, and which of their calls are asked again.

What gave a good reply is not asked again: searches, and the calls of a model before the one that went wrong. Asked
again are calls without a reply, and those whose reply was filtered, had no choices or was empty. Where that leaves
nothing, and wherever an attempt ended with a text that is not taken, its last call of a model is asked again too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from ragrounds.contracts import Request
from ragrounds.errors import UserError, nearest
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.asked_again import ANSWER_STATUS, AskedAgain, AttemptKey, fault_of, retries
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from ragrounds.records import (
    OUTCOMES,
    AnswerStatus,
    Attempt,
    Call,
    Reply,
    Run,
    Status,
    blank,
    outcome,
)

RETRIED_STATUSES = tuple(name for name in get_args(Status) if name not in ("completed", "not_run"))
"""Statuses that attempts can be chosen by. One that was not made is made when the run is resumed."""
RETRIED_ANSWERS = tuple(name for name in get_args(AnswerStatus) if name != "answered")
"""Answer statuses that completed attempts can be chosen by."""


class RetryChoice(Struct, frozen=True, kw_only=True):
    """Which attempts are to be made again: those of one of these statuses and faults, and those completed with one of
    these answer statuses."""

    statuses: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    """Kinds of fault that failed attempts ended with: ``rate_limit``, ``no_choices``. With no status named, ``failed``
    is meant."""
    answer_statuses: tuple[str, ...] = ()
    """By the headline scorer."""

    def check(self) -> None:
        """Raise a UserError where nothing, or something unknown, is chosen."""
        if not (self.statuses or self.faults or self.answer_statuses):
            raise UserError(
                "Which attempts are to be made again? Name them by --status failed, by --fault rate_limit or by "
                "--answer-status empty."
            )
        known = ((self.statuses, RETRIED_STATUSES, "--status"), (self.answer_statuses, RETRIED_ANSWERS, ANSWERS))
        for given, names, option in known:
            if wrong := next((name for name in given if name not in names), None):
                raise UserError(
                    f"{option} {wrong!r} cannot be made again.{nearest(wrong, names)} It can be {', '.join(names)}."
                )

    def chosen(self, attempt: Attempt, answer_status: str | None) -> str:
        """What an attempt is chosen by; empty: it is not."""
        if attempt.status == "completed":
            read = outcome(attempt.status, answer_status)
            return f"{ANSWER_STATUS} {read}" if read in self.answer_statuses else ""
        if attempt.status not in (self.statuses or (("failed",) if self.faults else ())):
            return ""
        if not self.faults or attempt.status != "failed":
            return f"status {attempt.status}"
        fault = fault_of(attempt)
        return f"fault {fault}" if fault in self.faults else ""


ANSWERS = "--answer-status"


class RetryPlan(Struct, frozen=True, kw_only=True):
    """What is asked again of a run."""

    run: str
    attempts: Mapping[AttemptKey, AskedAgain]
    by: Mapping[str, int]
    """What attempts were chosen by → how many."""
    there: Mapping[str, int]
    """How the attempts of the run stand: failed ones by their fault, the others by status or answer status."""


def plan_retry(store: Store, run: Run, choice: RetryChoice) -> RetryPlan:
    """Find what is to be asked again. Nothing is written, and nobody is asked.

    Raises:
        UserError: nothing, or something unknown, is chosen; the run was imported.
    """
    choice.check()
    if run.origin == "imported":
        raise UserError(f"The run {run.id} was imported: there is nobody to ask again.")
    read = _answer_statuses(store, run)
    attempts: dict[AttemptKey, AskedAgain] = {}
    by, there = Counter[str](), Counter[str]()
    made = [one for one in store.summaries(run) if one.status != "not_run"]
    for one in made:
        key = (one.question_id, one.epoch)
        there[f"failed ({fault_of(one)})" if one.status == "failed" else outcome(one.status, read.get(key))] += 1
        if chosen := choice.chosen(one, read.get(key)):
            by[chosen] += 1
            whole = store.attempt(run, *key)
            attempts[key] = AskedAgain(chosen, calls_asked_again(store, whole) if whole else ())
    return RetryPlan(
        run=run.id,
        attempts=attempts,
        by=dict(sorted(by.items())),
        there=dict(sorted(there.items(), key=lambda one: (-one[1], one[0]))),
    )


def made_again(store: Store, run: Run, plan: RetryPlan) -> tuple[dict[str, int], list[float | None]]:
    """What became of the attempts of a plan that have been made again: outcome → how many, and what each cost."""
    read, left = _answer_statuses(store, run), retries(store, run).open
    keys = [key for key in plan.attempts if key not in left]
    made = {(one.question_id, one.epoch): one for one in store.summaries(run)}
    counted = Counter(outcome(made[key].status, read.get(key)) for key in keys)
    return {name: counted[name] for name in OUTCOMES if counted[name]}, [made[key].cost_paid for key in keys]


def calls_asked_again(store: Store, attempt: Attempt) -> tuple[str, ...]:
    """Keys of the recorded calls of an attempt whose replies are not taken when it is made again. A call without a
    reply is not among them: it was not recorded, so it is asked again in any case."""
    asked = [call for call in calls(attempt.events) if call.kind == "model"]
    again = [call.key for call in asked if call.key and not call.error and not _good(store, call)]
    failed = any(call.error for call in calls(attempt.events))
    if asked and (attempt.status == "completed" or not (again or failed)):
        last = asked[-1]
        again += [last.key] if last.key and not last.error else []
    return tuple(dict.fromkeys(again))


def _good(store: Store, call: Call) -> bool:
    recorded = store.call(call.key, Request, Reply)
    if recorded is None:
        return True
    reply: Reply = recorded[1]
    return reply.finish not in ("none", "content_filter") and bool(reply.calls or not blank(reply.text))


def _answer_statuses(store: Store, run: Run) -> dict[AttemptKey, str]:
    """Question id and epoch → answer status by the headline scorer of the question."""
    headline = {question.id: [one.name for one in scorers_for(question)][:1] for question in store.questions(run)[0]}
    return {
        (score.question_id, score.epoch): score.answer_status
        for score in store.scores(run)
        if [score.scorer] == headline.get(score.question_id)
    }
