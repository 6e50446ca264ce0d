"""Runs that stopped early by their own results, and the intervals that hold for them.

The number of questions of such a run depends on its own results, so an interval or a test for a number of questions
that was fixed beforehand does not hold for it. :class:`StoppedRuns` replaces it by the interval by which the run was
followed: valid at every number of questions at once, whatever made the run end. A run that went on to its last question
is treated like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Question, Run
from ragrounds.evals.compare.comparability import ComparisonSet, common_questions
from ragrounds.evals.compare.figures import PairedFigure
from ragrounds.evals.compare.question_values import Values
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds
from ragrounds.evals.scorers import described, scores_by_default
from ragrounds.evals.stats.sequential import ConfidenceSequence, SequentialInterval
from ragrounds.evals.store.store import Store

Decision = Literal["holds", "fails", "undecided"]
WIDE = "the interval includes both sides of the claim: more questions make it narrower"
"""Reason for an undecided claim if nothing else prevents a decision."""


class ConditionVerdict(Struct, frozen=True, kw_only=True):
    """Verdict on a condition: the measured figure, the interval that decides it, and the claim."""

    decision: Decision
    measured: str = ""
    """Measured figure, such as ``accuracy(a) - accuracy(b)``."""
    claimed: str = ""
    """Claimed bound, such as ``> 0.02``."""
    value: float | None = None
    """Value of the measured figure."""
    low: float | None = None
    high: float | None = None
    level: float | None
    questions: int = 0
    reason: str = ""
    """Reason why nothing can be concluded, if it is not the width of the interval."""
    against: tuple[str, ...] = ()
    """Questions that break the condition each by itself, the worst first, if it does not hold; none with an open
    attempt."""
    against_count: int = 0
    """Number of questions that break the condition; `against` names only the worst of them."""
    alike: int = 0
    """Number of further questions without any difference, which do not support a claimed difference either."""
    p: float | None = None
    """Always-valid p value that the two sides are equal, for a claim that was followed."""
    rounds: int = 0
    """Number of draws behind `p`: questions, if there is one dataset and no duplicate."""
    missing: int = 0
    """Number of draws without a score, which `p` leaves out."""


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """Verdict on a claim."""

    claim: str
    decision: Decision
    scorer: str = ""
    """Scorer of the scores; empty while the claim is followed."""
    questions: int = 0
    """Questions answered by all agents, counted in the order in which they were sampled, for a claim that is
    followed."""
    conditions: tuple[ConditionVerdict, ...]


class StopRecord(Struct, frozen=True, kw_only=True):
    """Record kept with each run that was followed for a claim."""

    runs: tuple[str, ...]
    """Ids of all runs that were followed together."""
    seed: int
    """Seed of the order in which questions were asked."""
    scorer: str
    """Scorer of the scores."""
    state: ClaimVerdict
    """Verdict on the claim when the command ended; until then, at its beginning."""
    reason: str = ""
    """Reason why no further question was started; empty if the claim was decided or the command was interrupted."""
    every: bool = False
    """True if every kind of question was sampled, not only those of the scorer: the claim is about how attempts end."""
    fixed: bool = False
    """True if all answers of the runs were tested at once, so that their number does not depend on results."""
    test: str = ""
    """Digest of a gate's policy and of what it was tested on; empty for a claim."""
    number: int = 0
    """Number of this test among those of gates on the same answers, from 1."""


def all_records(store: Store, run: Run) -> list[StopRecord]:
    """Return the records of all claims and policies that a run was followed or tested for."""
    return [msgspec.msgpack.decode(body, type=StopRecord) for body in store.stops(run)]


def stop_records(store: Store, run: Run) -> list[StopRecord]:
    """Return the records of all claims that a run was followed for."""
    return [record for record in all_records(store, run) if not record.fixed]


def early_stops(store: Store, runs: Sequence[Run]) -> dict[str, StopRecord]:
    """Return run id → last record for runs that were followed for a claim and have not gone on to their last
    question."""
    last_records: dict[str, StopRecord] = {}
    for run in runs:
        records = stop_records(store, run)
        if records and len(store.done(run)) < run.count * run.epochs:
            last_records[run.id] = records[-1]
    return last_records


class StoppedRuns:
    """Runs that stopped early by their own results (`by_run`, see :func:`early_stops`) and intervals that hold for
    them."""

    def __init__(
        self, store: Store, runs: Sequence[Run], basis: ComparisonSet, by_run: Mapping[str, StopRecord]
    ) -> None:
        self._basis, self.by_run = basis, by_run
        # Not only the questions that all have answered: those after the first unanswered question do not count.
        self._shared = common_questions(store, runs, True)[0] if self.by_run else []

    @property
    def notes(self) -> list[str]:
        """Notes for a reader of the tables, one for each claim."""
        together: dict[tuple[str, ...], ClaimVerdict] = {}
        for record in self.by_run.values():
            together[tuple(run for run in record.runs if run in self.by_run)] = record.state
        notes = []
        for runs, state in together.items():
            status = "is undecided" if state.decision == "undecided" else state.decision
            notes.append(
                f"{', '.join(runs)}: the number of questions depends on the results, because of --until "
                f"{state.claim!r}; it {status} after {state.questions:,} questions. Intervals of differences are valid "
                "at any number of questions (confidence sequences); tests for a fixed number are left out; the "
                "interval of a single score assumes a fixed number."
            )
        return notes

    def concerns(self, *runs: str) -> bool:
        """Return True if one of these runs (by id) stopped early by its own results."""
        return any(run in self.by_run for run in runs)

    def rounds(self, scorer: str, *runs: str) -> list[QuestionRound]:
        """Return the rounds that these runs have all answered, up to the first round with an unanswered question.

        At least one of the runs stopped early.

        Args:
            scorer: scorer whose questions count; empty for every question, if these runs were sampled so.
            runs: run ids.
        """
        records = [self.by_run[run] for run in runs if run in self.by_run]
        seeds = {record.seed for record in records}
        if len(seeds) != 1:
            return []  # the runs were asked in different orders, so they share no order
        all_kinds = not scorer and all(record.every for record in records)
        questions = self._shared if all_kinds else self._scorer_questions(scorer or records[0].scorer)
        answered = {run: self._answered(run) for run in runs}
        answered_rounds: list[QuestionRound] = []
        for question_round in draw_rounds(questions, seeds.pop()):
            if not all(question.id in answered[run] for run in runs for question in question_round.questions):
                break
            answered_rounds.append(question_round)
        return answered_rounds

    def _scorer_questions(self, scorer: str) -> list[Question]:
        """Return the questions that a scorer scores."""
        record = described(scorer)
        by_default = (
            [] if record.needs_judge else [question for question in self._shared if scores_by_default(record, question)]
        )
        scored_ids = {question.id for question in self._basis.questions_for(scorer)}
        return by_default or [question for question in self._shared if question.id in scored_ids]

    def _answered(self, run: str) -> set[str]:
        """Return the ids of questions that a run has made all its attempts at."""
        attempt_counts = Counter(attempt.question_id for attempt in self._basis.summaries[run])
        return {question for question, count in attempt_counts.items() if count >= self._basis.epochs}

    def paired(
        self, tests: PairedFigure, scorer: str, first: str, second: str, values: Mapping[str, Values]
    ) -> PairedFigure:
        """Return `tests` of two runs with figures that are valid at any number of questions in place of the others."""
        if not self.concerns(first, second):
            return tests
        # A ratio over the corpus is not a mean of draws, so none of its intervals is valid at any number of questions.
        is_ratio = described(scorer).ratio
        sequence_interval = (
            None if is_ratio else _differences(self.rounds(scorer, first, second), values[first], values[second])
        )
        return replace(
            tests,
            low=sequence_interval.low if sequence_interval else None,
            high=sequence_interval.high if sequence_interval else None,
            p_mcnemar=None,
            mde=None,
            p_always=sequence_interval.p if sequence_interval else None,
            draws=sequence_interval.n if sequence_interval else 0,
        )


def _differences(rounds: Sequence[QuestionRound], first: Values, second: Values) -> SequentialInterval | None:
    """Return the confidence sequence of `second` minus `first` over rounds where both have scores."""

    def difference(question: Question) -> float | None:
        scores = first.get(question.id), second.get(question.id)
        return None if None in scores else scores[1] - scores[0]  # type: ignore[operator]

    sequence = ConfidenceSequence(null=0.0)
    for question_round in rounds:
        if (weighed := question_round.weigh(difference)) is not None:
            sequence.add(*weighed)
    return sequence.interval
