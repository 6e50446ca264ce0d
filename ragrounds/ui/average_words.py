"""What a reader of an average over datasets must know, in lines: runs whose order it turns round, datasets of a few
questions that weigh in it as much as others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.evals.compare.averages import FEW, is_average, reversals, small_datasets, smallest
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.ui.text import in_scale, number_of, one_line, safe


def average_lines(comparison: Comparison, scorers: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    """The lines of every table that is shown; none where nothing misleads.

    Args:
        comparison: of any number of runs.
        scorers: those that were asked for; none: the headlines.
        names: run id → what a run is called, safe to show.
    """
    for table, _ in comparison.shown(scorers):
        yield from (f"{one_line(table.scorer)}: {line}" for line in _lines(table, names))


def _lines(table: ScorerTable, names: Mapping[str, str]) -> Iterator[str]:
    count = len(table.lines[0].datasets) if table.lines else 0
    if turned := reversals(table):
        first = turned[0]
        ahead, behind = first.ahead, first.behind
        average, pooled = (
            f"{in_scale(one, table.unit)} against {in_scale(other, table.unit)}"
            for one, other in (
                (ahead.overall.value, behind.overall.value),
                (ahead.overall.pooled, behind.overall.pooled),
            )
        )
        more = f" So it is with {number_of(len(turned) - 1, 'more pair')}." if len(turned) > 1 else ""
        yield (
            f"by the average of {count} datasets {names[ahead.run]} is ahead of {names[behind.run]}, {average}; over "
            f"all questions pooled it is behind, {pooled}.{more}"
        )
    if small := small_datasets(table):
        yield f"{small_words(small)}: in the average each of {count} datasets weighs alike."


def small_words(small: Mapping[str, int]) -> str:
    """Datasets of a few questions with their numbers."""
    listed = ", ".join(f"{safe(name.rpartition('/')[2])} {n:,}" for name, n in small.items())
    verb = "has" if len(small) == 1 else "have"
    return f"{number_of(len(small), 'dataset')} {verb} fewer than {FEW} questions ({listed})"


def drawn_words(counts: Mapping[str, int], limit: int) -> str:
    """That a limit leaves some datasets a few questions, and how to draw as many of each; empty: it does not.

    Args:
        counts: dataset → questions drawn.
        limit: of all together.
    """
    small = smallest(counts) if len(counts) > 1 else {}
    if not small:
        return ""
    return (
        f"With --limit {limit:,}, {small_words(small)}: in an average over datasets each of the {len(counts)} weighs "
        f"alike. --per-dataset {max(1, limit // len(counts)):,} draws as many of each."
    )


def average_heading(table: ScorerTable) -> str:
    """What the figures of a table are an average of; empty: of nothing."""
    return f"average of {len(table.lines[0].datasets)} datasets" if is_average(table) else ""
