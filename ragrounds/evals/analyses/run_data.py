"""What analyses are made of: a run's values and what its searches found, read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import Gold, Passage, Question, Run, Score
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure, PairedFigure, figure
from ragrounds.evals.compare.question_values import QuestionValues, scorer_values
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.stats import stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages, searches_by

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
    values: QuestionValues
    """Question id → mean score over epochs; an attempt without a score counts as 0, as in every table."""

    def figure(self, ids: Iterable[str] | None = None, seed: int = 0) -> Figure:
        """The figure of all questions, or of some."""
        wanted = None if ids is None else set(ids)
        chosen = [question for question in self.questions if wanted is None or question.id in wanted]
        return figure(chosen, self.values, {}, seed, described(self.scorer), self.run.epochs)


def scored_runs(store: Store, runs: Iterable[Run], scorer: str) -> list[ScoredRun]:
    """:func:`scored_run` of several runs, in their order."""
    return [scored_run(store, run, scorer) for run in runs]


def scored_run(store: Store, run: Run, scorer: str) -> ScoredRun:
    """Read a run's values under a scorer.

    Raises:
        UserError: the run has no scores under it; names those it has.
    """
    questions, golds = store.questions(run)
    mine = tuple(store.scores(run, scorer))
    if not mine:
        has = sorted({score.scorer for score in store.scores(run)})
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
        values=scorer_values(kept, mine, run.epochs, described(scorer), golds),
    )


def check_accuracy(analysis: str, scorer: str) -> None:
    """Refuse a scorer that does not say which answers are right, for an analysis that counts right answers.

    Raises:
        UserError: it does not.
    """
    if not described(scorer).accuracy:
        raise UserError(
            f"The analysis {analysis} counts right answers, and {scorer} does not say which are right. Name a scorer "
            "that does: --scorer robust, strict, mirage or equivalent."
        )


def check_share(analysis: str, scorer: str) -> None:
    """Refuse a scorer whose scores are no shares of a right answer.

    Raises:
        UserError: they are not.
    """
    known = described(scorer)
    if not known.accuracy and not known.shares:
        raise UserError(
            f"The analysis {analysis} is of answers that are right, or are to a share, and {scorer} says neither. Name "
            "a scorer that does: --scorer robust, strict, facts or equivalent."
        )


def headline_scorer(store: Store, runs: Sequence[Run]) -> str:
    """The headline of the first run's questions among the scorers that all runs have scores by; where there are none in
    common, among all.

    Raises:
        UserError: no scorer fits the questions.
    """
    present = set.intersection(*({score.scorer for score in store.scores(run)} for run in runs))
    questions, _ = store.questions(runs[0])
    headlines = headline_of(questions, present) or headline_of(questions)
    if not headlines:
        raise UserError(f"No scorer fits the questions of the run {runs[0].id}: name one with --scorer.")
    return headlines[0].scorer


def searches(store: Store, run: Run) -> dict[AttemptKey, tuple[FoundPassages, ...]]:
    """What every attempt's searches returned, in order; an attempt that did not search has an empty tuple.

    Equal searches of several attempts are read once.
    """
    read: dict[str, FoundPassages] = {}
    return {(attempt.question_id, attempt.epoch): searches_by(store, attempt, read) for attempt in store.attempts(run)}


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


def first_searches(store: Store, run: ScoredRun) -> dict[str, FoundPassages]:
    """The first search of each question of a scored run, by question id."""
    return first_found(searches(store, run.run), run.questions)


def gold_ranks(run: ScoredRun, found: Mapping[str, FoundPassages]) -> dict[str, int | None]:
    """The gold rank of every question that names gold documents and was searched for; ``None``: not found."""
    return {
        question.id: gold_rank(found[question.id].passages, run.golds[question.id])
        for question in run.questions
        if run.golds[question.id].documents and question.id in found
    }


def gold_rank(passages: Iterable[Passage], gold: Gold) -> int | None:
    """The rank (from 1) of the first passage from a gold document; ``None``: none among them."""
    wanted = set(gold.documents)
    return next((rank for rank, passage in enumerate(passages, start=1) if passage.document in wanted), None)


def share_figure(values: Iterable[tuple[Question, float]], seed: int) -> Figure | None:
    """The mean of some values with its 95 % interval; values of one question, or of its duplicates, are one cluster.
    ``None`` of none."""
    found = list(values)
    if not found:
        return None
    clusters = [cluster_of(question) for question, _ in found]
    made = stratified_mean([value for _, value in found], clusters=clusters, seed=seed)
    return Figure(value=made.value, n=made.n, missing=0, error=None, low=made.low, high=made.high, best=None)


def points(found: PairedFigure | None) -> str:
    """A difference of shares in points, with its interval where it has one; empty: there is none."""
    if found is None or found.difference is None:
        return ""
    ends = "" if found.low is None or found.high is None else f" ({100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return f"{100 * found.difference:+.1f}{ends}"
