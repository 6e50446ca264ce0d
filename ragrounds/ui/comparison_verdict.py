"""What a comparison says in a line a scorer: which run is ahead, as far as the corrected tests of its table tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.comparison import Comparison, RunFigures, ScorerTable
from ragrounds.evals.compare.conclusions import Conclusion, conclusions, untested
from ragrounds.ui.text import TOO_FEW, figure_text, in_scale, number_of, percent, points


def verdict_lines(
    comparison: Comparison, scorers: Sequence[str], numbers: Mapping[str, str], names: Mapping[str, str]
) -> Iterator[str]:
    """A line for each table that is shown, and that has scores.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        numbers: run id → number in the tables.
        names: run id → what the run is called, safe to show.
    """
    for table, _ in comparison.shown(scorers):
        known = [line for line in table.lines if line.overall.value is not None]
        if known:
            best = (max if table.direction == "higher" else min)(known, key=lambda line: line.overall.value or 0.0)
            several = len(table.lines) > 1
            called = f"#{numbers[best.run]} {names[best.run]}" if several else names[best.run]
            said = _said(table, best, numbers) if several else f"has {alone_words(table, best)}"
            yield f"{table.scorer}: {called} {said}."


def alone_words(table: ScorerTable, line: RunFigures) -> str:
    """A run's figure with its interval, in words."""
    whole = line.overall
    unit = " %" if table.unit == "percent" else f" {table.unit}"
    if whole.low is None or whole.high is None:
        return (
            f"{in_scale(whole.value, table.unit)}{unit} of {number_of(whole.n, 'question')}, {TOO_FEW} for an interval"
        )
    low, high = (_end(end, table) for end in (whole.low, whole.high))
    return f"{in_scale(whole.value, table.unit)}{unit} (95 %: {low} to {high}), {number_of(whole.n, 'question')}"


def _end(value: float, table: ScorerTable) -> str:
    return percent(value, 1) if table.unit == "percent" else figure_text(value, ".4g")


def _said(table: ScorerTable, best: RunFigures, numbers: Mapping[str, str]) -> str:
    """What the tests say of the run with the best figure."""
    value = in_scale(best.overall.value, table.unit)
    found = conclusions(table)
    below = {one.worse: one for one in found if one.better == best.run}
    others = [line.run for line in table.lines if line.run != best.run]
    if untested(table) or not table.pairs:
        return f"has the best figure, {value}; no test says which runs differ"
    if not below:
        whole = all(pair.p_holm is not None or pair.tests.p_always is not None for pair in table.pairs)
        none = "no two runs differ by the tests" if whole else "no test says which runs differ"
        told = "no test tells it from any other" if found else none
        return f"has the best figure, {value}; {told}"
    nearest = min(below.values(), key=lambda one: one.difference)
    if len(below) == len(others):
        whom = "the other" if len(others) == 1 else "both others" if len(others) == 2 else f"all {len(others)} others"
        return f"is ahead of {whom}, {value}: {_by(nearest, table, numbers, len(others) > 1)}"
    rest = [f"#{numbers[run]}" for run in others if run not in below]
    listed = ", ".join(rest[:5]) + (f" and {len(rest) - 5} more" if len(rest) > 5 else "")
    return f"is ahead of {len(below)} of {len(others)} others, {value}; not told from {listed}"


def _by(one: Conclusion, table: ScorerTable, numbers: Mapping[str, str], named: bool) -> str:
    """How far the nearest is behind."""
    whom = f" on the nearest, #{numbers[one.worse]}" if named else ""
    if table.unit == "percent":
        ends = f"{points(one.low, 1)} to {points(one.high, 1)}"
        return f"{points(one.difference)} points{whom} (95 %: {ends})"
    ends = f"{figure_text(one.low, '+.4g')} to {figure_text(one.high, '+.4g')}"
    return f"{figure_text(one.difference, '+.4g')} {table.unit}{whom} (95 %: {ends})"
