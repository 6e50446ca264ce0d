"""Answers that a refinement turned right or wrong: each attempt's first answer against its last, by one scorer (MRAG's
CoT-Refine)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.base.records import Attempt, Gold, Left, Question, Run, Score
from ragrounds.evals.analyses.analysis import Analysis, AnalysisOptions, AnalysisTable
from ragrounds.evals.analyses.pictures import Picture, figure_mark
from ragrounds.evals.analyses.run_data import check_accuracy, share_figure
from ragrounds.evals.benchmarks.benchmark import cluster_of
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.scorers import known_scorer
from ragrounds.evals.scorers.base import ScorerRecord
from ragrounds.evals.stats import paired_difference
from ragrounds.evals.store.store import Store


class Flips(Struct, frozen=True, kw_only=True):
    """Counts of attempts by the change of their first answer. A value of 1.0 is right."""

    scorer: str
    right_right: int = 0
    right_wrong: int = 0
    wrong_right: int = 0
    wrong_wrong: int = 0
    changed: int = 0
    """Number of attempts whose prediction changed, right or wrong."""
    without: int = 0
    """Number of attempts without a first answer, or without a score of either; they are in no other figure."""

    @property
    def net(self) -> int:
        """Right answers gained minus those lost."""
        return self.wrong_right - self.right_wrong


def first_answer(attempt: Attempt) -> str | None:
    """Return the first text that a node wrote to the state's key ``first``; ``None`` if no node has."""
    for event in attempt.events:
        if isinstance(event, Left) and isinstance(answer := event.changes.get("first"), str):
            return answer
    return None


class RefinedAnswer(Struct, frozen=True):
    """First and last answer of an attempt, scored alike. `before` is ``None`` without a first answer."""

    question: Question
    before: Score | None
    after: Score

    @property
    def is_known(self) -> bool:
        """True if both have a value."""
        return self.before is not None and self.before.value is not None and self.after.value is not None


def refinements(
    attempts: Iterable[Attempt], questions: Mapping[str, Question], golds: Mapping[str, Gold], scorer: ScorerRecord
) -> Iterator[RefinedAnswer]:
    """Yield the first and last answer of every attempt, scored."""
    for attempt in attempts:
        question, gold = questions[attempt.question_id], golds[attempt.question_id]
        first = first_answer(attempt)
        before = None if first is None else scorer.score(replace(attempt, text=first), question, gold)
        yield RefinedAnswer(question, before, scorer.score(attempt, question, gold))


def count_flips(scorer: str, answers: Iterable[RefinedAnswer]) -> Flips:
    """Count how a refinement moved answers between right and wrong."""
    counts = dict.fromkeys(("right_right", "right_wrong", "wrong_right", "wrong_wrong", "changed", "without"), 0)
    for answer in answers:
        if answer.before is None or not answer.is_known:
            counts["without"] += 1
            continue
        names = ("right" if score.value == 1.0 else "wrong" for score in (answer.before, answer.after))
        counts["_".join(names)] += 1
        counts["changed"] += answer.before.prediction != answer.after.prediction
    return Flips(scorer=scorer, **counts)


class RunFlips(Struct, frozen=True, kw_only=True):
    """Effect of a refinement on a run's answers."""

    run: str
    flips: Flips
    gained: Figure | None
    """Share of refined attempts that were wrong and became right."""
    lost: Figure | None
    net: float | None
    """Gained minus lost, with its 95 % interval; attempts at one question are one cluster."""
    low: float | None
    high: float | None


def refinement(store: Store, run: Run, scorer: ScorerRecord, fits: Mapping[str, Question], seed: int = 0) -> RunFlips:
    """Count the changes of first answers to the questions that the scorer fits, with intervals."""
    _, golds = store.questions(run)
    attempts = (attempt for attempt in store.attempts(run) if attempt.question_id in fits)
    answers = list(refinements(attempts, fits, golds, scorer))
    scored = [
        (answer.question, answer.before.value == 1.0, answer.after.value == 1.0)
        for answer in answers
        if answer.before and answer.is_known
    ]
    net = (
        paired_difference(
            [float(before) for _, before, _ in scored],
            [float(after) for _, _, after in scored],
            clusters=[cluster_of(question) for question, _, _ in scored],
            seed=seed,
        )
        if scored
        else None
    )
    return RunFlips(
        run=run.id,
        flips=count_flips(scorer.name, answers),
        gained=share_figure([(question, float(after and not before)) for question, before, after in scored], seed),
        lost=share_figure([(question, float(before and not after)) for question, before, after in scored], seed),
        net=net.value if net else None,
        low=net.low if net else None,
        high=net.high if net else None,
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunFlips, ...]:
    check_accuracy("flips", options.scorer)
    scorer = known_scorer(options.scorer)
    records = []
    for run in runs:
        fitting = {question.id: question for question in store.questions(run)[0] if scorer.suits(question)}
        records.append(refinement(store, run, scorer, fitting, seed=options.seed))
    return tuple(records)


def _title(options: AnalysisOptions) -> str:
    return f"What a refinement turned ({options.scorer})"


def _table(records: tuple[RunFlips, ...], options: AnalysisOptions) -> AnalysisTable:
    columns = (
        *("run", "stayed right", "right to wrong", "wrong to right", "stayed wrong"),
        *("other answer", "no first answer", "net", "low", "high"),
    )
    rows = tuple(
        (
            record.run,
            *(record.flips.right_right, record.flips.right_wrong, record.flips.wrong_right, record.flips.wrong_wrong),
            *(record.flips.changed, record.flips.without, record.net, record.low, record.high),
        )
        for record in records
    )
    return AnalysisTable(title=_title(options), columns=columns, rows=rows)


def _picture(records: tuple[RunFlips, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(name, figure, record.run)
        for record in records
        for name, figure in (("wrong to right", record.gained), ("right to wrong", record.lost))
    )
    return Picture(title=_title(options), marks=marks, bars=True)


FLIPS = Analysis(
    name="flips",
    summary="what a refinement turned right and wrong (MRAG's CoT-Refine)",
    needs="attempts that keep their first answer, and a scorer without a judge",
    measure=_measure,
    table=_table,
    picture=_picture,
)
