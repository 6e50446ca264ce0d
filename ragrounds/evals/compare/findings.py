"""What a table lets one conclude: which runs differ, by its corrected tests and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ragrounds.evals.compare.comparison import RunFigures, ScorerTable
from ragrounds.evals.compare.figures import RunPair
from ragrounds.evals.judges.recorded import ScoreJudges
from ragrounds.evals.stats import holm

LEVEL = 0.05
"""Of all tests of a table together: where no runs differ, one table in twenty calls some different."""
PairTest = Literal["exact", "always-valid", "interval"]
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
    """The pairs of a table that differ: the corrected test says so, and then the interval does too; without a test, the
    interval. By p, the smallest first."""
    found = []
    for pair, test, p in _tested(table.pairs):
        tests = pair.tests
        if tests.difference is None or tests.low is None or tests.high is None or (p is not None and p >= LEVEL):
            continue
        if not (tests.low > 0 or tests.high < 0):
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
    made += [(pair, "exact", pair.p_holm) for pair in pairs if pair.p_holm is not None]
    return made or [(pair, "interval", None) for pair in pairs if len(pairs) == 1]


class ScorerFinding(Struct, frozen=True, kw_only=True):
    """What can be concluded under one scorer."""

    scorer: str
    unit: str
    direction: str
    kind: FindingKind
    best: RunFigures
    """The run with the best figure; of several with the same, the first."""
    equal: tuple[str, ...] = ()
    """Others with the same figure."""
    runs: int
    """With a figure."""
    ahead: tuple[Conclusion, ...] = ()
    """The differences of the best to others that the corrected tests carry whatever becomes of open attempts, the
    smallest first."""
    open: tuple[Conclusion, ...] = ()
    """Differences that the tests carry as things are, and that open attempts could turn round."""
    untold: tuple[str, ...] = ()
    """Runs that the best is not told from, in the order of the comparison."""
    interval: bool = False
    """Whether the interval of the one pair decides, as no test fits the scores."""
    beside: int = 0
    """Pairs that would be told apart if they were the only one: their own interval leaves 0 out."""
    tests: int = 0
    """Pairs of the table: what the correction is over."""
    judges: tuple[tuple[ScoreJudges, tuple[str, ...]], ...] = ()
    """Whose verdicts the scores rest on, with the runs that these judged; empty: no judge's, or it is not kept."""


def finding(table: ScorerTable) -> ScorerFinding | None:
    """What a table lets one conclude; ``None``: no run has a figure in it."""
    known = [line for line in table.lines if line.overall.value is not None]
    if not known:
        return None
    best = (max if table.direction == "higher" else min)(known, key=lambda line: line.overall.value or 0.0)
    if len(table.lines) == 1:
        return ScorerFinding(
            scorer=table.scorer,
            unit=table.unit,
            direction=table.direction,
            kind="alone",
            best=best,
            runs=1,
            judges=score_judges(known),
        )
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
        best=best,
        equal=tuple(line.run for line in known if line is not best and line.overall.value == best.overall.value),
        runs=len(known),
        ahead=ahead,
        open=turnable,
        untold=untold,
        interval=by_interval(table),
        beside=sum(one.tests.leaves_out_0 for one in table.pairs),
        tests=len(table.pairs),
        judges=score_judges(known),
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
