"""Runs that ended when a claim was decided: what is kept of that, and what may be said of them afterwards.

How many questions such a run has depends on its own results, so an interval or a test for a number of questions that
was fixed beforehand does not hold for it. In their place stands the interval by which it was watched: valid at every
number of questions at once, whatever made the run end. A run that went on to its last question is like any other.

Ending a run when a claim about it is decided (contract: :class:`ragrounds.contracts.Stop`).

Attempts end in any order; what counts are rounds of questions that all agents have answered in every epoch, in the
order in which they were drawn. A round whose slowest answer is still out holds back those behind it: were quick ones
counted first, the order would depend on the answers, and the interval would hold nothing.

An attempt that failed is not correct, as in the tables. The same command asks it again, and what it then brings
replaces it; a claim that was decided stays decided.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from ragrounds.contracts import FinishedAttempt
from ragrounds.errors import UserError
from ragrounds.evals.compare.claims import ClaimState, LiveClaim, parse_claim, resolved
from ragrounds.evals.compare.comparability import ComparisonBasis, common_questions, in_order
from ragrounds.evals.compare.figures import PairedFigure, Values
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds, rounds_within
from ragrounds.evals.scorers import scorers_for
from ragrounds.evals.stats.sequential import ConfidenceSequence, SequentialInterval
from ragrounds.evals.store import schema
from ragrounds.evals.store.codec import compress, decompress
from ragrounds.evals.store.database import upsert, writing_failed
from ragrounds.evals.store.store import Store
from ragrounds.records import FINAL, Question, Run, Score, outcome


class StopRecord(Struct, frozen=True, kw_only=True):
    """What is kept with each run that was watched for a claim."""

    runs: tuple[str, ...]
    """All that were watched together."""
    seed: int
    """Of the order in which questions were asked."""
    scorer: str
    """That accuracy is by."""
    watched: ClaimState
    """How the claim stood when the command ended; before that: at its beginning."""
    reason: str = ""
    """Why no further question was begun; empty: the claim was decided, or the command did not end by itself."""


def save_stop(store: Store, stopping: StopRecord) -> None:
    """Write how a claim stands, with each of its runs.

    Raises:
        StopRun: the store cannot be written.
    """
    body = compress(msgspec.msgpack.encode(stopping))
    runs = {run.id: run for run in store.runs()}
    rows = [
        {
            "run": store.number(runs[id]),
            "claim": stopping.watched.claim,
            "seed": str(stopping.seed),
            "body": body,
        }
        for id in stopping.runs
    ]
    try:
        with store.engine.begin() as connection:
            connection.execute(upsert(store.engine, schema.stoppings), rows)
    except sa.exc.SQLAlchemyError as error:
        raise writing_failed(store.engine, error) from error


def stop_records(store: Store, run: Run) -> list[StopRecord]:
    """What a run was ever watched for."""
    table = schema.stoppings
    with store.engine.connect() as connection:
        rows = connection.execute(sa.select(table.c.body).where(table.c.run == store.number(run)))
        return [msgspec.msgpack.decode(decompress(row.body), type=StopRecord) for row in rows]


def earlier_decision(store: Store, runs: Sequence[Run], claim: str, seed: int) -> StopRecord | None:
    """The decision of an earlier command on the same claim about the same runs: it stands.

    Raises:
        UserError: a run was watched in another order. Whoever may draw until an order suits finds what they look for.
    """
    ids = tuple(run.id for run in runs)
    for run in runs:
        for known in stop_records(store, run):
            if known.seed != seed:
                raise UserError(
                    f"{run.id} was watched with its questions in the order of --seed {known.seed}; an order is drawn "
                    f"once. Give --seed {known.seed}, or --new for another run."
                )
            if known.runs == ids and known.watched.claim == claim and known.watched.decision != "cannot tell":
                return known
    return None


def ended_early(store: Store, runs: Sequence[Run]) -> bool:
    """Whether one of these runs was watched, and has not gone on to its last question."""
    return any(stop_records(store, run) and _partial(store, run) for run in runs)


class StoppedRuns:
    """Of some runs those that ended early by their own results, and the intervals that hold for them."""

    def __init__(self, store: Store, runs: Sequence[Run], ground: ComparisonBasis) -> None:
        self._ground = ground
        self.by_run = {
            run.id: known[-1] for run in runs if (known := stop_records(store, run)) and _partial(store, run)
        }
        # Not only what all have answered: where a question is still out, those behind it do not count.
        self._shared = common_questions(store, runs, True)[0] if self.by_run else []
        made = {run.id: Counter(one.question_id for one in ground.summaries[run.id]) for run in runs}
        self._answered = {
            id: {question for question, count in counts.items() if count >= ground.epochs}
            for id, counts in made.items()
        }

    def __bool__(self) -> bool:
        return bool(self.by_run)

    @property
    def notes(self) -> list[str]:
        """What a reader must know."""
        together: dict[tuple[str, ...], ClaimState] = {}
        for known in self.by_run.values():
            together[tuple(run for run in known.runs if run in self.by_run)] = known.watched
        said = []
        for runs, watched in together.items():
            how = "is not decided" if watched.decision == "cannot tell" else watched.decision
            said.append(
                f"{', '.join(runs)}: how many questions are answered depends on the results, for {watched.claim!r} was "
                f"watched; it {how} after {watched.questions:,} questions. Intervals of differences are valid at any "
                "number of questions (confidence sequences); tests for a fixed number are left out; an interval of an "
                "accuracy by itself is for a fixed number."
            )
        return said

    def concerns(self, *runs: str) -> bool:
        """Whether one of these runs ended early by its results."""
        return any(run in self.by_run for run in runs)

    def rounds(self, scorer: str, *runs: str) -> list[QuestionRound]:
        """The draws that these runs have all answered, up to the first that is still out. At least one of them ended
        early."""
        seeds = {self.by_run[run].seed for run in runs if run in self.by_run}
        if len(seeds) != 1:
            return []  # each in an order of its own: there is no order that both went by
        seed = seeds.pop()
        asked = {question.id for question in self._ground.asked(scorer)}
        usual = [one for one in self._shared if _scores(scorer, one)] or [
            one for one in self._shared if one.id in asked
        ]
        kept: list[QuestionRound] = []
        for one in draw_rounds(usual, seed):
            if not all(question.id in self._answered[run] for run in runs for question in one.questions):
                break
            kept.append(one)
        return kept

    def paired(
        self, tests: PairedFigure, scorer: str, first: str, second: str, values: Mapping[str, Values]
    ) -> PairedFigure:
        """`tests` of two runs, with what holds in place of what does not."""
        if not self.concerns(first, second):
            return tests
        tracked = _differences(self.rounds(scorer, first, second), values[first], values[second])
        return msgspec.structs.replace(
            tests,
            low=tracked.low if tracked else None,
            high=tracked.high if tracked else None,
            p_mcnemar=None,
            mde=None,
            p_always=tracked.p if tracked else None,
            watched=tracked.n if tracked else 0,
        )


def _partial(store: Store, run: Run) -> bool:
    return len(store.done(run)) < run.count * run.epochs


def _scores(scorer: str, question: Question) -> bool:
    return scorer in {made.name for made in scorers_for(question)}


def _differences(rounds: Sequence[QuestionRound], first: Values, second: Values) -> SequentialInterval | None:
    """The confidence sequence of `second` minus `first`, over rounds where both have scores."""
    sequence = ConfidenceSequence(null=0.0)
    for drawn in rounds:
        sums = []
        for part in drawn.parts:
            pairs = [(first.get(question.id), second.get(question.id)) for question in part]
            known = [other - one for one, other in pairs if one is not None and other is not None]
            if known:
                sums.append(sum(known) / len(known))
        if len(sums) == len(drawn.parts):
            sequence.add(sum(sums) / len(sums))
    return sequence.interval


class ClaimStop:
    """Watches the runs of one replay for a claim."""

    epochs_together = True

    def __init__(self, claim: str, runs: Sequence[Run], questions: Iterable[Question], *, seed: int, most: int | None):
        """Draw the order and read the claim.

        Args:
            claim: see :mod:`ragrounds.evals.compare.claims`.
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
        self._watch = LiveClaim(self.claim)
        every = list(questions)
        self.scorer = _scorer(every)
        asked = [one for one in every if _scored(one, self.scorer)]
        rounds = draw_rounds(asked, seed)
        self.rounds = rounds if most is None else rounds_within(rounds, most)
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
        self.settled: ClaimState | None = None
        """The decision of an earlier command, which stands."""

    @property
    def questions(self) -> list[Question]:
        """What is asked, in this order."""
        return [question for one in self.rounds for question in one.questions]

    @property
    def now(self) -> ClaimState:
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

    def observe(self, finished: FinishedAttempt) -> None:
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
        told = {measure: measured_value(measure, status, score) for measure in self._measures}
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


def measured_value(measure: str, status: str, score: Score | None) -> float | None:
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
    known = {made.name for question in questions for made in scorers_for(question)}
    return in_order(known)[0]


def _scored(question: Question, scorer: str) -> bool:
    return scorer in {made.name for made in scorers_for(question)}
