"""The scorers that are requested with a run (`run --scorer`), in addition to the usual scorers of its questions."""

from __future__ import annotations

from collections.abc import Sequence

from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run
from ragrounds.evals.scorers import find_scorer, score_by, scorers_for
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.store.store import Store


class RunScorers:
    """Scorers by name or import path; the first is the headline of the run's table and live figure.

    Args:
        scorer_names: names given by the user.
        questions: questions of the benchmark.
        until: the claim that may end the runs; ``None`` without a claim.

    Raises:
        UserError: scorers are combined with a claim, which is decided by the headline; a scorer is unknown, needs a
            judge, or scores none of the questions.
    """

    def __init__(self, scorer_names: Sequence[str], questions: Sequence[Question], until: str | None = None) -> None:
        if scorer_names and until is not None:
            raise UserError("--scorer cannot be set with --until, which is decided by the benchmark's headline.")
        self._requested = [find_scorer(name) for name in scorer_names]
        for scorer in self._requested:
            if not any(scorer.suits(question) for question in questions):
                kinds = " and ".join(scorer.kinds)
                raise UserError(f"The scorer {scorer.name!r} is for {kinds} questions, and the benchmark has none.")
        self.first = self._requested[0].name if self._requested else ""
        """Name of the first scorer; empty if none was requested."""

    def __call__(self, question: Question) -> tuple[ScorerRecord, ...]:
        """Return the scorers of one question: the requested ones, then the usual ones."""
        usual = scorers_for(question)
        if not self._requested:
            return usual
        usual_names = {scorer.name for scorer in usual}
        return *(
            scorer for scorer in self._requested if scorer.name not in usual_names and scorer.suits(question)
        ), *usual

    def score(self, store: Store, runs: Sequence[Run]) -> tuple[str, ...]:
        """Score attempts that have no score yet: those of earlier calls, and of workers, which know only the usual
        scorers.

        Returns:
            The names of the scorers that have scored all runs.
        """
        for run in runs if self._requested else ():
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            scored = {scorer.name: store.scored(run, scorer.name) for scorer in self._requested}
            new_scores = []
            for attempt in store.attempts(run):
                question = by_id[attempt.question_id]
                new_scores += [
                    score_by(scorer, attempt, question, golds[question.id])
                    for scorer in self._requested
                    if scorer.suits(question) and (question.id, attempt.epoch) not in scored[scorer.name]
                ]
            store.add_scores(run, new_scores)
        return tuple(scorer.name for scorer in self._requested if all(store.scored(run, scorer.name) for run in runs))
