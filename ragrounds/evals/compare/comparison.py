"""Setting runs against each other: accuracy with intervals, outcomes, tokens, two ledgers, paired tests.

A pure function of the store. Each scorer has its own tables; two scorers are never averaged or compared. What runs
may be compared on is decided in `ragrounds.evals.compare.comparability`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ragrounds.evals.compare.comparability import LOWER_IS_BETTER, SHOWN, ComparisonBasis, comparison_basis
from ragrounds.evals.compare.figures import Figure, GroupTable, PairedFigure, figure, group_table, paired
from ragrounds.evals.compare.frontier import CostMeasure, Frontier, frontier
from ragrounds.evals.compare.sequential_stop import StoppedRuns, StopRecord, ended_early
from ragrounds.evals.stats import holm
from ragrounds.evals.store.store import Store
from ragrounds.records import Question, Run, Usage, outcome

__all__ = ["SHOWN", "Comparison", "RunFigures", "RunPair", "RunTotals", "ScorerTable", "compare"]


class RunTotals(Struct, frozen=True, kw_only=True):
    """What a run came to, apart from its scores."""

    run: str
    agent: str
    origin: str
    models: dict[str, str]
    questions: int
    epochs: int
    statuses: dict[str, int]
    """Attempts by status; `not_run` holds those that are still missing."""
    usage: Usage | None
    """Tokens in all; ``None``: some call's usage is unknown."""
    cost_paid: float | None
    """Dollars really spent."""
    cost_uncached: float | None
    """Dollars uncached: as if nothing had been in the journal."""
    seconds: float | None
    """Mean wall-clock seconds of an attempt."""
    calls: int


class RunFigures(Struct, frozen=True, kw_only=True):
    """A run's figures under one scorer."""

    run: str
    agent: str
    datasets: dict[str, Figure]
    overall: Figure
    """Unweighted mean over datasets (MIRAGE Section 3.1); of one dataset: that dataset's figure."""
    outcomes: dict[str, int]
    """Attempts by outcome: the scorer's reading, or the status of an attempt that did not end well."""


class RunPair(Struct, frozen=True, kw_only=True):
    """Two runs on the same questions under one scorer: `first` minus `second`."""

    first: str
    second: str
    tests: PairedFigure
    p_holm: float | None
    """McNemar's p after Holm's correction over all pairs of this scorer."""


class ScorerTable(Struct, frozen=True, kw_only=True):
    """Everything under one scorer."""

    scorer: str
    lines: tuple[RunFigures, ...]
    pairs: tuple[RunPair, ...]
    frontier: Frontier | None = None
    """``None`` where no run has a known cost, or a lower score is better."""
    groups: tuple[GroupTable, ...] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """Runs set against each other."""

    benchmark: str
    questions: int
    epochs: int
    rows: tuple[RunTotals, ...]
    tables: tuple[ScorerTable, ...]
    notes: tuple[str, ...] = ()
    stopped: dict[str, StopRecord] = field(default_factory=dict)
    """By run: the claim that decided how many questions it has."""


def compare(
    store: Store,
    runs: Sequence[Run],
    *,
    scorers: Sequence[str] = (),
    common: bool = False,
    seed: int = 0,
    cost: CostMeasure | None = None,
    group_by: Sequence[str] = (),
) -> Comparison:
    """Compare runs, under the scorers named (by default all that they were scored by).

    Args:
        store: where they are.
        runs: each once.
        scorers: by default all that the runs have in common.
        common: compare on what all runs share, instead of refusing where they differ.
        seed: of every bootstrap.
        cost: what the frontier counts; by default dollars uncached where they are known, else tokens.
        group_by: properties of questions to make tables by.

    Raises:
        UserError: runs on different questions, epochs or scorers and `common` is not set; a scorer that nothing
            was scored by; an unknown property.
    """
    # What a run that ended by its own results was not asked is not wrong: it was not to be asked.
    ground = comparison_basis(store, runs, scorers, common, ended_early(store, runs))
    rows = tuple(_row(run, ground) for run in runs)
    stopped = StoppedRuns(store, runs, ground)
    notes = [*ground.notes, *stopped.notes]
    notes += [
        f"{row.run} has {row.statuses['not_run']:,} attempts still to be made; they count as not correct."
        for row in rows
        if row.statuses.get("not_run")
    ]
    tables = tuple(_table(scorer, runs, ground, stopped, seed, cost, group_by, notes) for scorer in ground.scorers)
    return Comparison(
        benchmark=runs[0].benchmark,
        questions=len(ground.questions),
        epochs=ground.epochs,
        rows=rows,
        tables=tables,
        notes=tuple(notes),
        stopped=stopped.by_run,
    )


def _row(run: Run, ground: ComparisonBasis) -> RunTotals:
    summaries = ground.summaries[run.id]
    statuses: Counter[str] = Counter(attempt.status for attempt in summaries)
    missing = len(ground.questions) * ground.epochs - len(summaries)
    if missing:
        statuses["not_run"] += missing
    usages = [attempt.usage for attempt in summaries if attempt.status != "not_run"]
    made = [attempt for attempt in summaries if attempt.status != "not_run"]
    return RunTotals(
        run=run.id,
        agent=run.agent,
        origin=run.origin,
        models=dict(run.identity.get("models", {})),
        questions=len(ground.questions),
        epochs=ground.epochs,
        statuses=dict(statuses),
        usage=None if None in usages else sum((usage for usage in usages if usage is not None), Usage()),
        cost_paid=_sum([attempt.cost_paid for attempt in made]),
        cost_uncached=_sum([attempt.cost_uncached for attempt in made]),
        seconds=sum(attempt.seconds for attempt in made) / len(made) if made and run.origin == "replayed" else None,
        calls=sum(attempt.calls for attempt in made),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    return None if None in values else sum(value for value in values if value is not None)


def _table(
    scorer: str,
    runs: Sequence[Run],
    ground: ComparisonBasis,
    stopped: StoppedRuns,
    seed: int,
    cost: CostMeasure | None,
    group_by: Sequence[str],
    notes: list[str],
) -> ScorerTable:
    epochs = ground.epochs
    asked = ground.asked(scorer)
    lines, opened, values = [], {}, {}
    for run in runs:
        status = {(attempt.question_id, attempt.epoch): attempt.status for attempt in ground.summaries[run.id]}
        scores = ground.scores[run.id].get(scorer, [])
        read = {(score.question_id, score.epoch): score.answer_status for score in scores}
        values[run.id], unscored = ground.values(scorer, run, asked)
        if unscored:
            notes.append(
                f"{run.id} has {unscored:,} answers without a score under {scorer}; they are in no mean. "
                f"`ragrounds score {run.id}` scores them."
            )
        outcomes = Counter(
            # An answer that nobody has scored is an answer; that its score is missing stands beside the accuracy.
            outcome(status.get(key, "not_run"), read.get(key, "answered"))
            for key in itertools.product((question.id for question in asked), range(epochs))
        )
        opened[run.id] = open_ = _open(asked, status, epochs)
        datasets = {
            name: figure([q for q in asked if q.benchmark == name], values[run.id], open_, seed)
            for name in dict.fromkeys(question.benchmark for question in asked)
        }
        overall = figure(asked, values[run.id], open_, seed)
        lines.append(
            RunFigures(run=run.id, agent=run.agent, datasets=datasets, overall=overall, outcomes=dict(outcomes))
        )
    tests = [
        (
            first,
            second,
            stopped.paired(
                paired(asked, values[first.id], values[second.id], seed), scorer, first.id, second.id, values
            ),
        )
        for first, second in itertools.combinations(runs, 2)
    ]
    known = [test.p_mcnemar for _, _, test in tests if test.p_mcnemar is not None]
    corrected = iter(holm(known)) if known else iter(())
    pairs = tuple(
        RunPair(
            first=first.id,
            second=second.id,
            tests=test,
            p_holm=float(next(corrected)) if test.p_mcnemar is not None else None,
        )
        for first, second, test in tests
    )
    return ScorerTable(
        scorer=scorer,
        lines=tuple(lines),
        pairs=pairs,
        frontier=None
        if scorer in LOWER_IS_BETTER
        else frontier(
            asked,
            runs,
            values,
            {line.run: line.overall for line in lines},
            ground.summaries,
            epochs,
            measure=cost,
            seed=seed,
        ),
        groups=tuple(group_table(by, asked, values, opened, seed, stopped.concerns) for by in group_by),
    )


def _open(questions: Sequence[Question], status: Mapping[tuple[str, int], str], epochs: int) -> dict[str, float]:
    """Question id → share of its attempts whose result is open: failed, capped or not run."""
    unsettled = ("failed", "capped", "not_run")
    return {
        question.id: sum(status.get((question.id, epoch), "not_run") in unsettled for epoch in range(epochs)) / epochs
        for question in questions
    }
