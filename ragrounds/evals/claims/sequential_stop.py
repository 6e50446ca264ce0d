"""Ending runs when a claim about them is decided.

:class:`ClaimStop` is the engine's contract :class:`ragrounds.base.contracts.Stop` for a claim. Attempts end in any
order; what counts are rounds of questions that all agents have answered in every epoch, in the order in which they were
drawn. A round whose slowest answer is still out holds back those behind it: were quick ones counted first, the order
would depend on the answers, and the interval would hold nothing. An attempt that failed is not correct, as in the
tables. The same command asks it again, and what it then brings replaces it; a claim that was decided stays decided.

What holds for runs that were ended so: :mod:`ragrounds.evals.compare.stopped_runs`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import Question, Run, Score, outcome
from ragrounds.evals.claims.claims import Claim, LiveClaim, check_measures, parse_claim, resolved
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, StopRecord, stop_records
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds, rounds_within
from ragrounds.evals.scorers import described, headline_of, scores_by_default
from ragrounds.evals.store.store import Store

_SEED_BITS = 63


def save_stop(store: Store, record: StopRecord) -> None:
    """Write how a claim stands, with each of its runs.

    Raises:
        StopRun: the store cannot be written.
    """
    store.write_stop(record.runs, record.state.claim, record.seed, msgspec.msgpack.encode(record))


def earlier_record(store: Store, runs: Sequence[Run], claim: str, seed: int) -> StopRecord | None:
    """What an earlier command kept of the same claim about the same runs. Where it was decided, that stands.

    Raises:
        UserError: a run was followed in another order. Whoever may draw until an order suits finds what they look for.
    """
    ids = tuple(run.id for run in runs)
    found: StopRecord | None = None
    for run in runs:
        for known in stop_records(store, run):
            if known.seed != seed:
                raise UserError(
                    f"{run.id} has its questions in the order of --seed {known.seed}. Give --seed {known.seed}, or "
                    "--new for another run."
                )
            if known.runs == ids and known.state.claim == claim:
                found = known
    return found


class ClaimStop:
    """Ends the runs of one replay when a claim about them is decided.

    Args:
        claim: see :mod:`ragrounds.evals.claims.claims`.
        runs: those of the replay; the claim's must be among them.
        questions: the benchmark's.
        seed: of the order in which they are asked.
        most: questions to ask at most.

    Raises:
        UserError: a claim that cannot be read or followed, or names another run; no question has a score while it runs;
            `most` is less than a round has; a seed that cannot be kept.
    """

    epochs_together = True
    """A question is asked in all its epochs before the next."""

    def __init__(self, claim: str, runs: Sequence[Run], questions: Iterable[Question], *, seed: int, most: int | None):
        if not -(2**_SEED_BITS) <= seed < 2**_SEED_BITS:
            raise UserError(f"--seed {seed}: with --until the seed is stored with the run, and has at most 64 bits.")
        self.runs, self.seed = tuple(runs), seed
        written = parse_claim(claim)
        self.claim = resolved(written, runs)
        self._live = LiveClaim(self.claim, written)
        self._all, self._most = list(questions), most
        endings = all(condition.of_endings for condition in self.claim.conditions)
        self._ask_by(headline_of(self._all)[0].scorer, endings)
        check_measures(written, self.scorer)
        _check_mean(self.claim, self.scorer)
        self._measures = {term.measure for condition in self.claim.conditions for term in condition.terms}
        self._held: dict[tuple[str, str], dict[int, Mapping[str, float | None]]] = defaultdict(dict)
        self._next = 0
        self._earlier: ClaimVerdict | None = None
        """The decision of an earlier command, which stands."""

    def _ask_by(self, scorer: str, every: bool) -> None:
        """Draw the rounds of the questions that this scorer scores, or of every question."""
        self.scorer, self._every = scorer, every
        asked = [one for one in self._all if every or scores_by_default(described(scorer), one)]
        rounds = draw_rounds(asked, self.seed)
        self.rounds = rounds if self._most is None else rounds_within(rounds, self._most)
        self.last = "--max-questions is reached" if len(self.rounds) < len(rounds) else _used_up(rounds, asked)
        """Why there is no further question after the last round."""
        if not self.rounds:
            raise UserError(
                f"--max-questions {self._most}: a round has {len(rounds[0].questions)} questions (one of each dataset, "
                "duplicates together); give as many or more."
            )

    @property
    def questions(self) -> list[Question]:
        """The questions in the order in which they are asked."""
        return [question for one in self.rounds for question in one.questions]

    @property
    def state(self) -> ClaimVerdict:
        """How the claim stands."""
        return self._earlier or self._live.state

    def begin(self, store: Store) -> None:
        """Take what earlier commands decided, or what the runs have already; and keep that they are followed.

        Raises:
            UserError: a run was followed in another order.
            StopRun: the store cannot be written.
        """
        earlier = earlier_record(store, self.runs, self.claim.text, self.seed)
        if earlier is not None and earlier.state.decision != "undecided":
            self._earlier = earlier.state
            return
        if earlier is not None and (earlier.scorer, earlier.every) != (self.scorer, self._every):
            self._ask_by(earlier.scorer, earlier.every)  # it was begun under another headline: an order is drawn once
        self.read(store)
        # From here on the runs' length may depend on their results, also where this process is killed.
        save_stop(store, self.record())

    def read(self, store: Store) -> None:
        """Take what the runs have already; attempts that are to be made again are not there yet."""
        for run in self.runs:
            scores: dict[tuple[str, int], Score] = {
                (score.question_id, score.epoch): score for score in store.scores(run, self.scorer)
            }
            for key, status in store.settled(run).items():
                self._hold(run.id, *key, status, scores.get(key))
        self._count()

    def observe(self, finished: FinishedAttempt) -> None:
        """Take an attempt that ended."""
        attempt = finished.attempt
        score = next((one for one in finished.scores if one.scorer == self.scorer), None)
        self._hold(finished.run.id, attempt.question_id, attempt.epoch, attempt.status, score)
        self._count()

    def reached(self) -> str:
        """Why no further question is to be begun; empty: go on."""
        state = self.state
        if state.decision == "undecided":
            return ""
        return f"{state.claim!r} {state.decision} after {state.questions:,} questions"

    def record(self, reason: str = "") -> StopRecord:
        """How the claim stands, to be kept with its runs."""
        runs = tuple(run.id for run in self.runs)
        return StopRecord(
            runs=runs, seed=self.seed, scorer=self.scorer, state=self.state, reason=reason, every=self._every
        )

    def finish(self, store: Store, ended: str) -> StopRecord:
        """Keep how the claim stands at the end of a command.

        Args:
            store: where the runs are.
            ended: why the command ended, where that was not this stop.

        Raises:
            StopRun: the store cannot be written.
        """
        record = self.record("" if self.reached() else ended or self.last)
        if self._earlier is None:
            save_stop(store, record)
        return record

    def _hold(self, run: str, question: str, epoch: int, status: str, score: Score | None) -> None:
        values = {measure: measured_value(measure, status, score) for measure in self._measures}
        self._held[run, question][epoch] = values

    def _count(self) -> None:
        while self._next < len(self.rounds) and self._live.decision == "undecided":
            drawn = self.rounds[self._next]
            if not self._complete(drawn):
                return
            self._live.add(drawn, self._value)
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
        found = [values[measure] for values in self._held[run, question].values()]
        known = [number for number in found if number is not None]
        return sum(known) / len(found) if len(known) == len(found) else None


def _check_mean(claim: Claim, scorer: str) -> None:
    """Refuse to follow a score whose figure is no mean.

    Raises:
        UserError: the claim is about one.
    """
    named = {term.measure for condition in claim.conditions for term in condition.terms}
    if described(scorer).ratio and named & {"accuracy", "score"}:
        raise UserError(
            f"A run cannot be stopped by {claim.text!r}: {scorer} is computed over the whole corpus, not as a mean "
            "over questions, so its interval is not valid during a run. Finish the run, then check the claim with "
            "`ragrounds compare --assert`."
        )


def measured_value(measure: str, status: str, score: Score | None) -> float | None:
    """What an attempt brings to a measure: its score, 0 where it has none, ``None`` where the score is missing; or
    whether it ended so."""
    if measure in ("accuracy", "score"):
        return 0.0 if score is None else score.value
    return float(outcome(status, score.answer_status if score else None) == measure)


def _used_up(rounds: Sequence[QuestionRound], asked: Iterable[Question]) -> str:
    datasets = Counter(question.benchmark for question in asked)
    if len(datasets) == 1:
        return "all questions are answered"
    drawn = Counter(question.benchmark for one in rounds for question in one.questions)
    ended = [name for name, count in datasets.items() if drawn[name] == count]
    return f"all questions of {', '.join(ended)} are answered, and each round needs one of every dataset"
