"""Pictures of a comparison: what terminal, report, files and notebooks draw of it. Each says its scorer, and takes its
figures from the tables: nothing is computed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ragrounds.base.errors import UserError
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.findings import by_interval, conclusions, untested
from ragrounds.evals.scorers import figure_word
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.frontier import frontier_picture, titled_by

_MOST = 40
"""Rows of intervals; of more those that come first, and a note that says so."""


def shown_table(comparison: Comparison, scorer: str = "") -> ScorerTable:
    """The table of a scorer; empty: the first that is shown.

    Raises:
        UserError: nothing is scored, or not by this scorer.
    """
    shown = comparison.shown([scorer] if scorer else [])
    if not shown:
        by = f" by {scorer}" if scorer else ""
        raise UserError(f"These runs have no scores{by}: there is nothing to draw. `ragrounds score` scores them.")
    return shown[0][0]


def score_picture(comparison: Comparison, scorer: str = "") -> Picture:
    """Every run's figure with its interval, in the order of the tables.

    Args:
        comparison: of any number of runs.
        scorer: whose scores; empty: the first that is shown.

    Raises:
        UserError: these runs have no scores by it.
    """
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    return _figures(titled_by(table.scorer), table, [_row(names[line.run], line.overall) for line in table.lines])


def dataset_picture(comparison: Comparison, scorer: str = "") -> Picture | None:
    """The same, a group a dataset; ``None``: there is one dataset. Arguments as of :func:`score_picture`."""
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    datasets = list(dict.fromkeys(name for line in table.lines for name in line.datasets))
    if len(datasets) < 2:
        return None
    rows = [
        _row(names[line.run], line.datasets[name], group=name.rpartition("/")[2])
        for name in datasets
        for line in table.lines
        if name in line.datasets
    ]
    return _figures(f"{titled_by(table.scorer)}, by dataset", table, rows)


def difference_picture(comparison: Comparison, scorer: str = "") -> Picture | None:
    """Every pair's difference with its interval, a group for each run that others are set against. Full marks are those
    that the corrected tests of the table carry; ``None``: no pair has a difference.

    Arguments as of :func:`score_picture`.
    """
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    carried = {frozenset((one.better, one.worse)) for one in conclusions(table)}
    rows = [
        Mark(
            name=names[pair.second],
            value=pair.tests.difference,
            low=pair.tests.low,
            high=pair.tests.high,
            group=f"minus {names[pair.first]}",
            note=f"n = {pair.tests.n:,}",
            full=frozenset((pair.first, pair.second)) in carried,
        )
        for pair in table.pairs
        if pair.tests.difference is not None
    ]
    if not rows:
        return None
    full, hollow = _significance(table)
    unit = "percentage points" if table.unit == "percent" else table.unit
    better = "right of 0: the run named scores higher" + (", which is worse" if table.direction == "lower" else "")
    title = titled_by(table.scorer)
    return pair_picture(
        rows,
        title=f"Paired differences: {title[0].lower()}{title[1:]}",
        words=f"difference in {unit} ({better})",
        unit=table.unit,
        full=full,
        hollow=hollow,
    )


def pair_picture(
    rows: Sequence[Mark],
    *,
    title: str,
    words: str,
    unit: str,
    full: str,
    hollow: str,
    spread: str = "95 % intervals",
) -> Picture:
    """Differences of pairs; of many those that are significant, and then the largest. Fields are those of
    :class:`Picture`."""
    order = {group: place for place, group in enumerate(dict.fromkeys(row.group for row in rows))}
    chosen = sorted(rows, key=lambda row: (not row.full, -abs(row.value or 0.0)))[:_MOST] if rows[_MOST:] else rows
    return Picture(
        title=title,
        words=words,
        unit=unit,
        marks=tuple(sorted(chosen, key=lambda row: order[row.group])),
        signed=True,
        reference=0.0,
        full=full,
        hollow=hollow,
        spread=spread,
        note=_left_out(rows, "pairs, significant differences and then the largest first"),
    )


def _significance(table: ScorerTable) -> tuple[str, str]:
    """What full and hollow marks of differences mean: what decides that two runs differ."""
    if untested(table):
        return "", "no test: the interval alone does not say that they differ"
    if by_interval(table):
        if table.pairs[0].tests.low is None:
            return "", "no test fits these scores, and for an interval there are too few questions"
        return "significant (by the interval: no test fits these scores)", "not significant"
    corrected = "corrected test" if len(table.pairs) > 1 else "test"
    return f"significant ({corrected})", "not significant"


def comparison_frontier(comparison: Comparison, scorer: str = "") -> Picture | None:
    """Score and cost of every run; ``None``: no run has a known cost, or more of the score is not what one pays for.
    Arguments as of :func:`score_picture`."""
    table = shown_table(comparison, scorer)
    if table.frontier is None:
        return None
    return frontier_picture(table.frontier, table.scorer, agent_names(comparison))


class ComparisonPicture(NamedTuple):
    """One of the pictures that every comparison is asked for."""

    draw: Callable[[Comparison, str], Picture | None]
    """From a comparison and a scorer, empty for the first that is shown; ``None``: it has no such picture."""
    lacking: str = ""
    """Why it may have none."""


COMPARISON_PICTURES: Mapping[str, ComparisonPicture] = {
    "scores": ComparisonPicture(score_picture),
    "differences": ComparisonPicture(difference_picture, "no two runs have scores for the same question"),
    "frontier": ComparisonPicture(
        comparison_frontier,
        "it takes two runs with a known cost. Give prices in prices.toml, or choose what to count with --cost tokens, "
        "calls or seconds",
    ),
    "datasets": ComparisonPicture(dataset_picture, "these questions are of one dataset"),
}
"""The pictures of a comparison by name, the natural one first."""


def _row(name: str, figure: Figure, group: str = "") -> Mark:
    return Mark(
        name=name,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        best=figure.best if figure.is_open else None,
        note=f"n = {figure.n:,}" + (f", {figure.missing:,} missing" if figure.missing else ""),
        group=group,
    )


def _figures(title: str, table: ScorerTable, rows: Sequence[Mark]) -> Picture:
    unit = "percent right" if figure_word(table.scorer) == "accuracy" else table.unit
    return Picture(
        title=title,
        marks=tuple(rows[:_MOST]),
        words=unit + (", lower is better" if table.direction == "lower" else ""),
        unit=table.unit,
        note=_left_out(rows, "rows, in the order of the tables"),
    )


def _left_out(rows: Sequence[Mark], what: str) -> str:
    return f"{_MOST:,} of {len(rows):,} {what}." if len(rows) > _MOST else ""
