"""The graders by name, the questions that each can grade, and the verdicts that it left in the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from msgspec import Struct

from ragrounds.errors import UserError, nearest
from ragrounds.evals.benchmarks.families.kqa import STATEMENTS, must_have, nice_to_have
from ragrounds.evals.judges.attempts import AttemptJudge
from ragrounds.evals.judges.equivalence import CONTRACT, Equivalence
from ragrounds.evals.judges.ragas import METRICS, PROTOCOLS, Metric, Ragas, installed
from ragrounds.evals.judges.statements import (
    CONTRADICTED,
    CONTRADICTION,
    ENTAILED,
    NEUTRAL,
    Statements,
    outcomes,
)
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import FoundPassages, searches_by
from ragrounds.models.prices import Price
from ragrounds.records import Attempt, Gold, Passage, Question, Run, Score
from ragrounds.tools.cards import NamedEmbedder


class Means(Struct, frozen=True, kw_only=True):
    """What graders may need beside a judge."""

    store: Store
    embedder: NamedEmbedder | None = None
    prices: Mapping[str, Price] = {}


class Kind(Struct, frozen=True, kw_only=True):
    """A way to grade long answers."""

    grader: Callable[[Means], AttemptJudge]
    needs: str
    """What a question must have, in words."""
    fits: Callable[[Question, Gold], bool]
    scorer: str
    """Whose scores hold the verdicts."""
    labels: tuple[str, ...]
    """What a verdict may be; empty: verdicts are numbers."""
    verdicts: Callable[[Score], dict[str, str | None]]
    """Item → verdict (``None``: missing), from a score under `scorer`."""
    beside: Callable[[Gold], dict[str, str]]
    """Item → the text that a question's answer is set against: the reference, or a statement."""


def _grade(score: Score) -> dict[str, str | None]:
    return {score.question_id: score.prediction or None}


def _by_statement(score: Score) -> dict[str, str | None]:
    return {f"{score.question_id}#{number}": outcome for number, outcome in enumerate(outcomes(score), 1)}


def _statements(gold: Gold) -> dict[str, str]:
    every = (*must_have(gold), *nice_to_have(gold))
    return {f"{gold.question_id}#{number}": statement for number, statement in enumerate(every, 1)}


def _by_ragas(metrics: tuple[Metric, ...]) -> Kind:
    def grader(means: Means) -> AttemptJudge:
        installed()
        needy = [metric.scorer for metric in metrics if metric.embedder]
        if needy and means.embedder is None:
            raise UserError(
                f"{needy[0]} compares questions by their vectors: name an embedder, --embedder 'dense[model=…]' or a "
                f"card of `ragrounds retrievers`, or one of {', '.join(sorted(set(PROTOCOLS) - set(needy)))} as --kind."
            )
        read: dict[str, FoundPassages] = {}

        def passages(attempt: Attempt) -> list[Passage]:
            found = (passage for search in searches_by(means.store, attempt, read) for passage in search.passages)
            return list({passage.id: passage for passage in found}.values())

        return Ragas(passages=passages, metrics=metrics, embedder=means.embedder, prices=means.prices)

    return Kind(
        grader=grader,
        needs="a long answer",
        fits=lambda question, gold: question.kind == "long",
        scorer=metrics[0].scorer,
        labels=(),
        verdicts=lambda score: {},
        beside=lambda gold: {},
    )


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "equivalence": Kind(
            grader=lambda means: Equivalence(),
            needs="a reference answer in words",
            fits=lambda question, gold: question.kind == "long" and bool(gold.answer.strip()),
            scorer="equivalent",
            labels=CONTRACT.values,
            verdicts=_grade,
            beside=lambda gold: {gold.question_id: gold.answer},
        ),
        "statements": Kind(
            grader=lambda means: Statements(),
            needs="statements for a judge",
            fits=lambda question, gold: question.metadata.get("facts") == STATEMENTS and bool(must_have(gold)),
            scorer=CONTRADICTION,
            labels=(ENTAILED, NEUTRAL, CONTRADICTED),
            verdicts=_by_statement,
            beside=_statements,
        ),
        "ragas": _by_ragas(METRICS),
        **{metric.scorer: _by_ragas((metric,)) for metric in METRICS},
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


def labelling(name: str) -> Kind:
    """A kind of grading whose verdicts are labels, so that people can give them too.

    Raises:
        UserError: there is none of this name, or its verdicts are numbers.
    """
    found = kind(name)
    if not found.labels:
        known = ", ".join(name for name, each in KINDS.items() if each.labels)
        raise UserError(f"--kind {name!r} gives numbers, which people's labels cannot be set against. Known: {known}.")
    return found


def judgeable(store: Store, run: Run, kind: Kind, epochs: Collection[int] = ()) -> Callable[[Attempt], bool]:
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
    scores = [score for score in store.scores(run, kind.scorer) if score.epoch == epoch]
    if not scores:
        raise UserError(
            f"Epoch {epoch} of {run.id} has no scores under {kind.scorer!r}; judge it first with `ragrounds judge`."
        )
    return {item: verdict for score in scores for item, verdict in kind.verdicts(score).items()}
