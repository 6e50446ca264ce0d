"""Pictures of a comparison, for the terminal, reports, files and notebooks.

Each names its scorer and takes its figures from the tables: nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ragrounds.base.errors import UserError
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.figures import Figure
from ragrounds.evals.compare.findings import by_interval, conclusions, untested
from ragrounds.evals.scorers import figure_word
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.frontier import NO_FRONTIER, frontier_picture, titled_by

_MAX_ROWS = 40
"""Maximum number of rows of intervals; the first rows are shown, and a note counts all."""


def shown_table(comparison: Comparison, scorer: str = "") -> ScorerTable:
    """Return the table of a scorer; by default the first that is shown.

    Raises:
        UserError: nothing is scored, or not by this scorer.
    """
    tables = comparison.headline_tables([scorer] if scorer else [])
    if not tables:
        by_scorer = f" by {scorer}" if scorer else ""
        raise UserError(
            f"These runs have no scores{by_scorer}: there is nothing to draw. `ragrounds score` scores them."
        )
    return tables[0]


def score_picture(comparison: Comparison, scorer: str = "") -> Picture:
    """Return every run's figure with its interval, in the order of the tables.

    Args:
        comparison: a comparison of any number of runs.
        scorer: scorer of the figures; by default the first that is shown.

    Raises:
        UserError: these runs have no scores by it.
    """
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    rows = [_figure_mark(names[line.run], line.overall) for line in table.lines]
    return _figures_picture(titled_by(table.scorer), table, rows, names)


def dataset_picture(comparison: Comparison, scorer: str = "") -> Picture | None:
    """Return every run's figures by dataset; ``None`` if there is one dataset.

    Arguments as of :func:`score_picture`.
    """
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    datasets = list(dict.fromkeys(name for line in table.lines for name in line.datasets))
    if len(datasets) < 2:
        return None
    rows = [
        _figure_mark(names[line.run], line.datasets[name], group=name.rpartition("/")[2])
        for name in datasets
        for line in table.lines
        if name in line.datasets
    ]
    return _figures_picture(f"{titled_by(table.scorer)}, by dataset", table, rows, names)


def difference_picture(comparison: Comparison, scorer: str = "") -> Picture | None:
    """Return every pair's difference with its interval, grouped by the run that is subtracted.

    Full marks are differences that the corrected tests of the table find significant. ``None`` if no pair has a
    difference.

    Arguments as of :func:`score_picture`.
    """
    table, names = shown_table(comparison, scorer), agent_names(comparison)
    significant = {frozenset((conclusion.better, conclusion.worse)) for conclusion in conclusions(table)}
    rows = [
        Mark(
            name=names[pair.second],
            value=pair.tests.difference,
            low=pair.tests.low,
            high=pair.tests.high,
            group=f"minus {names[pair.first]}",
            note=f"n = {pair.tests.n:,}",
            full=frozenset((pair.first, pair.second)) in significant,
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
        Picture(
            title=f"Paired differences: {title[0].lower()}{title[1:]}",
            words=f"difference in {unit} ({better})",
            unit=table.unit,
            marks=tuple(rows),
            full=full,
            hollow=hollow,
            series_names=tuple(names.values()),
        )
    )


def pair_picture(picture: Picture) -> Picture:
    """Return a picture of the differences that a picture has as marks; of many, the significant ones, then the
    largest.
    """
    rows = picture.marks
    order = {group: index for index, group in enumerate(dict.fromkeys(row.group for row in rows))}
    shown_rows = (
        sorted(rows, key=lambda row: (not row.full, -abs(row.value or 0.0)))[:_MAX_ROWS] if rows[_MAX_ROWS:] else rows
    )
    return replace(
        picture,
        marks=tuple(sorted(shown_rows, key=lambda row: order[row.group])),
        signed=True,
        reference=0.0,
        note=_left_out_note(rows, "pairs, significant differences and then the largest first"),
    )


def _significance(table: ScorerTable) -> tuple[str, str]:
    """Return the meanings of full and hollow marks of differences: the test that decides that two runs differ."""
    if untested(table):
        return "", "no test: the interval alone does not say that they differ"
    if by_interval(table):
        if table.pairs[0].tests.low is None:
            return "", "no test fits these scores, and for an interval there are too few questions"
        return "significant (by the interval: no test fits these scores)", "not significant"
    corrected = "corrected test" if len(table.pairs) > 1 else "test"
    return f"significant ({corrected})", "not significant"


def comparison_frontier(comparison: Comparison, scorer: str = "") -> Picture | None:
    """Return score and cost of every run.

    ``None`` if no run has a known cost, or if a higher score is not what one pays for. Arguments as of
    :func:`score_picture`.
    """
    table = shown_table(comparison, scorer)
    if table.frontier is None:
        return None
    return frontier_picture(table.frontier, table.scorer, agent_names(comparison))


class ComparisonPicture(NamedTuple):
    """Picture that every comparison offers."""

    draw: Callable[[Comparison, str], Picture | None]
    """Function of a comparison and a scorer (empty for the first that is shown); ``None`` if there is no such
    picture.
    """
    lacking: str = ""
    """Reason why a comparison may not have the picture."""


COMPARISON_PICTURES: Mapping[str, ComparisonPicture] = {
    "scores": ComparisonPicture(score_picture),
    "differences": ComparisonPicture(difference_picture, "no two runs have scores for the same question"),
    "frontier": ComparisonPicture(comparison_frontier, NO_FRONTIER),
    "datasets": ComparisonPicture(dataset_picture, "these questions are of one dataset"),
}
"""Pictures of a comparison by name, the default one first."""


def _figure_mark(name: str, figure: Figure, group: str = "") -> Mark:
    return Mark(
        name=name,
        value=figure.value,
        low=figure.low,
        high=figure.high,
        best=figure.best if figure.is_open else None,
        note=f"n = {figure.n:,}" + (f", {figure.missing:,} missing" if figure.missing else ""),
        group=group,
    )


def _figures_picture(title: str, table: ScorerTable, rows: Sequence[Mark], names: Mapping[str, str]) -> Picture:
    unit = "percent right" if figure_word(table.scorer) == "accuracy" else table.unit
    return Picture(
        title=title,
        marks=tuple(rows[:_MAX_ROWS]),
        words=unit + (", lower is better" if table.direction == "lower" else ""),
        unit=table.unit,
        series_names=tuple(names.values()),
        note=_left_out_note(rows, "rows, in the order of the tables"),
    )


def _left_out_note(rows: Sequence[Mark], description: str) -> str:
    return f"{_MAX_ROWS:,} of {len(rows):,} {description}." if len(rows) > _MAX_ROWS else ""
