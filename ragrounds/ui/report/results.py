"""Results of a report: figures, differences, costs and datasets of each scorer, then outcomes of attempts.

They are shown as pictures and as the terminal's tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragrounds.base.errors import UserError
from ragrounds.evals.analyses.pictures import Picture
from ragrounds.evals.compare.comparison import Comparison, ScorerTable
from ragrounds.evals.compare.findings import in_order, untested
from ragrounds.evals.compare.frontier import Frontier
from ragrounds.evals.scorers import figure_word
from ragrounds.ui.agent_names import agent_names
from ragrounds.ui.pictures.chart_svg import PAGE_WIDTH, page_picture
from ragrounds.ui.pictures.comparison_pictures import (
    comparison_frontier,
    dataset_picture,
    difference_picture,
    score_picture,
)
from ragrounds.ui.pictures.frontier import frontier_tables, left_out
from ragrounds.ui.tables.comparison_tables import group_table, outcome_table, pair_table, score_table
from ragrounds.ui.tables.html_tables import html_table, text
from ragrounds.ui.text import one_line

_OPEN_PAIRS = 15
"""Number of pairs up to which their table is unfolded."""


def results_section(comparison: Comparison, scorers: Sequence[str]) -> str:
    """Return everything that the tables of the terminal show, with pictures."""
    ordered = in_order(comparison, scorers)
    tables = ordered.shown_tables(scorers)
    parts = [
        _scorer_section(comparison, table, beside, len(tables) > 1, table is tables[0][0]) for table, beside in tables
    ]
    unplaced = all(table.frontier is None for table in comparison.headline_tables(scorers))
    if unplaced and all(row.cost_uncached is None for row in comparison.rows):
        parts.append("<p>No run has a known cost: there is no frontier to draw.</p>")
    parts += ["<h3>How attempts ended, and what they took</h3>", html_table(outcome_table(ordered, scorers))]
    return "".join(parts)


def figure(picture: Picture | None, width: float = PAGE_WIDTH) -> str:
    """Return a picture as a figure of the page; empty if it has nothing to show."""
    if picture is None:
        return ""
    try:
        return f"<figure>{page_picture(picture, width)}</figure>"
    except UserError:  # no point has a value: the tables show that
        return ""


def _scorer_section(
    comparison: Comparison, table: ScorerTable, beside: Sequence[ScorerTable], several: bool, first: bool
) -> str:
    # The page begins with the first headline's frontier.
    names, word = agent_names(comparison), figure_word(table.scorer)
    level = "h4" if several else "h3"
    parts = [f"<h3>Under {text(one_line(table.scorer))}</h3>"] if several else []
    several_runs = len(comparison.rows) > 1
    parts += [f"<{level}>{text(word[:1].upper() + word[1:])}</{level}>"]
    parts += [figure(score_picture(comparison, table.scorer)) if several_runs else ""]
    parts += [html_table(score_table(table, names, beside))]
    if table.pairs:
        differences = figure(difference_picture(comparison, table.scorer))
        parts += [f"<{level}>Paired differences</{level}>", differences, _pairs(table, names)]
    if table.frontier is not None:
        costs = _cost_section(comparison, table, table.frontier, with_picture=several_runs and not first)
        parts += [f"<{level}>Cost and {text(word)}</{level}>", *costs]
    if panels := figure(dataset_picture(comparison, table.scorer)):
        parts += [f"<{level}>Each dataset</{level}>", panels]
    for grouped in table.groups:
        parts += [f"<{level}>By {text(grouped.by)}</{level}>", html_table(group_table(table, grouped, names))]
    return "".join(parts)


def _pairs(table: ScorerTable, names: Mapping[str, str]) -> str:
    pairs = html_table(pair_table(table, names))
    remark = (
        "<p>No test says which of these runs differ: the scores are not right or wrong, and the intervals are each of "
        "one pair alone.</p>"
        if untested(table)
        else ""
    )
    if len(table.pairs) <= _OPEN_PAIRS:
        return remark + pairs
    return f"{remark}<details><summary>All {len(table.pairs):,} pairs</summary>{pairs}</details>"


def _cost_section(comparison: Comparison, table: ScorerTable, placed: Frontier, *, with_picture: bool) -> Iterator[str]:
    names = agent_names(comparison)
    if with_picture:
        yield figure(comparison_frontier(comparison, table.scorer))
    for costs in frontier_tables(placed, table.scorer, names, max(line.overall.n for line in table.lines)):
        yield html_table(costs)
    if left := left_out(placed, names):
        yield f"<p>{text(left)}</p>"
