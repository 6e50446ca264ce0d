"""What analyses are made of: a run's values, and what its attempts found. Read from the store, nothing asked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from ragrounds.contracts import SearchRequest, SearchResult
from ragrounds.errors import UserError, nearest
from ragrounds.evals.compare.figures import Figure, figure, scorer_values
from ragrounds.evals.store.store import Store
from ragrounds.evals.store.traces import calls
from ragrounds.records import Attempt, Gold, Passage, Question, Run, Score

AttemptKey = tuple[str, int]
"""Question id and epoch."""


class ScoredRun(Struct, frozen=True, kw_only=True):
    """A run under one scorer."""

    run: Run
    scorer: str
    questions: tuple[Question, ...]
    """Those that the scorer scores."""
    golds: Mapping[str, Gold]
    scores: tuple[Score, ...]
    values: Mapping[str, float | None]
    """Question id → mean score over epochs; an attempt without a score counts as 0, as in every table."""

    def figure(self, ids: Iterable[str] | None = None, seed: int = 0) -> Figure:
        """The figure of all questions, or of some."""
        wanted = None if ids is None else set(ids)
        chosen = [question for question in self.questions if wanted is None or question.id in wanted]
        return figure(chosen, self.values, {}, seed)


class FoundPassages(Struct, frozen=True):
    """What one search returned."""

    query: str
    passages: tuple[Passage, ...]


def scored_run(store: Store, run: Run, scorer: str) -> ScoredRun:
    """Read a run's values under a scorer.

    Raises:
        UserError: the run has no scores under it; names those it has.
    """
    questions, golds = store.questions(run)
    scores = store.scores(run)
    mine = tuple(score for score in scores if score.scorer == scorer)
    if not mine:
        has = sorted({score.scorer for score in scores})
        hint = nearest(scorer, has)
        known = f"It has {', '.join(has)}." if has else "It has none; see `ragrounds score`."
        raise UserError(f"The run {run.id} has no scores under the scorer {scorer!r}.{hint} {known}")
    scored = {score.question_id for score in mine}
    kept = tuple(question for question in questions if question.id in scored)
    return ScoredRun(
        run=run,
        scorer=scorer,
        questions=kept,
        golds=golds,
        scores=mine,
        values=scorer_values(kept, mine, run.epochs),
    )


def searches(store: Store, run: Run) -> dict[AttemptKey, tuple[FoundPassages, ...]]:
    """What every attempt's searches returned, in order; an attempt that did not search has an empty tuple.

    Equal searches of several attempts are read once.
    """
    read: dict[str, FoundPassages] = {}
    return {(attempt.question_id, attempt.epoch): found_by(store, attempt, read) for attempt in store.attempts(run)}


def found_by(store: Store, attempt: Attempt, read: dict[str, FoundPassages] | None = None) -> tuple[FoundPassages, ...]:
    """What one attempt's searches returned, in order; `read` keeps what was read, by the calls' keys."""
    known = {} if read is None else read
    asked = [call.key for call in calls(attempt.events) if call.kind == "search" and call.key and not call.error]
    for key in asked:
        if key not in known:
            recorded = store.call(key, SearchRequest, SearchResult)
            known[key] = FoundPassages(recorded[0].query, recorded[1].passages) if recorded else FoundPassages("", ())
    return tuple(known[key] for key in asked)


def first_found(
    found: Mapping[AttemptKey, tuple[FoundPassages, ...]], questions: Iterable[Question]
) -> dict[str, FoundPassages]:
    """The first search of each question's first epoch; questions that were never searched for are left out."""
    firsts: dict[str, FoundPassages] = {}
    for question in questions:
        made = found.get((question.id, 0), ())
        if made:
            firsts[question.id] = made[0]
    return firsts


def gold_rank(passages: Iterable[Passage], gold: Gold) -> int | None:
    """The rank (from 1) of the first passage from a gold document; ``None``: none among them."""
    wanted = set(gold.documents)
    return next((rank for rank, passage in enumerate(passages, start=1) if passage.document in wanted), None)
