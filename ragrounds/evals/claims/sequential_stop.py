"""Stop rule that ends runs when a claim about them is decided.

:class:`ClaimStop` is the engine's contract :class:`ragrounds.base.contracts.Stop` for a claim. Attempts end in any
order; rounds of questions count once all agents have answered them in every epoch, in the order in which they were
sampled. A round whose slowest answer is missing holds back those after it: if quick answers were counted first, the
order would depend on the answers and the interval would not be valid. An attempt that failed is not correct, as in the
tables. The same command asks it again, and the new attempt replaces it; a claim that was decided stays decided.

For intervals of runs that ended so, see :mod:`ragrounds.evals.compare.stopped_runs`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ragrounds.base.contracts import FinishedAttempt
from ragrounds.base.errors import UserError
from ragrounds.base.records import Attempt, Question, Run, Score, outcome
from ragrounds.evals.claims.claims import Claim, LiveClaim, check_measures, parse_claim, resolved
from ragrounds.evals.compare.stopped_runs import ClaimVerdict, StopRecord, stop_records
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds, rounds_within
from ragrounds.evals.scorers import described, headline_of, scores_by_default
from ragrounds.evals.store.store import Store

_SEED_BITS = 63


def save_stop(store: Store, record: StopRecord) -> None:
    """Save the verdict on a claim with each of its runs.

    Raises:
        StopRun: the store cannot be written.
    """
    store.write_stop(record.runs, record.state.claim, record.seed, msgspec.msgpack.encode(record))


def earlier_record(store: Store, runs: Sequence[Run], claim: str, seed: int) -> StopRecord | None:
    """Return the record that an earlier command kept of the same claim about the same runs. A decision in it stays.

    Raises:
        UserError: a run was followed in another order. Whoever may try orders until one suits can reach any decision.
    """
    ids = tuple(run.id for run in runs)
    latest: StopRecord | None = None
    for run in runs:
        for record in stop_records(store, run):
            if record.seed != seed:
                raise UserError(
                    f"{run.id} has its questions in the order of --seed {record.seed}. Give --seed {record.seed}, or "
                    "--new for another run."
                )
            if record.runs == ids and record.state.claim == claim:
                latest = record
    return latest


class ClaimStop:
    """Stop rule that ends the runs of one replay when a claim about them is decided.

    Args:
        claim: text of the claim; see :mod:`ragrounds.evals.claims.claims`.
        runs: runs of the replay; the claim's must be among them.
        questions: questions of the benchmark.
        names: run id → name by which the claim may refer to the run.
        seed: seed of the order in which questions are asked.
        max_questions: largest number of questions to ask.

    Raises:
        UserError: the claim cannot be read or followed, or names another run; no question has a score during the run;
            a round has more than `max_questions` questions; the seed is too large to be stored.
    """

    epochs_together = True
    """True if a question is asked in all its epochs before the next."""

    def __init__(
        self,
        claim: str,
        runs: Sequence[Run],
        questions: Iterable[Question],
        names: Mapping[str, str] | None = None,
        *,
        seed: int,
        max_questions: int | None,
    ):
        if not -(2**_SEED_BITS) <= seed < 2**_SEED_BITS:
            raise UserError(f"--seed {seed}: with --until the seed is stored with the run, and has at most 64 bits.")
        self.runs, self.seed = tuple(runs), seed
        parsed = parse_claim(claim)
        self.claim = resolved(parsed, runs, names)
        self._live = LiveClaim(self.claim, parsed)
        self._all, self._max_questions = list(questions), max_questions
        endings = all(condition.of_endings for condition in self.claim.conditions)
        self._sample_rounds(headline_of(self._all)[0].scorer, endings)
        check_measures(parsed, self.scorer)
        _check_mean(self.claim, self.scorer)
        self._measures = {term.measure for condition in self.claim.conditions for term in condition.terms}
        self._values: dict[tuple[str, str], dict[int, Mapping[str, float | None]]] = defaultdict(dict)
        self._next = 0
        self._earlier: ClaimVerdict | None = None
        """Final verdict of an earlier command, if it decided the claim."""

    def _sample_rounds(self, scorer: str, all_kinds: bool) -> None:
        """Sample the rounds of the questions that this scorer scores, or of every question."""
        self.scorer, self._every = scorer, all_kinds
        questions = [question for question in self._all if all_kinds or scores_by_default(described(scorer), question)]
        rounds = draw_rounds(questions, self.seed)
        self.rounds = rounds if self._max_questions is None else rounds_within(rounds, self._max_questions)
        self.last = (
            "--max-questions is reached" if len(self.rounds) < len(rounds) else _exhausted_note(rounds, questions)
        )
        """Reason why there is no further question after the last round."""
        if not self.rounds:
            raise UserError(
                f"--max-questions {self._max_questions}: a round has {len(rounds[0].questions)} questions (one of "
                "each dataset, "
                "duplicates together); give as many or more."
            )

    @property
    def questions(self) -> list[Question]:
        """Questions in the order in which they are asked."""
        return [question for question_round in self.rounds for question in question_round.questions]

    @property
    def state(self) -> ClaimVerdict:
        """Verdict on the claim so far."""
        return self._earlier or self._live.state

    def begin(self, store: Store) -> None:
        """Load earlier decisions or the attempts that the runs have already, and record that the runs are followed.

        Raises:
            UserError: a run was followed in another order.
            StopRun: the store cannot be written.
        """
        earlier = earlier_record(store, self.runs, self.claim.text, self.seed)
        if earlier is not None and earlier.state.decision != "undecided":
            self._earlier = earlier.state
            return
        if earlier is not None and (earlier.scorer, earlier.every) != (self.scorer, self._every):
            self._sample_rounds(
                earlier.scorer, earlier.every
            )  # begun under another headline; the order is sampled only once
        self.read(store)
        # From here on the runs' length may depend on their results, even if this process is killed.
        save_stop(store, self.record())

    def read(self, store: Store, *, failed: bool = False, count: bool = True) -> None:
        """Count the attempts that the runs have already. Failed attempts are made again, unless `failed` counts them
        too."""
        for run in self.runs:
            scores = {score.key: score for score in store.scores(run, self.scorer)}
            attempt_keys = store.done(run) if failed else store.settled(run)
            for attempt in store.summaries(run, skip_damaged=True):
                if (key := attempt.key) in attempt_keys:
                    self._keep_values(run, attempt, scores.get(key))
        if count:
            self._count()

    def observe(self, finished: FinishedAttempt) -> None:
        """Record an attempt that ended."""
        scorer_score = next((score for score in finished.scores if score.scorer == self.scorer), None)
        self._keep_values(finished.run, finished.attempt, scorer_score)
        self._count()

    def reached(self) -> str:
        """Return the reason why no further question is to be started; empty to go on."""
        state = self.state
        if state.decision == "undecided":
            return ""
        return f"{state.claim!r} {state.decision} after {state.questions:,} questions"

    def record(self, reason: str = "") -> StopRecord:
        """Return the record of the claim that is kept with its runs."""
        runs = tuple(run.id for run in self.runs)
        return StopRecord(
            runs=runs, seed=self.seed, scorer=self.scorer, state=self.state, reason=reason, every=self._every
        )

    def finish(self, store: Store, ended: str) -> StopRecord:
        """Save the verdict on the claim at the end of a command.

        Args:
            store: store of the runs.
            ended: reason why the command ended, if it was not this stop rule.

        Raises:
            StopRun: the store cannot be written.
        """
        record = self.record("" if self.reached() else ended or self.last)
        if self._earlier is None:
            save_stop(store, record)
        return record

    def _keep_values(self, run: Run, attempt: Attempt, score: Score | None) -> None:
        values = {measure: self._measured(measure, run, attempt, score) for measure in self._measures}
        self._values[run.id, attempt.question_id][attempt.epoch] = values

    def _measured(self, measure: str, run: Run, attempt: Attempt, score: Score | None) -> float | None:
        return measured_value(measure, attempt.status, score)

    def _count(self) -> None:
        while self._next < len(self.rounds) and self._live.decision == "undecided":
            question_round = self.rounds[self._next]
            if not self._complete(question_round):
                return
            self._live.add(question_round, self._value)
            self._next += 1
            for question in question_round.questions:
                for run in self.runs:
                    del self._values[run.id, question.id]

    def _complete(self, question_round: QuestionRound) -> bool:
        return all(
            len(self._values.get((run.id, question.id), ())) >= run.epochs
            for question in question_round.questions
            for run in self.runs
        )

    def _value(self, measure: str, run: str, question: str) -> float | None:
        epoch_values = [values[measure] for values in self._values[run, question].values()]
        known_values = [number for number in epoch_values if number is not None]
        epochs = max(len(epoch_values), next(r.epochs for r in self.runs if r.id == run))
        return sum(known_values) / epochs if len(known_values) == epochs else None


def _check_mean(claim: Claim, scorer: str) -> None:
    """Raise UserError if the claim is about a score whose figure is not a mean.

    Raises:
        UserError: the claim is about one.
    """
    measures = {term.measure for condition in claim.conditions for term in condition.terms}
    if described(scorer).ratio and measures & {"accuracy", "score"}:
        raise UserError(
            f"A run cannot be stopped by {claim.text!r}: {scorer} is computed over the whole corpus, not as a mean "
            "over questions, so its interval is not valid during a run. Finish the run, then check the claim with "
            "`ragrounds compare --assert`."
        )


def measured_value(measure: str, status: str, score: Score | None) -> float | None:
    """Return the contribution of an attempt to a measure.

    For a score it is the score, 0 if the attempt has none, ``None`` if the score is missing. For an outcome it is 1.0
    if the attempt ended so, else 0.0.
    """
    if measure in ("accuracy", "score"):
        return 0.0 if score is None else score.value
    return float(outcome(status, score.answer_status if score else None) == measure)


def _exhausted_note(rounds: Sequence[QuestionRound], questions: Iterable[Question]) -> str:
    datasets = Counter(question.benchmark for question in questions)
    if len(datasets) == 1:
        return "all questions are answered"
    asked_counts = Counter(question.benchmark for question_round in rounds for question in question_round.questions)
    exhausted = [name for name, count in datasets.items() if asked_counts[name] == count]
    return f"all questions of {', '.join(exhausted)} are answered, and each round needs one of every dataset"
