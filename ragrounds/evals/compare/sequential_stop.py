"""Ending runs when a claim about them is decided, and what may be said of such runs afterwards.

:class:`ClaimStop` is the engine's contract :class:`ragrounds.contracts.Stop` for a claim. Attempts end in any
order; what counts are rounds of questions that all agents have answered in every epoch, in the order in which they were
drawn. A round whose slowest answer is still out holds back those behind it: were quick ones counted first, the order
would depend on the answers, and the interval would hold nothing. An attempt that failed is not correct, as in the
tables. The same command asks it again, and what it then brings replaces it; a claim that was decided stays decided.

How many questions such a run has depends on its own results, so an interval or a test for a number of questions that
was fixed beforehand does not hold for it. :class:`StoppedRuns` puts the interval by which it was followed in their
place: valid at every number of questions at once, whatever made the run end. A run that went on to its last question is
like any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.contracts import FinishedAttempt
from ragrounds.errors import UserError
from ragrounds.evals.compare.claims import Claim, ClaimVerdict, LiveClaim, check_measures, parse_claim, resolved
from ragrounds.evals.compare.comparability import ComparisonBasis, common_questions
from ragrounds.evals.compare.figures import PairedFigure
from ragrounds.evals.compare.question_values import Values
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds, rounds_within
from ragrounds.evals.scorers import described, headline_of, scores_by_default
from ragrounds.evals.stats.sequential import ConfidenceSequence, SequentialInterval
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run, Score, outcome

_SEED_BITS = 63


class StopRecord(Struct, frozen=True, kw_only=True):
    """What is kept with each run that was followed for a claim."""

    runs: tuple[str, ...]
    """All that were followed together."""
    seed: int
    """Of the order in which questions were asked."""
    scorer: str
    """That scores are by."""
    state: ClaimVerdict
    """How the claim stood when the command ended; before that: at its beginning."""
    reason: str = ""
    """Why no further question was begun; empty: the claim was decided, or the command did not end by itself."""
    every: bool = False
    """Whether every kind of question was drawn, not only those of the scorer: the claim is about how attempts end."""


def save_stop(store: Store, record: StopRecord) -> None:
    """Write how a claim stands, with each of its runs.

    Raises:
        StopRun: the store cannot be written.
    """
    store.write_stop(record.runs, record.state.claim, record.seed, msgspec.msgpack.encode(record))


def stop_records(store: Store, run: Run) -> list[StopRecord]:
    """What a run was ever followed for."""
    return [msgspec.msgpack.decode(body, type=StopRecord) for body in store.stops(run)]


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


def early_stops(store: Store, runs: Sequence[Run]) -> dict[str, StopRecord]:
    """Of these runs those that were followed for a claim and have not gone on to their last question: run id → the last
    claim."""
    found: dict[str, StopRecord] = {}
    for run in runs:
        records = stop_records(store, run)
        if records and len(store.done(run)) < run.count * run.epochs:
            found[run.id] = records[-1]
    return found


class ClaimStop:
    """Ends the runs of one replay when a claim about them is decided.

    Args:
        claim: see :mod:`ragrounds.evals.compare.claims`.
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


class StoppedRuns:
    """Of some runs those that ended early by their own results (`by_run`, see :func:`early_stops`), and the intervals
    that hold for them."""

    def __init__(
        self, store: Store, runs: Sequence[Run], basis: ComparisonBasis, by_run: Mapping[str, StopRecord]
    ) -> None:
        self._basis, self.by_run = basis, by_run
        # Not only what all have answered: where a question is still out, those behind it do not count.
        self._shared = common_questions(store, runs, True)[0] if self.by_run else []

    @property
    def notes(self) -> list[str]:
        """What a reader of the tables must know, one text for each claim."""
        together: dict[tuple[str, ...], ClaimVerdict] = {}
        for known in self.by_run.values():
            together[tuple(run for run in known.runs if run in self.by_run)] = known.state
        notes = []
        for runs, state in together.items():
            how = "is undecided" if state.decision == "undecided" else state.decision
            notes.append(
                f"{', '.join(runs)}: the number of questions depends on the results, because of --until "
                f"{state.claim!r}; it {how} after {state.questions:,} questions. Intervals of differences are valid "
                "at any number of questions (confidence sequences); tests for a fixed number are left out; the "
                "interval of a single score assumes a fixed number."
            )
        return notes

    def concerns(self, *runs: str) -> bool:
        """Whether one of these runs (by id) ended early by its results."""
        return any(run in self.by_run for run in runs)

    def rounds(self, scorer: str, *runs: str) -> list[QuestionRound]:
        """The draws that these runs have all answered, up to the first that is still out. At least one of them ended
        early.

        Args:
            scorer: whose questions are drawn; empty: every question, where these runs were drawn so.
            runs: by id.
        """
        records = [self.by_run[run] for run in runs if run in self.by_run]
        seeds = {record.seed for record in records}
        if len(seeds) != 1:
            return []  # each in an order of its own: there is no order that both went by
        every = not scorer and all(record.every for record in records)
        drawn = self._shared if every else self._scored(scorer or records[0].scorer)
        answered = {run: self._answered(run) for run in runs}
        kept: list[QuestionRound] = []
        for one in draw_rounds(drawn, seeds.pop()):
            if not all(question.id in answered[run] for run in runs for question in one.questions):
                break
            kept.append(one)
        return kept

    def _scored(self, scorer: str) -> list[Question]:
        """The questions that a scorer scores."""
        known = described(scorer)
        usual = [] if known.needs_judge else [one for one in self._shared if scores_by_default(known, one)]
        asked = {question.id for question in self._basis.asked(scorer)}
        return usual or [question for question in self._shared if question.id in asked]

    def _answered(self, run: str) -> set[str]:
        """The questions that a run has made all its attempts at."""
        made = Counter(one.question_id for one in self._basis.summaries[run])
        return {question for question, count in made.items() if count >= self._basis.epochs}

    def paired(
        self, tests: PairedFigure, scorer: str, first: str, second: str, values: Mapping[str, Values]
    ) -> PairedFigure:
        """`tests` of two runs, with what is valid at any number of questions in place of what is not."""
        if not self.concerns(first, second):
            return tests
        # A ratio over the corpus is no mean of draws: no interval of it is valid at any number of questions.
        ratio = described(scorer).ratio
        found = None if ratio else _differences(self.rounds(scorer, first, second), values[first], values[second])
        return replace(
            tests,
            low=found.low if found else None,
            high=found.high if found else None,
            p_mcnemar=None,
            mde=None,
            p_always=found.p if found else None,
            draws=found.n if found else 0,
        )


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
