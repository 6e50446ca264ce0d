"""Runs that ended early by their own results, and the intervals that hold for them.

How many questions such a run has depends on its own results, so an interval or a test for a number of questions that
was fixed beforehand does not hold for it. :class:`StoppedRuns` puts the interval by which it was followed in their
place: valid at every number of questions at once, whatever made the run end. A run that went on to its last question is
like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Question, Run
from ragrounds.evals.compare.comparability import ComparisonBasis, common_questions
from ragrounds.evals.compare.figures import PairedFigure
from ragrounds.evals.compare.question_values import Values
from ragrounds.evals.engine.question_order import QuestionRound, draw_rounds
from ragrounds.evals.scorers import described, scores_by_default
from ragrounds.evals.stats.sequential import ConfidenceSequence, SequentialInterval
from ragrounds.evals.store.store import Store

Decision = Literal["holds", "fails", "undecided"]


class ConditionVerdict(Struct, frozen=True, kw_only=True):
    """How a condition stands: what was measured, with the interval that decides it, and what was claimed of it."""

    decision: Decision
    measured: str = ""
    """``accuracy(a) - accuracy(b)``."""
    claimed: str = ""
    """``> 0.02``."""
    value: float | None = None
    """Of what was measured."""
    low: float | None = None
    high: float | None = None
    level: float | None
    questions: int = 0
    reason: str = ""
    """Why nothing can be told, where that is not the width of the interval."""
    against: tuple[str, ...] = ()
    """Where it does not hold: questions that break it each by itself, those that break it most first; none with an open
    attempt."""
    against_count: int = 0
    """How many there are; so many stand in `against` at most as are worth naming."""
    alike: int = 0
    """Of a claimed difference: questions beside these without any difference, which do not carry it either."""
    p: float | None = None
    """Of a claim that was followed: always-valid p value of: the two sides are equal."""
    rounds: int = 0
    """Likewise the draws that it rests on: questions, where there is one dataset and no duplicate."""
    missing: int = 0
    """Likewise draws without a score, which it leaves out."""


class ClaimVerdict(Struct, frozen=True, kw_only=True):
    """How a claim stands."""

    claim: str
    decision: Decision
    scorer: str = ""
    """That scores are by; empty while it is followed."""
    questions: int = 0
    """Of a claim that is followed: answered by all agents, and counted in the order in which they were drawn."""
    conditions: tuple[ConditionVerdict, ...]


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


def stop_records(store: Store, run: Run) -> list[StopRecord]:
    """What a run was ever followed for."""
    return [msgspec.msgpack.decode(body, type=StopRecord) for body in store.stops(run)]


def early_stops(store: Store, runs: Sequence[Run]) -> dict[str, StopRecord]:
    """Of these runs those that were followed for a claim and have not gone on to their last question: run id → the last
    claim."""
    found: dict[str, StopRecord] = {}
    for run in runs:
        records = stop_records(store, run)
        if records and len(store.done(run)) < run.count * run.epochs:
            found[run.id] = records[-1]
    return found


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
