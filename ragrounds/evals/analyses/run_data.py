"""Data of analyses, loaded from the store: a run's values and the results of its searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ragrounds.base.errors import UserError, nearest
from ragrounds.base.records import AttemptKey, Gold, Passage, Question, Run, Score
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure, PairedFigure, figure
from ragrounds.evals.compare.question_values import QuestionValues, scorer_values
from ragrounds.evals.scorers import described, headline_of
from ragrounds.evals.stats import stratified_mean
from ragrounds.evals.store.store import Store
from ragrounds.evals.trace.traces import FoundPassages, searches_by


class ScoredRun(Struct, frozen=True, kw_only=True):
    """Run with its scores under one scorer."""

    run: Run
    scorer: str
    questions: tuple[Question, ...]
    """Questions that the scorer scores."""
    golds: Mapping[str, Gold]
    scores: tuple[Score, ...]
    values: QuestionValues
    """Question id → mean score over epochs; an attempt without a score counts as 0, as in every table."""

    def figure(self, ids: Iterable[str] | None = None, seed: int = 0) -> Figure:
        """Return the figure of all questions, or of those with these ids."""
        id_set = None if ids is None else set(ids)
        selected = [question for question in self.questions if id_set is None or question.id in id_set]
        return figure(selected, self.values, {}, seed, described(self.scorer), self.run.epochs)


def scored_runs(store: Store, runs: Iterable[Run], scorer: str) -> list[ScoredRun]:
    """Load several runs with their scores, in their order; see :func:`scored_run`."""
    return [scored_run(store, run, scorer) for run in runs]


def scored_run(store: Store, run: Run, scorer: str) -> ScoredRun:
    """Load a run's values under a scorer.

    Raises:
        UserError: the run has no scores under the scorer; the message names the scorers that it has.
    """
    questions, golds = store.questions(run)
    scores = tuple(store.scores(run, scorer))
    if not scores:
        scorer_names = sorted({score.scorer for score in store.scores(run)})
        hint = nearest(scorer, scorer_names)
        available = f"It has {', '.join(scorer_names)}." if scorer_names else "It has none; see `ragrounds score`."
        raise UserError(f"The run {run.id} has no scores under the scorer {scorer!r}.{hint} {available}")
    scored_ids = {score.question_id for score in scores}
    scored_questions = tuple(question for question in questions if question.id in scored_ids)
    return ScoredRun(
        run=run,
        scorer=scorer,
        questions=scored_questions,
        golds=golds,
        scores=scores,
        values=scorer_values(scored_questions, scores, run.epochs, described(scorer), golds),
    )


def check_accuracy(analysis: str, scorer: str) -> None:
    """Raise UserError if the scorer does not say which answers are right, for an analysis that counts right answers.

    Raises:
        UserError: the scorer does not say which answers are right.
    """
    if not described(scorer).accuracy:
        raise UserError(
            f"The analysis {analysis} counts right answers, and {scorer} does not say which are right. Name a scorer "
            "that does: --scorer robust, strict, mirage or equivalent."
        )


def check_share(analysis: str, scorer: str) -> None:
    """Raise UserError if the scorer's scores are not shares of a right answer.

    Raises:
        UserError: the scores are not shares of a right answer.
    """
    record = described(scorer)
    if not record.accuracy and not record.shares:
        raise UserError(
            f"The analysis {analysis} is of answers that are right, or are to a share, and {scorer} says neither. Name "
            "a scorer that does: --scorer robust, strict, facts or equivalent."
        )


def headline_scorer(store: Store, runs: Sequence[Run]) -> str:
    """Return the headline of the first run's questions among the scorers that all runs have scores by.

    If the runs have no scorer in common, all scorers are considered.

    Raises:
        UserError: no scorer fits the questions.
    """
    common_scorers = set.intersection(*({score.scorer for score in store.scores(run)} for run in runs))
    questions, _ = store.questions(runs[0])
    headlines = headline_of(questions, common_scorers) or headline_of(questions)
    if not headlines:
        raise UserError(f"No scorer fits the questions of the run {runs[0].id}: name one with --scorer.")
    return headlines[0].scorer


def searches(store: Store, run: Run) -> dict[AttemptKey, tuple[FoundPassages, ...]]:
    """Return the results of every attempt's searches, in order; an empty tuple for an attempt that did not search.

    Equal searches of several attempts are loaded once.
    """
    cache: dict[str, FoundPassages] = {}
    return {attempt.key: searches_by(store, attempt, cache) for attempt in store.attempts(run)}


def first_found(
    searches: Mapping[AttemptKey, tuple[FoundPassages, ...]], questions: Iterable[Question]
) -> dict[str, FoundPassages]:
    """Return the first search of each question's first epoch. Questions that were never searched for are left out."""
    by_question = {question.id: searches.get((question.id, 0), ()) for question in questions}
    return {id: question_searches[0] for id, question_searches in by_question.items() if question_searches}


def first_searches(store: Store, run: ScoredRun) -> dict[str, FoundPassages]:
    """Return question id → first search for a scored run."""
    return first_found(searches(store, run.run), run.questions)


def gold_ranks(run: ScoredRun, searches: Mapping[str, FoundPassages]) -> dict[str, int | None]:
    """Return the gold rank of every question that names gold documents and was searched for; ``None`` if not found."""
    return {
        question.id: gold_rank(searches[question.id].passages, run.golds[question.id])
        for question in run.questions
        if run.golds[question.id].documents and question.id in searches
    }


def gold_rank(passages: Iterable[Passage], gold: Gold) -> int | None:
    """Return the rank (from 1) of the first passage from a gold document; ``None`` if no passage is."""
    gold_documents = set(gold.documents)
    return next((rank for rank, passage in enumerate(passages, start=1) if passage.document in gold_documents), None)


def share_figure(values: Iterable[tuple[Question, float]], seed: int) -> Figure | None:
    """Return the mean of some values with its 95 % interval; ``None`` without values.

    Values of one question, or of its duplicates, are one cluster.
    """
    pairs = list(values)
    if not pairs:
        return None
    return mean_figure([value for _, value in pairs], [cluster_of(question) for question, _ in pairs], seed)


def mean_figure(values: Sequence[float], clusters: Sequence[str], seed: int) -> Figure:
    """Return the mean of values with its 95 % interval; the values of one cluster depend on each other."""
    estimate = stratified_mean(values, clusters=clusters, seed=seed)
    return Figure(value=estimate.value, n=estimate.n, missing=0, low=estimate.low, high=estimate.high)


def points(difference: PairedFigure | None) -> str:
    """Return a difference of shares in points, with its interval if it has one; empty without a difference."""
    if difference is None or difference.difference is None:
        return ""
    text = f"{100 * difference.difference:+.1f}"
    if difference.low is None or difference.high is None:
        return text
    return f"{text} ({100 * difference.low:+.1f} to {100 * difference.high:+.1f})"
