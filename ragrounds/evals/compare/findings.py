"""Conclusions from a table: runs that differ according to its corrected tests, and the order of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragrounds.evals.compare.comparison import Comparison, RunFigures, RunTotals, ScorerTable
from ragrounds.evals.compare.figures import RunPair
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.stats import holm

LEVEL = 0.05
"""Significance level of all tests of a table together: if no runs differ, one table in twenty reports a difference."""
PairTest = Literal["exact", "always-valid", "interval"]
FindingKind = Literal["alone", "ahead", "ahead of some", "best not separated", "open", "none", "untested"]
"""Kind of finding.

``alone``: one run. ``ahead``: the best is separated from all others. ``best not separated``: some runs are separated,
the best from none. ``open``: tests separate runs, but attempts that are still open could reverse this. ``none``: no two
runs are separated. ``untested``: no test says which runs differ.
"""


class Conclusion(Struct, frozen=True, kw_only=True):
    """Pair of runs that differ."""

    better: str
    """Id of the run with the better score."""
    worse: str
    difference: float
    """Absolute difference of the scores, above 0 in either direction."""
    low: float
    high: float
    test: PairTest
    """Test behind the conclusion. ``always-valid``: for runs that stopped early by their own results. ``interval``:
    scores are not right or wrong, so the interval of the single pair decides."""
    p: float | None
    """P value of the test after Holm's correction."""
    corrected: bool
    """True if it is one of several tests."""


def conclusions(table: ScorerTable) -> tuple[Conclusion, ...]:
    """Return the pairs of a table that differ, by p value, the smallest first.

    The corrected test decides, and its interval then agrees. If there is no test, the interval decides.
    """
    differing = []
    for pair, test, p in _tested(table.pairs):
        tests = pair.tests
        if tests.difference is None or tests.low is None or tests.high is None or (p is not None and p >= LEVEL):
            continue
        if not (tests.low > 0 or tests.high < 0):
            continue
        second_higher = tests.difference > 0
        second_better = second_higher == (table.direction == "higher")
        differing.append(
            Conclusion(
                better=pair.second if second_better else pair.first,
                worse=pair.first if second_better else pair.second,
                difference=abs(tests.difference),
                low=tests.low if second_higher else -tests.high,
                high=tests.high if second_higher else -tests.low,
                test=test,
                p=p,
                corrected=p is not None and (len(table.pairs) > 1 or p != tests.p_mcnemar),
            )
        )
    return tuple(sorted(differing, key=lambda conclusion: conclusion.p or 0.0))


def untested(table: ScorerTable) -> bool:
    """Return True if there are pairs but no test of which differ: scores are not right or wrong."""
    return bool(table.pairs) and not _tested(table.pairs)


def by_interval(table: ScorerTable) -> bool:
    """Return True if the interval of the only pair decides because there is no test: scores are not right or wrong."""
    return any(test == "interval" for _, test, _ in _tested(table.pairs))


def _tested(pairs: Sequence[RunPair]) -> list[tuple[RunPair, PairTest, float | None]]:
    """Return the pairs with a test and their corrected p values."""
    always_valid = [pair for pair in pairs if pair.tests.p_always is not None]
    corrected = holm([pair.tests.p_always or 0.0 for pair in always_valid], len(pairs))
    tested: list[tuple[RunPair, PairTest, float | None]] = [
        (pair, "always-valid", p) for pair, p in zip(always_valid, corrected, strict=True)
    ]
    tested += [(pair, "exact", pair.p_holm) for pair in pairs if pair.p_holm is not None]
    return tested or [(pair, "interval", None) for pair in pairs if len(pairs) == 1]


class ScorerFinding(Struct, frozen=True, kw_only=True):
    """Conclusions under one scorer."""

    scorer: str
    unit: str
    direction: str
    kind: FindingKind
    best: RunFigures
    """Run with the best figure; the first of several with the same figure."""
    equal: tuple[str, ...] = ()
    """Other runs with the same figure as `best`."""
    runs: int
    """Number of runs with a figure."""
    ahead: tuple[Conclusion, ...] = ()
    """Differences between the best and other runs that hold whatever becomes of open attempts, the smallest first."""
    open: tuple[Conclusion, ...] = ()
    """Differences that hold now but that open attempts could reverse."""
    not_separated: tuple[str, ...] = ()
    """Runs that are not separated from the best, in the order of the comparison."""
    interval: bool = False
    """True if the interval of the only pair decides because no test fits the scores."""
    n_unadjusted: int = 0
    """Number of pairs whose own interval excludes 0: they would be separated without the correction."""
    tests: int = 0
    """Number of pairs of the table that the correction is over."""
    judges: tuple[tuple[ScoreJudges, tuple[str, ...]], ...] = ()
    """Judges of the scores with the runs that each judged; empty if no judge was used or it is not recorded."""

    @property
    def reversible(self) -> frozenset[str]:
        """Return the runs that are significantly worse than the best now, unless open attempts reverse that."""
        return frozenset(conclusion.worse for conclusion in self.open if conclusion.better == self.best.run)


def finding(table: ScorerTable) -> ScorerFinding | None:
    """Return the conclusions from a table; ``None`` if no run has a figure."""
    lines_with_figure = [line for line in table.lines if line.overall.value is not None]
    if not lines_with_figure:
        return None
    best = (max if table.direction == "higher" else min)(lines_with_figure, key=lambda line: line.overall.value or 0.0)
    if len(table.lines) == 1:
        return ScorerFinding(
            scorer=table.scorer,
            unit=table.unit,
            direction=table.direction,
            kind="alone",
            best=best,
            runs=1,
            judges=score_judges(lines_with_figure),
        )
    differing = conclusions(table)
    line_by_run = {line.run: line for line in table.lines}
    turnable = tuple(
        conclusion
        for conclusion in differing
        if _could_reverse(line_by_run[conclusion.better], line_by_run[conclusion.worse], table)
    )
    firm = [conclusion for conclusion in differing if conclusion not in turnable]
    ahead = tuple(
        sorted(
            (conclusion for conclusion in firm if conclusion.better == best.run),
            key=lambda conclusion: conclusion.difference,
        )
    )
    separated = {conclusion.worse for conclusion in ahead}
    not_separated = tuple(line.run for line in table.lines if line.run not in separated and line.run != best.run)
    return ScorerFinding(
        scorer=table.scorer,
        unit=table.unit,
        direction=table.direction,
        kind=_kind(table, firm, turnable, ahead, not_separated),
        best=best,
        equal=tuple(
            line.run for line in lines_with_figure if line is not best and line.overall.value == best.overall.value
        ),
        runs=len(lines_with_figure),
        ahead=ahead,
        open=turnable,
        not_separated=not_separated,
        interval=by_interval(table),
        n_unadjusted=sum(pair.tests.leaves_out_0 for pair in table.pairs),
        tests=len(table.pairs),
        judges=score_judges(lines_with_figure),
    )


def score_judges(lines: Sequence[RunFigures]) -> tuple[tuple[ScoreJudges, tuple[str, ...]], ...]:
    """Return the judges of a table's scores with the runs that each judged; empty if no judge was used."""
    runs_by_judge: dict[ScoreJudges, tuple[str, ...]] = {}
    for line in lines:
        if line.judges is not None:
            runs_by_judge[line.judges] = (*runs_by_judge.get(line.judges, ()), line.run)
    return tuple(runs_by_judge.items())


def _kind(
    table: ScorerTable,
    firm: Sequence[Conclusion],
    turnable: Sequence[Conclusion],
    ahead: Sequence[Conclusion],
    not_separated: Sequence[str],
) -> FindingKind:
    if ahead:
        return "ahead of some" if not_separated else "ahead"
    if firm:
        return "best not separated"
    if turnable:
        return "open"
    tested = all(pair.p_holm is not None or pair.tests.p_always is not None for pair in table.pairs)
    single = len(table.pairs) == 1 and table.pairs[0].tests.low is not None
    return "none" if table.pairs and not untested(table) and (tested or single) else "untested"


def _could_reverse(better: RunFigures, worse: RunFigures, table: ScorerTable) -> bool:
    """Return True if open attempts, which count as not correct, could bring the worse run up to the better one."""
    if table.unit != "percent" or table.direction != "higher":
        return _is_open(better) or _is_open(worse)
    best, value = worse.overall.best, better.overall.value
    return _is_open(worse) and (best is None or value is None or best >= value)


def _is_open(line: RunFigures) -> bool:
    # A capped attempt is final: a resumed run does not make it again.
    return any(line.outcomes.get(name) for name in ("failed", "paused", "not_run"))


def best_first(comparison: Comparison, tables: Sequence[ScorerTable]) -> list[RunTotals]:
    """Return the runs, the best by the first headline first; runs without a figure last."""
    first = next(iter(tables), None)
    values = {line.run: line.overall.value for line in first.lines} if first else {}
    sign = 1 if first and first.direction == "lower" else -1

    def rank(row: RunTotals) -> tuple[bool, float]:
        value = values.get(row.run)
        return value is None, 0.0 if value is None else sign * value

    return sorted(comparison.rows, key=rank)


def in_order(comparison: Comparison, scorers: Sequence[str] = ()) -> Comparison:
    """Return a comparison whose runs are in the order of :func:`best_first` in all tables."""
    rows = best_first(comparison, comparison.headline_tables(scorers))
    ranks = {row.run: rank for rank, row in enumerate(rows)}
    tables = (
        replace(table, lines=tuple(sorted(table.lines, key=lambda line: ranks[line.run])))
        for table in comparison.tables
    )
    return replace(comparison, rows=tuple(rows), tables=tuple(tables))
