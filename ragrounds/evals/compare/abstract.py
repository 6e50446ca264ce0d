"""The abstract of a comparison as data: who answered what, when, with which models, what is missing, and what the
corrected tests let one conclude. The report, the leaderboard and the terminal say it in the same words
(:mod:`ragrounds.ui.comparison_words`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.benchmarks.cards import card_of
from ragrounds.evals.compare.comparison import Comparison, RunFigures, RunTotals, ScorerTable
from ragrounds.evals.compare.conclusions import LEVEL, Conclusion, by_interval, conclusions, untested
from ragrounds.evals.compare.turned_order import TurnedOrder, turned_order
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.scorers import described
from ragrounds.evals.store.store import Store
from ragrounds.records import Run

FindingKind = Literal["alone", "ahead", "ahead of some", "best untold", "open", "none", "untested"]
"""``alone``: one run. ``ahead``: the best is told from all others. ``best untold``: some runs are told apart, the best
from none. ``open``: tests tell runs apart, and attempts that are still open could turn that round. ``none``: no two
are told apart. ``untested``: no test says which differ."""
LackKind = Literal["not_run", "failed", "paused", "unjudged", "unscored"]


class ScorerFinding(Struct, frozen=True, kw_only=True):
    """What can be concluded under one scorer."""

    scorer: str
    unit: str
    direction: str
    kind: FindingKind
    level: float
    """Of all tests of the table together."""
    best: RunFigures
    """The run with the best figure; of several with the same, the first."""
    equal: tuple[str, ...] = ()
    """Others with the same figure."""
    runs: int
    """With a figure."""
    ahead: tuple[Conclusion, ...]
    """The differences of the best to others that the corrected tests carry whatever becomes of open attempts, the
    smallest first."""
    open: tuple[Conclusion, ...]
    """Differences that the tests carry as things are, and that open attempts could turn round."""
    untold: tuple[str, ...]
    """Runs that the best is not told from, in the order of the comparison."""
    interval: bool = False
    """Whether the interval of the one pair decides, as no test fits the scores."""
    beside: int = 0
    """Where no two runs differ by the tests: pairs whose interval leaves 0 out all the same."""
    tests: int
    """Pairs of the table: what the correction is over."""
    judges: tuple[tuple[ScoreJudges, tuple[str, ...]], ...] = ()
    """Whose verdicts the scores rest on, with the runs that these judged; empty: no judge's, or it is not kept."""
    mde: float | None = None
    """Where the best is not told from all others: the smallest difference to the nearest of them that these questions
    would show with 80 % power."""
    turned: TurnedOrder | None = None
    """Where answers cannot be read and the careful reading puts another run first."""


class AbstractSystem(Struct, frozen=True, kw_only=True):
    """One that answered."""

    run: str
    agent: str
    models: tuple[str, ...]
    """That it asked, each once, without parameters; empty: not known."""
    imported: bool
    began: float
    """Seconds since the epoch."""
    ended: float
    """When its last attempt was made; where that is not known, when it began."""


class Lack(Struct, frozen=True, kw_only=True):
    """What is missing of a run."""

    run: str
    kind: LackKind
    count: int
    of: int
    scorer: str = ""
    """``unjudged``, ``unscored``: by which questions have no score."""


class Abstract(Struct, frozen=True, kw_only=True):
    """What stands before everything else."""

    benchmark: str
    title: str
    """The benchmark's, by its card; empty: it has none."""
    datasets: tuple[str, ...]
    questions: int
    epochs: int
    systems: tuple[AbstractSystem, ...]
    findings: tuple[ScorerFinding, ...]
    """One for each headline that has a figure."""
    lacks: tuple[Lack, ...]

    @property
    def incomplete(self) -> bool:
        """Whether anything is missing that could still be made."""
        return bool(self.lacks)


def abstract(store: Store, runs: Sequence[Run], comparison: Comparison, scorers: Sequence[str] = ()) -> Abstract:
    """The abstract of a comparison.

    Args:
        store: where the runs are.
        runs: those of the comparison.
        comparison: their figures.
        scorers: those that are shown; none: the headlines.
    """
    tables = [table for table, _ in comparison.shown(scorers)]
    card = card_of(comparison.benchmark)
    rows = {row.run: row for row in comparison.rows}
    return Abstract(
        benchmark=comparison.benchmark,
        title=card.title if card else "",
        datasets=tuple(dict.fromkeys(name for table in tables for name in table.lines[0].datasets)),
        questions=comparison.questions,
        epochs=comparison.epochs,
        systems=tuple(_system(store, run, rows[run.id]) for run in runs),
        findings=tuple(found for table in tables if (found := finding(table, comparison.tables)) is not None),
        lacks=tuple(_lacks(comparison, tables)),
    )


def finding(table: ScorerTable, tables: Sequence[ScorerTable] = ()) -> ScorerFinding | None:
    """What a table lets one conclude; ``None``: no run has a figure in it.

    Args:
        table: of a comparison.
        tables: all of that comparison, to set the careful reading beside it.
    """
    known = [line for line in table.lines if line.overall.value is not None]
    if not known:
        return None
    best = (max if table.direction == "higher" else min)(known, key=lambda line: line.overall.value or 0.0)
    found = conclusions(table)
    lines = {line.run: line for line in table.lines}
    turnable = tuple(one for one in found if _could_turn(lines[one.better], lines[one.worse], table))
    held = [one for one in found if one not in turnable]
    ahead = tuple(sorted((one for one in held if one.better == best.run), key=lambda one: one.difference))
    told = {one.worse for one in ahead}
    untold = tuple(line.run for line in table.lines if line.run not in told and line.run != best.run)
    return ScorerFinding(
        scorer=table.scorer,
        unit=table.unit,
        direction=table.direction,
        kind=_kind(table, held, turnable, ahead, untold),
        level=LEVEL,
        best=best,
        equal=tuple(line.run for line in known if line is not best and line.overall.value == best.overall.value),
        runs=len(known),
        ahead=ahead,
        open=turnable,
        untold=untold,
        interval=by_interval(table),
        beside=sum(
            one.tests.low is not None and (one.tests.low > 0 or (one.tests.high or 0.0) < 0) for one in table.pairs
        ),
        tests=len(table.pairs),
        judges=score_judges(known),
        mde=_mde(table, best.run, untold, lines),
        turned=turned_order(table, best, tables),
    )


def score_judges(lines: Sequence[RunFigures]) -> tuple[tuple[ScoreJudges, tuple[str, ...]], ...]:
    """Whose verdicts the scores of a table rest on, with the runs that these judged; empty: nobody's."""
    found: dict[ScoreJudges, tuple[str, ...]] = {}
    for line in lines:
        if line.judges is not None:
            found[line.judges] = (*found.get(line.judges, ()), line.run)
    return tuple(found.items())


def _kind(
    table: ScorerTable,
    held: Sequence[Conclusion],
    turnable: Sequence[Conclusion],
    ahead: Sequence[Conclusion],
    untold: Sequence[str],
) -> FindingKind:
    if len(table.lines) == 1:
        return "alone"
    if ahead:
        return "ahead of some" if untold else "ahead"
    if held:
        return "best untold"
    if turnable:
        return "open"
    tested = all(pair.p_holm is not None or pair.tests.p_always is not None for pair in table.pairs)
    single = len(table.pairs) == 1 and table.pairs[0].tests.low is not None
    return "none" if table.pairs and not untested(table) and (tested or single) else "untested"


def _could_turn(better: RunFigures, worse: RunFigures, table: ScorerTable) -> bool:
    """Whether attempts that are open, and count as not correct, could bring the worse run up to the better one."""
    if table.unit != "percent" or table.direction != "higher":
        return _is_open(better) or _is_open(worse)
    best, value = worse.overall.best, better.overall.value
    return _is_open(worse) and (best is None or value is None or best >= value)


def _is_open(line: RunFigures) -> bool:
    return any(line.outcomes.get(name) for name in ("failed", "paused", "not_run"))


def _mde(table: ScorerTable, best: str, untold: Sequence[str], lines: Mapping[str, RunFigures]) -> float | None:
    """Of the pair of the best and the nearest run that it is not told from."""
    pairs = {frozenset((pair.first, pair.second)): pair.tests for pair in table.pairs}
    nearest = sorted(
        (run for run in untold if lines[run].overall.value is not None),
        key=lambda run: abs((lines[run].overall.value or 0.0) - (lines[best].overall.value or 0.0)),
    )
    tests = pairs.get(frozenset((best, nearest[0]))) if nearest else None
    return tests.mde if tests is not None else None


def _system(store: Store, run: Run, row: RunTotals) -> AbstractSystem:
    models = [text.partition("[")[0] for text in row.models.values()] or list(row.answered_by)
    if not models and run.identity.get("model"):
        models = [str(run.identity["model"])]
    last = max((attempt.at for attempt in store.summaries(run)), default=0.0)
    return AbstractSystem(
        run=run.id,
        agent=run.agent,
        models=tuple(dict.fromkeys(models)),
        imported=run.origin == "imported",
        began=run.created,
        ended=max(run.created, last),
    )


def _lacks(comparison: Comparison, tables: Sequence[ScorerTable]) -> Iterator[Lack]:
    for row in comparison.rows:
        asked = row.questions * row.epochs
        kinds: tuple[LackKind, ...] = ("not_run", "failed", "paused")
        for kind in kinds:
            if count := row.statuses.get(kind, 0):
                yield Lack(run=row.run, kind=kind, count=count, of=asked)
        for table in tables:
            missing = next((line.overall for line in table.lines if line.run == row.run), None)
            if missing is not None and missing.missing:
                kind = "unjudged" if described(table.scorer).needs_judge else "unscored"
                of = missing.n + missing.missing
                yield Lack(run=row.run, kind=kind, count=missing.missing, of=of, scorer=table.scorer)
