"""The scorers that are asked for with a run (`run --scorer`), beside those that score its questions anyway."""

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
        named: by the user.
        questions: of the benchmark.
        until: the claim that may end the runs; ``None``: there is none.

    Raises:
        UserError: scorers and a claim, which goes by the headline; an unknown scorer; one that needs a judge, or scores
            none of the questions.
    """

    def __init__(self, named: Sequence[str], questions: Sequence[Question], until: str | None = None) -> None:
        if named and until is not None:
            raise UserError("--scorer cannot be set with --until, which is decided by the benchmark's headline.")
        self._named = [find_scorer(name) for name in named]
        for scorer in self._named:
            if not any(scorer.suits(question) for question in questions):
                kinds = " and ".join(scorer.kinds)
                raise UserError(f"The scorer {scorer.name!r} is for {kinds} questions, and the benchmark has none.")
        self.first = self._named[0].name if self._named else ""
        """The name of the first; empty: none was asked for."""

    def __call__(self, question: Question) -> tuple[ScorerRecord, ...]:
        """The scorers of one question: those that are asked for, then those that score it anyway."""
        usual = scorers_for(question)
        if not self._named:
            return usual
        known = {scorer.name for scorer in usual}
        return *(one for one in self._named if one.name not in known and one.suits(question)), *usual

    def score(self, store: Store, runs: Sequence[Run]) -> tuple[str, ...]:
        """Score what these have not scored yet: attempts of earlier calls, and of workers, which know the usual scorers
        alone.

        Returns:
            The names that there are scores under.
        """
        for run in runs if self._named else ():
            questions, golds = store.questions(run)
            by_id = {question.id: question for question in questions}
            done = {one.name: store.scored(run, one.name) for one in self._named}
            made = []
            for attempt in store.attempts(run):
                question = by_id[attempt.question_id]
                made += [
                    score_by(one, attempt, question, golds[question.id])
                    for one in self._named
                    if one.suits(question) and (question.id, attempt.epoch) not in done[one.name]
                ]
            store.add_scores(run, made)
        return tuple(one.name for one in self._named if all(store.scored(run, one.name) for run in runs))
