"""Tables and notes of a study: our figures, the published ones, deviations, differences; CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from shlex import quote

from rich.console import Console
from rich.text import Text

from ragrounds.base.text import listed
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.compare.figures import Figure
from ragrounds.extensions.studies.paper_table import State, StudyFinding, StudyTable, TableCell
from ragrounds.ui.columns import Column, TextTable, table_of
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.tables.analysis_tables import print_analysis
from ragrounds.ui.tables.comparison_csv import csv_text
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import UNKNOWN, first_sentence, number_of, one_line, safe

_QUOTED = re.compile("'[^']*'")
_SENTENCE_END = re.compile(r"(?<=\.)\s+(?=[A-Z`'\"])")
_LISTED = ("name", "title", "cells", "kept", "file")


WORDS = {"done": "done", "part": "in part", "to do": "to do", "lacks": "not run", "failed": "failed"}
_MARKS = {"part": "…", "to do": UNKNOWN, "lacks": UNKNOWN, "failed": "failed", "published": ""}
_CSV = (
    "row", "group", "column", "measure", "value", "low", "high", "spread", "n", "missing", "failed", "failed_right",
    "published", "published_spread", "deviation", "difference", "difference_low", "difference_high", "state", "why",
    "runs",
)  # fmt: skip


_SPREAD_NOTES = {
    "binomial": "± is sqrt(p(1-p)/n)",
    "epochs": "± is the sd over epochs",
    "orders": "Elo: mean ± sd over random orders of the same matches",
}


def study_tables(table: StudyTable) -> list[TextTable]:
    """Return the tables of a study.

    First the table as the paper lays it out, with the published figures and our deviation below each row; then the
    paired differences from the baseline row.
    """
    tables = [_main(table)]
    if table.baseline and any(cell.difference is not None for cell in table.cells):
        tables.append(_differences(table))
    return tables


def _main(table: StudyTable) -> TextTable:
    rows: list[tuple[str, ...]] = []
    for group, members in groupby(table.rows, key=lambda row: row.group):
        if group:
            rows.append((safe(group), *("",) * len(table.columns)))
        for row in members:
            published = any(cell.published is not None for cell in row.cells)
            is_begun = any(cell.value is not None or cell.state in ("part", "failed") for cell in row.cells)
            if is_begun or not published:
                rows.append((safe(row.name), *(_format_value(table, cell) for cell in row.cells)))
            if published:
                name = "  published" if is_begun else f"{safe(row.name)} (published)"
                figures = (
                    "" if cell.published is None else _number(table, cell.published, cell.published_spread)
                    for cell in row.cells
                )
                rows.append((name, *figures))
            if any(cell.deviation is not None for cell in row.cells):
                rows.append(("  deviation", *(_format_signed(table, cell.deviation) for cell in row.cells)))
    columns = (Column("", right=False), *(Column(safe(name)) for name in table.columns))
    spread_note = _SPREAD_NOTES.get(table.spread, "")
    title = " · ".join(filter(None, [safe(table.title), safe(table.source), spread_note]))
    return TextTable(key=f"study-{table.study.lower()}", title=title, columns=columns, rows=tuple(rows))


def _differences(table: StudyTable) -> TextTable:
    rows: list[tuple[str, ...]] = []
    for row in table.rows:
        if any(cell.difference is not None for cell in row.cells):
            rows.append((safe(row.name), *(_format_signed(table, cell.difference) for cell in row.cells)))
            rows.append(("  95 % interval", *(_ends(table, cell) for cell in row.cells)))
    return TextTable(
        key=f"study-{table.study.lower()}-differences",
        title=f"Against {safe(table.baseline)}, on the same questions",
        columns=(Column("", right=False), *(Column(safe(name)) for name in table.columns)),
        rows=tuple(rows),
    )


def _number(table: StudyTable, value: float, spread: float | None = None) -> str:
    """Format a figure with the study's digits, never as -0, followed by ± and its spread if this is known."""
    text = f"{value:.{table.digits}f}"
    text = text.removeprefix("-") if not float(text) else text
    return text if spread is None else f"{text} ±{_number(table, spread)}"


def _format_value(table: StudyTable, cell: TableCell) -> str:
    if cell.value is None:
        return UNKNOWN if cell.state == "done" else _MARKS[cell.state]
    return _number(table, cell.value, cell.spread) + ("…" if cell.state != "done" else "")


def _format_signed(table: StudyTable, value: float | None) -> str:
    if value is None:
        return ""
    text = _number(table, value)
    return text if text.startswith("-") or not float(text) else f"+{text}"


def _ends(table: StudyTable, cell: TableCell) -> str:
    if cell.difference_low is None or cell.difference_high is None:
        return "too few" if cell.difference is not None else ""
    return f"{_format_signed(table, cell.difference_low)} to {_format_signed(table, cell.difference_high)}"


_NOT_DONE: Mapping[State, str] = {"lacks": "Not run", "failed": "Failed", "part": "In part", "to do": "Not begun"}


def _reasons(table: StudyTable) -> Iterator[tuple[State, str, list[TableCell]]]:
    """Yield each reason why cells are not done, once, with its cells."""
    for state in _NOT_DONE:
        reasons: dict[str, list[TableCell]] = {}
        for cell in table.cells:
            if cell.state == state and not cell.why.startswith("needs "):
                for reason in cell.why.splitlines():
                    reasons.setdefault(reason, []).append(cell)
        yield from ((state, reason, cells) for reason, cells in reasons.items())


def _short_reasons(table: StudyTable) -> Iterator[str]:
    """Yield a line for each cause. Reasons that differ only in a name are merged; remedies are left to the notes."""
    causes: dict[tuple[State, str], tuple[dict[str, None], dict[int, None]]] = {}
    for state, reason, cells in _reasons(table):
        sentence = first_sentence(reason).removesuffix(".")
        name = _QUOTED.search(sentence)
        names, cell_ids = causes.setdefault((state, _QUOTED.sub("{}", sentence, count=1)), ({}, {}))
        names |= {name[0]: None} if name else {}
        cell_ids |= dict.fromkeys(map(id, cells))
    for (state, form), (names, cell_ids) in causes.items():
        message = form.replace("{}", ", ".join(names), 1) if names else form
        yield f"{_NOT_DONE[state]}, {number_of(len(cell_ids), 'cell')}: {message}."


def _waiting(table: StudyTable) -> Iterator[str]:
    if count := sum(cell.state == "to do" and not cell.why for cell in table.cells):
        yield f"Not begun: {number_of(count, 'cell')}."


def study_notes(table: StudyTable) -> list[str]:
    """Return the notes for a reader.

    The table's notes come first, then the cells that are not done with their reasons, then doubts about figures.
    """
    notes = list(table.notes)
    for state, reason, cells in _reasons(table):
        examples = listed([f"{cell.row} · {cell.column}" for cell in cells], 2)
        notes.append(f"{_NOT_DONE[state]}, {number_of(len(cells), 'cell')} ({examples}): {reason}")
    return [*notes, *_waiting(table), *_doubts(table)]


def paper_notes(table: StudyTable) -> list[str]:
    """Return the notes for the readers of a paper: without commands and how to get what is missing."""
    notes = [
        " ".join(sentence for sentence in _SENTENCE_END.split(note.strip()) if "`ragrounds" not in sentence)
        for note in table.notes
    ]
    return [*filter(None, notes), *_short_reasons(table), *_waiting(table), *_doubts(table)]


def _doubts(table: StudyTable) -> Iterator[str]:
    """Yield sentences on attempts that make figures doubtful: errors and missing scores."""
    if broken := [cell for cell in table.cells if cell.failed and len(cell.runs) == 1]:
        examples = ", ".join(f"{cell.row} · {cell.column}: {cell.failed:,}" for cell in broken[:6])
        more = f", and {len(broken) - 6:,} more cells" if len(broken) > 6 else ""
        retry_hint = "" if all(cell.imported for cell in broken) else "; the same command asks again"
        subject = (
            "Recorded replies that are missing or hold an error" if not retry_hint else "Attempts that an error ended"
        )
        right = sum(cell.failed_right for cell in broken)
        count = f"count as their text is read, {right:,} as right, the others as 0" if right else "count as 0"
        yield f"{subject} {count} ({examples}{more}){retry_hint}."
    missing = sum(cell.missing for cell in table.cells if not cell.why.startswith("needs "))
    if missing:
        yield f"{missing:,} answers have no score; they are in no mean."


def print_study(
    table: StudyTable,
    findings: Sequence[StudyFinding],
    console: Console,
    picture: str = "",
    full: bool = False,
    reference: str = "",
) -> None:
    """Print a study: the tables, the picture, the analyses, and why cells are not run; `full`: with remedies.

    `reference` is the study as the user names it, its name or its file, for the command that the last line prints.
    """
    for text_table in study_tables(table):
        print_table(text_table, console)
    chart = study_picture(table, picture)
    if chart is not None:
        console.print()
        console.print(draw(chart, width=min(console.width, 100)))
    for finding in findings:
        if finding.result is None:
            console.print(Text(f"\nAnalysis {safe(finding.asked.name)}: {safe(finding.why)}"))
            continue
        print_analysis(finding.result, console)
        for line in published_lines(finding):
            console.print(Text(line), soft_wrap=True)
    full_notes = [f"Note: {note}" for note in study_notes(table)]
    first = (f"Note: {first_sentence(note)}" for note in table.notes)
    short = [*first, *_short_reasons(table), *_waiting(table), *(f"Note: {caveat}" for caveat in _doubts(table))]
    for note_line in full_notes if full else short:
        console.print(Text(one_line(note_line, 4000)), soft_wrap="`" in note_line)
    if not full and not set(short) <= {*full_notes, *_waiting(table)}:
        console.print(
            Text(f"Details and fixes: ragrounds study show {quote(reference or table.study)} --full", style="dim"),
            soft_wrap=True,
        )


def published_lines(finding: StudyFinding) -> Iterator[str]:
    """Yield the figures that the paper prints for an analysis, next to ours if our table has the same cell."""
    if finding.result is None:
        return
    table = finding.result.table
    for row, column, value in finding.asked.published:
        ours = None
        for line in table.rows:
            # The label may follow the run's label.
            if row in [cell for cell in line if isinstance(cell, str)] and column in table.columns:
                ours = line[table.columns.index(column)]
        our_value = 100 * ours.value if isinstance(ours, Figure) and ours.value is not None else ours
        if isinstance(our_value, int | float):
            yield f"{row} · {column}: ours {our_value:.4g}, published {value:g}, deviation {our_value - value:+.4g}"
        else:
            yield f"{row} · {column}: published {value:g}"


def study_picture(table: StudyTable, kind: str) -> Picture | None:
    """Return the table as a picture; ``None`` if it has none, or no cell is a share."""
    rows = [row for row in table.rows if any(_share(cell) is not None for cell in row.cells)]
    if not kind or not rows:
        return None
    are_lines = kind != "bars"
    # The position on the x axis is the number in a column's name (k = 8, 7B) if every name has one.
    matches = {name: re.search(r"\d+(?:\.\d+)?", name) for name in table.columns}
    positions = {name: float(match[0]) for name, match in matches.items() if match}
    are_numbered = len(positions) == len(table.columns)
    if not are_numbered:
        positions = {name: float(position) for position, name in enumerate(table.columns, 1)}
    marks = [
        Mark(
            name=cell.column,
            group=row.name,
            value=_share(cell),
            low=_hundredth(cell.low),
            high=_hundredth(cell.high),
            x=positions[cell.column] if are_lines else None,
        )
        for row in rows
        for cell in row.cells
    ]
    x = "" if are_numbered else "columns in their order"
    return Picture(title=table.title, marks=tuple(marks), x=x, bars=not are_lines)


def _share(cell: TableCell) -> float | None:
    """Return a cell's value from 0 to 1; ``None`` if it has no value, or is no percentage."""
    return None if cell.value is None or not 0 <= cell.value <= 100 else cell.value / 100


def _hundredth(value: float | None) -> float | None:
    return None if value is None else value / 100


def study_csv(table: StudyTable) -> str:
    """Return the table as CSV, a line for each cell with all its fields."""
    groups, rows = {row.name: row.group for row in table.rows}, list[Sequence[object]]([_CSV])
    for cell in table.cells:
        values = [getattr(cell, name) if name != "group" else groups[cell.row] for name in _CSV[:-1]]
        rows.append([*values, " ".join(cell.runs)])
    return csv_text(rows)


def list_table(rows: Sequence[tuple[str, str, int, int, str]]) -> TextTable:
    """Return the table of studies: titles, numbers of cells, and numbers of cells with stored results."""
    columns = [Column(name, right=name in ("cells", "kept"), unfolded=name == "name") for name in _LISTED]
    return table_of("studies", (dict(zip(_LISTED, row, strict=True)) for row in rows), columns)
