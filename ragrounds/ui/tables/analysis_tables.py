"""An analysis as a table of text, and printed with its picture."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from ragrounds.evals.analyses.analysis import AnalysisResult, AnalysisTable
from ragrounds.evals.analyses.pictures import renamed
from ragrounds.evals.compare.figures import Figure
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.tables.comparison_tables import figure_words
from ragrounds.ui.tables.text_tables import Column, TextTable, print_table, results_console
from ragrounds.ui.text import UNKNOWN, one_line, safe, wrapped

_FIGURE = re.compile(r"[-+≥<]? ?\$?\d|-?$")
"""The beginning of a text that is aligned to the right: a figure, or nothing."""


def analysis_table(table: AnalysisTable, scorer: str = "") -> TextTable:
    """Return the table of an analysis: figures in percent with their interval, a dash for values that are not known."""
    words = [
        index == 0 or any(isinstance(row[index], str) and not _FIGURE.match(str(row[index])) for row in table.rows)
        for index in range(len(table.columns))
    ]
    return TextTable(
        key="analysis",
        scorer=scorer,
        title=safe(table.title),
        columns=tuple(Column(safe(name), right=not word) for name, word in zip(table.columns, words, strict=True)),
        rows=tuple(tuple(_cell_text(cell) for cell in row) for row in table.rows),
    )


def rename_runs(result: AnalysisResult, names: Mapping[str, str]) -> AnalysisResult:
    """Replace run ids and agents' texts in a result's table and picture by the names of the systems.

    A text is replaced only if it is nothing but an id or an agent's text. The stored record keeps ids.

    Args:
        result: result of any analysis.
        names: id or agent's text → name.
    """
    if not names:
        return result

    def name_of(text: str) -> str:
        """Return the name of a text, or the text itself if it has none."""
        return names.get(text, text)

    table = replace(result.table, rows=renamed(result.table.rows, name_of))
    picture = result.picture and replace(renamed(result.picture, name_of), series_names=tuple(names.values()))
    return replace(result, table=table, picture=picture)


_MIN_LINES, _LINES = 8, 20
"""Number of lines of a plane with points: on a small terminal, and on a large one or in a pipe."""


def print_analysis(result: AnalysisResult, console: Console | None = None) -> None:
    """Print the table, the note and the picture of an analysis, by default on stdout."""
    console = console or results_console()
    print_table(analysis_table(result.table), console)
    if note := safe(result.table.note):
        console.print(Text(wrapped(note, console.width) if console.is_terminal else note), soft_wrap=True)
    height = max(_MIN_LINES, console.height // 3) if console.is_terminal else _LINES
    console.print()
    console.print(draw(result.picture, min(console.width, 100), min(_LINES, height)))


def _cell_text(value: str | float | int | Figure | None) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, Figure):
        return figure_words(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else one_line(value, 400)
