"""The graders by name, the questions that each can grade, and the verdicts that it left in the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

from ragrounds.errors import UserError, nearest
from ragrounds.evals.benchmarks.families.kqa import STATEMENTS, must_have
from ragrounds.evals.grading.equivalence import CONTRACT, Equivalence
from ragrounds.evals.grading.grade import Grader
from ragrounds.evals.grading.statements import (
    CONTRADICTED,
    CONTRADICTION,
    ENTAILED,
    NEUTRAL,
    Statements,
    outcomes,
)
from ragrounds.evals.store.store import Store
from ragrounds.records import Attempt, Gold, Question, Run, Score


class Kind(Struct, frozen=True, kw_only=True):
    """A way to grade long answers."""

    grader: Grader
    needs: str
    """What a question must have, in words."""
    fits: Callable[[Question, Gold], bool]
    protocol: str
    """Whose scores hold the verdicts."""
    labels: tuple[str, ...]
    verdicts: Callable[[Score], dict[str, str | None]]
    """Item → verdict (``None``: missing), from a score under `protocol`."""


def _grade(score: Score) -> dict[str, str | None]:
    return {score.question_id: score.prediction or None}


def _by_statement(score: Score) -> dict[str, str | None]:
    return {f"{score.question_id}#{number}": outcome for number, outcome in enumerate(outcomes(score), 1)}


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "equivalence": Kind(
            grader=Equivalence(),
            needs="a reference answer in words",
            fits=lambda question, gold: question.kind == "long" and bool(gold.answer.strip()),
            protocol="equivalent",
            labels=CONTRACT.values,
            verdicts=_grade,
        ),
        "statements": Kind(
            grader=Statements(),
            needs="statements for a judge",
            fits=lambda question, gold: question.metadata.get("facts") == STATEMENTS and bool(must_have(gold)),
            protocol=CONTRADICTION,
            labels=(ENTAILED, NEUTRAL, CONTRADICTED),
            verdicts=_by_statement,
        ),
    }
)


def kind(name: str) -> Kind:
    """A kind of grading by its name.

    Raises:
        UserError: there is none of this name.
    """
    if name not in KINDS:
        raise UserError(f"--kind {name!r} is unknown.{nearest(name, KINDS)} Known: {', '.join(KINDS)}.")
    return KINDS[name]


def gradable(store: Store, run: Run, kind: Kind, epochs: Collection[int] = ()) -> Callable[[Attempt], bool]:
    """Which attempts of a run are for this kind of grading, in these epochs or in all.

    Raises:
        UserError: the run has no such question, or not that many epochs.
    """
    for epoch in epochs:
        if not 0 <= epoch < run.epochs:
            raise UserError(f"The run {run.id} has no epoch {epoch}; it has {run.epochs:,}, counted from 0.")
    questions, golds = store.questions(run)
    fitting = {question.id for question in questions if kind.fits(question, golds[question.id])}
    if not fitting:
        known = ", ".join(name for name, each in KINDS.items() if each is not kind)
        raise UserError(f"No question of {run.id} has {kind.needs}. Other kinds of judging: {known}.")
    return lambda attempt: attempt.question_id in fitting and (not epochs or attempt.epoch in epochs)


def verdicts(store: Store, run: Run, kind: Kind, epoch: int = 0) -> dict[str, str | None]:
    """What the judge said, by item: a question's id, for statements with ``#1``, ``#2``, … in the benchmark's order,
    the must-have statements first.

    Raises:
        UserError: the run was not judged in this way.
    """
    scores = [score for score in store.scores(run, kind.protocol) if score.epoch == epoch]
    if not scores:
        raise UserError(
            f"Epoch {epoch} of {run.id} has no scores under {kind.protocol!r}; judge it first with `ragrounds judge`."
        )
    return {item: verdict for score in scores for item, verdict in kind.verdicts(score).items()}
