"""Ending a run when a claim about it is decided (contract: :class:`ragrounds.evals.engine.plan.Stop`).

Attempts end in any order; what counts are rounds of questions that all agents have answered in every epoch, in the
order in which they were drawn. A round whose slowest answer is still out holds back those behind it: were quick ones
counted first, the order would depend on the answers, and the interval would hold nothing.

An attempt that failed is not correct, as in the tables. The same command asks it again, and what it then brings
replaces it; a claim that was decided stays decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ragrounds.errors import UserError
from ragrounds.evals.compare.claims import resolved
from ragrounds.evals.compare.comparability import in_order
from ragrounds.evals.compare.expressions import parse_claim
from ragrounds.evals.compare.watching import Watch, Watched
from ragrounds.evals.engine.plan import FINAL, FinishedAttempt
from ragrounds.evals.engine.progress import outcome
from ragrounds.evals.engine.question_order import QuestionRound, draw, within
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run, Score


class Until:
    """Watches the runs of one replay for a claim."""

    whole = True

    def __init__(self, claim: str, runs: Sequence[Run], questions: Iterable[Question], *, seed: int, most: int | None):
        """Draw the order and read the claim.

        Args:
            claim: see :mod:`ragrounds.evals.compare.expressions`.
            runs: those of the replay; the claim's must be among them.
            questions: the benchmark's.
            seed: of the order.
            most: questions to ask at most.

        Raises:
            UserError: a claim that cannot be read or watched, or names another run; no question has a score while it
                runs; `most` is less than a round has.
        """
        self.runs, self.seed = tuple(runs), seed
        self.claim = resolved(parse_claim(claim), runs)
        self._watch = Watch(self.claim)
        every = list(questions)
        self.scorer = _scorer(every)
        asked = [one for one in every if _scored(one, self.scorer)]
        rounds = draw(asked, seed)
        self.rounds = rounds if most is None else within(rounds, most)
        self.last = "--max-questions is reached" if len(self.rounds) < len(rounds) else _used_up(rounds, asked)
        """Why there is no further question after the last round."""
        if not self.rounds:
            raise UserError(
                f"--max-questions {most}: a round has {len(rounds[0].questions)} questions (one of each dataset, "
                "duplicates together); give as many or more."
            )
        self._measures = {term.measure for condition in self.claim.conditions for term in condition.terms}
        self._held: dict[tuple[str, str], dict[int, Mapping[str, float | None]]] = defaultdict(dict)
        self._next = 0
        self.settled: Watched | None = None
        """The decision of an earlier command, which stands."""

    @property
    def questions(self) -> list[Question]:
        """What is asked, in this order."""
        return [question for one in self.rounds for question in one.questions]

    @property
    def now(self) -> Watched:
        """How the claim stands."""
        return self.settled or self._watch.now

    def read(self, store: Store) -> None:
        """Take what the runs have already; attempts that are to be made again are not there yet."""
        for run in self.runs:
            scores: dict[tuple[str, int], Score] = {
                (score.question_id, score.epoch): score for score in store.scores(run, self.scorer)
            }
            for key, status in store.done(run).items():
                if status in FINAL:
                    self._hold(run.id, *key, status, scores.get(key))
        self._count()

    def hear(self, finished: FinishedAttempt) -> None:
        """An attempt ended."""
        attempt = finished.attempt
        score = next((one for one in finished.scores if one.scorer == self.scorer), None)
        self._hold(finished.run.id, attempt.question_id, attempt.epoch, attempt.status, score)
        self._count()

    def reached(self) -> str:
        """Why no further question is to be begun."""
        now = self.now
        if now.decision == "cannot tell":
            return ""
        return f"{now.claim!r} {now.decision} after {now.questions:,} questions"

    def _hold(self, run: str, question: str, epoch: int, status: str, score: Score | None) -> None:
        told = {measure: measured(measure, status, score) for measure in self._measures}
        self._held[run, question][epoch] = told

    def _count(self) -> None:
        while self._next < len(self.rounds) and self._watch.decision == "cannot tell":
            drawn = self.rounds[self._next]
            if not self._complete(drawn):
                return
            self._watch.hear(drawn, self._value)
            self._next += 1
            for question in drawn.questions:
                for run in self.runs:
                    del self._held[run.id, question.id]

    def _complete(self, drawn: QuestionRound) -> bool:
        return all(
            len(self._held.get((run.id, question.id), ())) >= run.epochs
            for question in drawn.questions
            for run in self.runs
        )

    def _value(self, measure: str, run: str, question: str) -> float | None:
        found = [told[measure] for told in self._held[run, question].values()]
        known = [number for number in found if number is not None]
        return sum(known) / len(found) if len(known) == len(found) else None


def measured(measure: str, status: str, score: Score | None) -> float | None:
    """What an attempt brings to a measure: its score, 0 where it has none, ``None`` where the score is missing; or
    whether it ended so."""
    if measure == "accuracy":
        return 0.0 if score is None else score.value
    return float(outcome(status, score.answer_status if score else "answered") == measure)


def _used_up(rounds: Sequence[QuestionRound], asked: Iterable[Question]) -> str:
    datasets = Counter(question.benchmark for question in asked)
    if len(datasets) == 1:
        return "all questions are answered"
    drawn = Counter(question.benchmark for one in rounds for question in one.questions)
    ended = [name for name, count in datasets.items() if drawn[name] == count]
    return f"all questions of {', '.join(ended)} are answered, and a draw takes one of each dataset"


def _scorer(questions: Sequence[Question]) -> str:
    known = {made.scorer for question in questions for made in scorers_for(question)}
    return in_order(known)[0]


def _scored(question: Question, scorer: str) -> bool:
    return scorer in {made.scorer for made in scorers_for(question)}
