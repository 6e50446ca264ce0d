"""What a refinement turned right and wrong: each attempt's first answer against its last, by one scorer (MRAG's
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
    """Attempts by what became of their first answer. Right is a value of 1.0."""

    scorer: str
    right_right: int = 0
    right_wrong: int = 0
    wrong_right: int = 0
    wrong_wrong: int = 0
    changed: int = 0
    """Attempts whose prediction changed, right or wrong."""
    without: int = 0
    """Attempts without a first answer, or without a score of either; they are in no other figure."""

    @property
    def net(self) -> int:
        """Right answers gained, less those lost."""
        return self.wrong_right - self.right_wrong


def first_answer(attempt: Attempt, key: str = "first") -> str | None:
    """What a node wrote to the state under `key`, the first time it did; ``None`` where none has."""
    for event in attempt.events:
        if isinstance(event, Left) and isinstance(event.changes.get(key), str):
            return str(event.changes[key])
    return None


class RefinedAnswer(Struct, frozen=True):
    """An attempt's first answer and its last, scored alike; no first one: the attempt has none."""

    question: Question
    before: Score | None
    after: Score

    @property
    def known(self) -> bool:
        """Whether both have a value."""
        return self.before is not None and self.before.value is not None and self.after.value is not None


def refinements(
    attempts: Iterable[Attempt],
    questions: Mapping[str, Question],
    golds: Mapping[str, Gold],
    scorer: ScorerRecord,
    key: str = "first",
) -> Iterator[RefinedAnswer]:
    """The first and last answer of every attempt, scored."""
    for attempt in attempts:
        question, gold = questions[attempt.question_id], golds[attempt.question_id]
        first = first_answer(attempt, key)
        before = None if first is None else scorer.score(replace(attempt, text=first), question, gold)
        yield RefinedAnswer(question, before, scorer.score(attempt, question, gold))


def count_flips(scorer: str, made: Iterable[RefinedAnswer]) -> Flips:
    """Count how a refinement moved answers between right and wrong."""
    counts = dict.fromkeys(("right_right", "right_wrong", "wrong_right", "wrong_wrong", "changed", "without"), 0)
    for one in made:
        if one.before is None or not one.known:
            counts["without"] += 1
            continue
        names = ("right" if score.value == 1.0 else "wrong" for score in (one.before, one.after))
        counts["_".join(names)] += 1
        counts["changed"] += one.before.prediction != one.after.prediction
    return Flips(scorer=scorer, **counts)


class RunFlips(Struct, frozen=True, kw_only=True):
    """What a refinement did to a run's answers."""

    run: str
    flips: Flips
    gained: Figure | None
    """Share of refined attempts that were wrong and became right."""
    lost: Figure | None
    net: float | None
    """Gained less lost, with its 95 % interval; attempts at one question are one cluster."""
    low: float | None
    high: float | None


def refinement(
    store: Store, run: Run, scorer: ScorerRecord, fits: Mapping[str, Question], key: str = "first", seed: int = 0
) -> RunFlips:
    """Count what became of the first answers to the questions that the scorer fits, and how sure that is."""
    _, golds = store.questions(run)
    attempts = (attempt for attempt in store.attempts(run) if attempt.question_id in fits)
    made = list(refinements(attempts, fits, golds, scorer, key))
    known = [
        (one.question, one.before.value == 1.0, one.after.value == 1.0) for one in made if one.before and one.known
    ]
    net = (
        paired_difference(
            [float(before) for _, before, _ in known],
            [float(after) for _, _, after in known],
            clusters=[cluster_of(question) for question, _, _ in known],
            seed=seed,
        )
        if known
        else None
    )
    return RunFlips(
        run=run.id,
        flips=count_flips(scorer.name, made),
        gained=share_figure([(question, float(after and not before)) for question, before, after in known], seed),
        lost=share_figure([(question, float(before and not after)) for question, before, after in known], seed),
        net=net.value if net else None,
        low=net.low if net else None,
        high=net.high if net else None,
    )


def _measure(store: Store, runs: Sequence[Run], options: AnalysisOptions) -> tuple[RunFlips, ...]:
    check_accuracy("flips", options.scorer)
    scorer = known_scorer(options.scorer)
    made = []
    for run in runs:
        fitting = {question.id: question for question in store.questions(run)[0] if scorer.suits(question)}
        made.append(refinement(store, run, scorer, fitting, seed=options.seed))
    return tuple(made)


def _title(options: AnalysisOptions) -> str:
    return f"What a refinement turned ({options.scorer})"


def _table(made: tuple[RunFlips, ...], options: AnalysisOptions) -> AnalysisTable:
    columns = (
        *("run", "stayed right", "right to wrong", "wrong to right", "stayed wrong"),
        *("other answer", "no first answer", "net", "low", "high"),
    )
    rows = tuple(
        (
            one.run,
            *(one.flips.right_right, one.flips.right_wrong, one.flips.wrong_right, one.flips.wrong_wrong),
            *(one.flips.changed, one.flips.without, one.net, one.low, one.high),
        )
        for one in made
    )
    return AnalysisTable(title=_title(options), columns=columns, rows=rows)


def _picture(made: tuple[RunFlips, ...], options: AnalysisOptions) -> Picture:
    marks = tuple(
        figure_mark(name, figure, one.run)
        for one in made
        for name, figure in (("wrong to right", one.gained), ("right to wrong", one.lost))
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
