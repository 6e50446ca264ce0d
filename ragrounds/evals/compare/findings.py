"""What a table lets one conclude: which runs differ, by its corrected tests and by nothing else; and where another way
of counting puts two runs in the other order: all questions pooled in place of the average over datasets, or the careful
reading where answers cannot be read."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.compare.comparison import RunFigures, ScorerTable
from ragrounds.evals.compare.figures import RunPair
from ragrounds.evals.compare.question_values import CAREFUL, MOST_DIFFERENT
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.scorers import described
from ragrounds.evals.stats import holm

LEVEL = 0.05
"""Of all tests of a table together: where no runs differ, one table in twenty calls some different."""
PairTest = Literal["McNemar", "always-valid", "interval"]
LEAST = 5e-5
"""Differences below this are none: tables show hundredths of a percentage point."""
FindingKind = Literal["alone", "ahead", "ahead of some", "best untold", "open", "none", "untested"]
"""``alone``: one run. ``ahead``: the best is told from all others. ``best untold``: some runs are told apart, the best
from none. ``open``: tests tell runs apart, and attempts that are still open could turn that round. ``none``: no two
are told apart. ``untested``: no test says which differ."""


class Conclusion(Struct, frozen=True, kw_only=True):
    """Two runs that differ."""

    better: str
    """A run's id."""
    worse: str
    difference: float
    """How far their scores are apart, above 0, whichever scores are better."""
    low: float
    high: float
    test: PairTest
    """``always-valid``: of runs that ended by their own results. ``interval``: scores are not right or wrong, so that
    of a single pair its interval decides."""
    p: float | None
    """Of the test, after Holm's correction."""
    corrected: bool
    """Whether it is one of several tests."""


def conclusions(table: ScorerTable) -> tuple[Conclusion, ...]:
    """The pairs of a table that differ: the corrected test says so, and the interval that the table shows leaves 0 out,
    on the same side. By p, the smallest first."""
    found = []
    for pair, test, p in _tested(table.pairs):
        tests = pair.tests
        if tests.difference is None or tests.low is None or tests.high is None or (p is not None and p >= LEVEL):
            continue
        if not (tests.low > 0 or tests.high < 0) or not _same_side(pair):
            continue
        up = tests.difference > 0
        second = up == (table.direction == "higher")
        found.append(
            Conclusion(
                better=pair.second if second else pair.first,
                worse=pair.first if second else pair.second,
                difference=abs(tests.difference),
                low=tests.low if up else -tests.high,
                high=tests.high if up else -tests.low,
                test=test,
                p=p,
                corrected=p is not None and (len(table.pairs) > 1 or p != tests.p_mcnemar),
            )
        )
    return tuple(sorted(found, key=lambda one: one.p or 0.0))


def untested(table: ScorerTable) -> bool:
    """Whether there are pairs and no test that says which of them differ: scores are not right or wrong."""
    return bool(table.pairs) and not _tested(table.pairs)


def by_interval(table: ScorerTable) -> bool:
    """Whether the interval of the one pair decides, as there is no test: scores are not right or wrong."""
    return any(test == "interval" for _, test, _ in _tested(table.pairs))


def _tested(pairs: Sequence[RunPair]) -> list[tuple[RunPair, PairTest, float | None]]:
    """The pairs with a test, and their corrected p value."""
    watched = [pair for pair in pairs if pair.tests.p_always is not None]
    always = holm([pair.tests.p_always or 0.0 for pair in watched], len(pairs))
    made: list[tuple[RunPair, PairTest, float | None]] = [
        (pair, "always-valid", p) for pair, p in zip(watched, always, strict=True)
    ]
    made += [(pair, "McNemar", pair.p_holm) for pair in pairs if pair.p_holm is not None]
    return made or [(pair, "interval", None) for pair in pairs if len(pairs) == 1]


def _same_side(pair: RunPair) -> bool:
    """Whether what McNemar's test counts, answers that one run alone has right, goes the way of the difference, which
    is a mean over datasets."""
    tests = pair.tests
    if pair.p_holm is None or tests.first_only is None or tests.second_only is None or tests.difference is None:
        return True
    return (tests.second_only - tests.first_only) * tests.difference > 0


class RankReversal(Struct, frozen=True, kw_only=True):
    """A run that the careful reading puts before the one with the best figure."""

    scorer: str
    """The careful one."""
    best: RunFigures
    """Under it the run that has the best figure by the headline."""
    other: RunFigures
    """Under it the run that then has the best figure."""
    unread: tuple[tuple[str, int, int], ...]
    """Of these two the runs whose answers the headline's scorer cannot read: id, how many, of how many attempts."""


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
    turned: RankReversal | None = None
    """Where answers cannot be read and the careful reading puts another run first."""


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
        turned=rank_reversal(table, best, tables),
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


def rank_reversal(table: ScorerTable, best: RunFigures, tables: Sequence[ScorerTable]) -> RankReversal | None:
    """What the careful reading says of the run with the best figure; ``None``: the same, or nothing to the point.

    Args:
        table: under the headline's scorer.
        best: its line with the best figure.
        tables: all of the comparison.
    """
    scorer = described(table.scorer)
    careful = next((one for one in tables if one.scorer == CAREFUL), None)
    if careful is None or table.scorer == CAREFUL or not scorer.accuracy or "choice" not in scorer.kinds:
        return None
    lines = {line.run: line for line in careful.lines if line.overall.value is not None}
    if scorer.needs_judge or best.run not in lines:
        return None
    mine = lines.pop(best.run)
    behind = {line.run for line in table.lines if gap(best.overall.value, line.overall.value) >= LEAST}
    own = mine.overall.value
    before = [line for line in lines.values() if line.run in behind and gap(line.overall.value, own) >= LEAST]
    if not before:
        return None
    other = max(before, key=lambda line: line.overall.value or 0.0)
    unread = tuple(
        (line.run, count, whole)
        for line in table.lines
        if line.run in (best.run, other.run)
        and (count := line.outcomes.get("unreadable", 0)) > MOST_DIFFERENT * (whole := sum(line.outcomes.values()))
    )
    return RankReversal(scorer=CAREFUL, best=mine, other=other, unread=unread) if unread else None


class Reversal(Struct, frozen=True):
    """Two runs whose order the average turns round."""

    ahead: RunFigures
    """By the average over datasets."""
    behind: RunFigures
    """By the average; ahead by all questions pooled."""


def is_average(table: ScorerTable) -> bool:
    """Whether the figures of a table are averages over several datasets."""
    several = bool(table.lines) and len(table.lines[0].datasets) > 1
    return several and described(table.scorer).aggregation.datasets != "pooled"


def reversals(table: ScorerTable) -> tuple[Reversal, ...]:
    """The pairs of runs whose average and pooled figure say opposite things, those that are farthest apart first."""
    if not is_average(table):
        return ()
    sign = -1 if table.direction == "lower" else 1
    found: list[tuple[float, Reversal]] = []
    for one, other in itertools.combinations(table.lines, 2):
        average, pooled = gap(one.overall.value, other.overall.value), gap(one.overall.pooled, other.overall.pooled)
        if average * pooled < 0 and min(abs(average), abs(pooled)) >= LEAST:
            ahead = sign * average > 0
            found.append((min(abs(average), abs(pooled)), Reversal(one if ahead else other, other if ahead else one)))
    return tuple(one for _, one in sorted(found, key=lambda each: -each[0]))


def gap(one: float | None, other: float | None) -> float:
    """The difference of two figures; 0 where one of them is not there."""
    return 0.0 if one is None or other is None else one - other
