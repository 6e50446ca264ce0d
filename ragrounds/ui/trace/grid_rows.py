"""The grid without a terminal: as text, Markdown, CSV and JSON.

Text begins with what it comes to, each agent and every two of them; then the questions.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import msgspec

from ragrounds.evals.compare.grid import TwoByTwo
from ragrounds.evals.compare.grid_table import GridQuestion, GridTable
from ragrounds.evals.scorers import described
from ragrounds.files import guarded
from ragrounds.ui.tables import Column, TextTable
from ragrounds.ui.text import UNKNOWN, dollars, in_scale, number_of, p_value, points, safe
from ragrounds.ui.trace.grid_cells import cell_text, score_text

_SIGNS = "✓ right  ✗ wrong  ! failed  ^ capped  x blocked or refused  = paused  ~ abstained  ? unreadable  0 empty"
_MOST_PAIRS = 15
"""Pairs that text lists at most; CSV leaves them out and JSON has all."""


def grid_tables(table: GridTable) -> list[TextTable]:
    """What a terminal and Markdown show."""
    unit = described(table.scorer).unit if table.scorer else "percent"
    made = [_agents(table, unit)]
    if table.pairs:
        made.append(_pairs(table, unit))
    if table.sort == "group":
        made.append(_groups(table, unit))
    listed = number_of(len(table.rows), "question")
    of = f" of {table.questions:,}" if len(table.rows) != table.questions else ""
    made.append(
        TextTable(
            key="grid",
            title=f"{listed}{of}, by {table.sort} ({_SIGNS}  · not run)",
            columns=(
                Column("question", right=False, whole=True),
                Column("group", right=False),
                Column("split"),
                *(Column(f"{place}", right=False, whole=True) for place in range(1, len(table.agents) + 1)),
                Column("cost"),
            ),
            rows=tuple(_row(question) for question in table.rows),
        )
    )
    return made


def _row(question: GridQuestion) -> tuple[str, ...]:
    split = UNKNOWN if question.disagreement is None else score_text(question.disagreement)
    costs = [cell.cost for cell in question.cells if cell.outcome != "not_run"]
    known = [cost for cost in costs if cost is not None]
    cost = dollars(sum(known)) if costs and len(known) == len(costs) else UNKNOWN
    return safe(question.id), safe(question.group), split, *map(cell_text, question.cells), cost


def _agents(table: GridTable, unit: str) -> TextTable:
    apart = "".join(f"; {count:,} cells scored by {name} are in no mean" for name, count in table.others.items())
    return TextTable(
        key="agents",
        scorer=table.scorer,
        title=(f"Agents, mean score by {table.scorer}" if table.scorer else "Agents") + apart,
        columns=(Column("#"), Column("agent", right=False), Column("mean"), Column("questions with a score")),
        rows=tuple(
            (f"{place}", safe(one.name), in_scale(one.mean, unit), f"{one.scored:,} of {table.questions:,}")
            for place, one in enumerate(table.agents, 1)
        ),
    )


def _pairs(table: GridTable, unit: str) -> TextTable:
    # Those that differ most surely come first; a pair without a test by how often they differ.
    ranked = sorted(table.pairs, key=lambda pair: (pair.p is None, pair.p or 0, -pair.first_only - pair.second_only))
    left = len(ranked) - _MOST_PAIRS
    more = f"; {number_of(left, 'further pair')} in --format json" if left > 0 else ""
    return TextTable(
        key="pairs",
        scorer=table.scorer,
        title=f"Every two agents, on the questions both have a score for by {table.scorer}{more}",
        columns=(
            Column("pair", right=False, whole=True),
            Column("both right"),
            Column("first alone"),
            Column("second alone"),
            Column("neither"),
            Column("second − first"),
            Column("McNemar p"),
            Column("Holm p"),
        ),
        rows=tuple(_pair(pair, unit) for pair in ranked[:_MOST_PAIRS]),
    )


def _pair(pair: TwoByTwo, unit: str) -> tuple[str, ...]:
    gap = pair.difference
    difference = UNKNOWN if gap is None else points(gap) if unit == "percent" else f"{gap:+.4g}"
    counts = (pair.both, pair.first_only, pair.second_only, pair.neither)
    tests = (p_value(pair.p), p_value(pair.p_holm))
    return f"{pair.first + 1} × {pair.second + 1}", *(f"{count:,}" for count in counts), difference, *tests


def _groups(table: GridTable, unit: str) -> TextTable:
    return TextTable(
        key="groups",
        scorer=table.scorer,
        title="Groups, mean scores",
        columns=(
            Column("group", right=False),
            Column("questions"),
            *(Column(f"{place}") for place in range(1, len(table.agents) + 1)),
        ),
        rows=tuple(
            (safe(group.name), f"{group.count:,}", *(in_scale(mean, unit) for mean in group.means))
            for group in table.groups
        ),
    )


def grid_csv(table: GridTable) -> str:
    """A row a question; of each agent its score, outcome and cost. Nothing in a cell is a formula."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    heads = [f"{one.name} {what}" for one in table.agents for what in ("score", "outcome", "cost_uncached")]
    writer.writerow([guarded(safe(head)) for head in ("question_id", "subject", "disagreement", *heads)])
    for row in table.rows:
        writer.writerow([guarded(safe(cell)) for cell in _csv_cells(row)])
    return text.getvalue()


def _csv_cells(row: GridQuestion) -> Iterator[str]:
    yield from (row.id, row.group, _plain(row.disagreement))
    for cell in row.cells:
        yield from (_plain(cell.value), cell.outcome, _plain(cell.cost))


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.12g}"


def grid_json(table: GridTable) -> dict[str, object]:
    """The records as values that JSON can hold."""
    made: dict[str, object] = msgspec.to_builtins(table)
    return made
