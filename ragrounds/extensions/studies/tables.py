"""A study in sentences and tables: our figures, the published ones, deviations, differences; Markdown, LaTeX, CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from ragrounds.base.records import Run
from ragrounds.evals.analyses.pictures import Mark, Picture
from ragrounds.evals.compare.figures import Figure
from ragrounds.extensions.studies.paper_table import State, StudyFinding, StudyTable, TableCell
from ragrounds.ui.columns import Column, TextTable, table_of
from ragrounds.ui.pictures.chart_text import draw
from ragrounds.ui.tables.analysis_tables import print_analysis
from ragrounds.ui.tables.comparison_csv import csv_text
from ragrounds.ui.tables.comparison_words import span_of_days
from ragrounds.ui.tables.text_tables import print_table
from ragrounds.ui.text import UNKNOWN, figure_text, number_of, one_line, safe

_QUOTED = re.compile("'[^']*'")
_MODELS = 3
"""Models that are named where others are counted."""
_LISTED = ("name", "title", "cells", "kept", "file")


def study_sentences(table: StudyTable, runs: Sequence[Run]) -> Iterator[str]:
    """What was carried out, and how near the figures are to the published ones.

    Args:
        table: the study's.
        runs: those that its cells show.
    """
    done, cells = table.carried.count("done"), len(table.carried.cells)
    what = safe(table.source or table.title)
    if not runs:
        yield f"{what}: no cell has been carried out yet."
        return
    when = span_of_days([run.created for run in runs])
    yield f"{what}: {done:,} of {number_of(cells, 'cell')} carried out {_with(runs)} {when}."
    known = [cell for cell in table.cells if cell.deviation is not None]
    if not known:
        yield "None of them has a published figure."
        return
    apart = sorted(known, key=lambda cell: abs(cell.deviation or 0.0))
    far, middle = apart[-1], abs(apart[len(apart) // 2].deviation or 0.0)
    held = [
        cell
        for cell in known
        if cell.low is not None and cell.high is not None and cell.low <= (cell.published or 0.0) <= cell.high
    ]
    ranged = sum(cell.low is not None for cell in known)
    inside = (
        f" {len(held):,} of {number_of(ranged, 'published figure')} lie inside our 95 % interval." if ranged else ""
    )
    digits = f".{table.digits}f"
    equal = sum(not float(format(cell.deviation or 0.0, digits)) for cell in known)
    if equal == len(known):
        yield f"All {number_of(equal, 'figure')} with a published one beside equal it.{inside}"
        return
    if equal >= len(known) / 2:
        near = f"{equal:,} of {number_of(len(known), 'figure')} equal the published one beside"
    else:
        near = (
            f"Half of the {number_of(len(known), 'figure')} with a published one beside are at most "
            f"{figure_text(middle, digits)} away from it"
        )
    distance = figure_text(far.deviation or 0.0, "+" + digits)
    yield f"{near}; {safe(far.row)} · {safe(far.column)} is farthest ({distance}).{inside}"


def _with(runs: Sequence[Run]) -> str:
    models: dict[str, None] = {}
    for run in runs:
        asked = run.identity.get("models")
        texts = asked.values() if isinstance(asked, Mapping) else [run.identity.get("model") or ""]
        models |= dict.fromkeys(one_line(str(text).partition("[")[0], 60) for text in texts if text)
    named = list(models)
    if not named:
        return "with a model that is not recorded"
    more = f" and {number_of(len(named) - _MODELS, 'other model')}" if len(named) > _MODELS else ""
    return f"with {', '.join(named[:_MODELS])}{more}"


WORDS = {"done": "done", "part": "in part", "to do": "to do", "lacks": "not run", "failed": "failed"}
_MARKS = {"part": "…", "to do": UNKNOWN, "lacks": UNKNOWN, "failed": "failed"}
_CSV = (
    "row", "group", "column", "measure", "value", "low", "high", "spread", "n", "missing", "failed", "failed_right",
    "published", "published_spread", "deviation", "difference", "difference_low", "difference_high", "state", "why",
    "runs",
)  # fmt: skip


def study_tables(table: StudyTable) -> list[TextTable]:
    """The table as the paper lays it out; below each row what the paper prints and how far ours lies from it; then the
    paired differences against the baseline row."""
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
            begun = any(cell.value is not None or cell.state in ("part", "failed") for cell in row.cells)
            if begun or not published:
                rows.append((safe(row.name), *(_ours(table, cell) for cell in row.cells)))
            if published:
                name = "  published" if begun else f"{safe(row.name)} (published)"
                rows.append((name, *(_published(table, cell) for cell in row.cells)))
            if any(cell.deviation is not None for cell in row.cells):
                rows.append(("  deviation", *(_signed(table, cell.deviation) for cell in row.cells)))
    columns = (Column("", right=False), *(Column(safe(name)) for name in table.columns))
    about = {"binomial": "± is sqrt(p(1-p)/n)", "epochs": "± is the sd over epochs"}.get(table.spread, "")
    title = " · ".join(filter(None, [safe(table.title), safe(table.source), about]))
    return TextTable(key=f"study-{table.study.lower()}", title=title, columns=columns, rows=tuple(rows))


def _differences(table: StudyTable) -> TextTable:
    rows: list[tuple[str, ...]] = []
    for row in table.rows:
        if any(cell.difference is not None for cell in row.cells):
            rows.append((safe(row.name), *(_signed(table, cell.difference) for cell in row.cells)))
            rows.append(("  95 % interval", *(_ends(table, cell) for cell in row.cells)))
    return TextTable(
        key=f"study-{table.study.lower()}-differences",
        title=f"Against {safe(table.baseline)}, on the same questions",
        columns=(Column("", right=False), *(Column(safe(name)) for name in table.columns)),
        rows=tuple(rows),
    )


def _number(table: StudyTable, value: float) -> str:
    text = f"{value:.{table.digits}f}"
    return text.removeprefix("-") if not float(text) else text


def _ours(table: StudyTable, cell: TableCell) -> str:
    if cell.value is None:
        return UNKNOWN if cell.state == "done" else _MARKS[cell.state]
    spread = f" ±{_number(table, cell.spread)}" if cell.spread is not None else ""
    return f"{_number(table, cell.value)}{spread}" + ("…" if cell.state != "done" else "")


def _published(table: StudyTable, cell: TableCell) -> str:
    if cell.published is None:
        return ""
    spread = f" ±{_number(table, cell.published_spread)}" if cell.published_spread is not None else ""
    return f"{_number(table, cell.published)}{spread}"


def _signed(table: StudyTable, value: float | None) -> str:
    if value is None:
        return ""
    text = _number(table, value)
    return text if text.startswith("-") or not float(text) else f"+{text}"


def _ends(table: StudyTable, cell: TableCell) -> str:
    if cell.difference_low is None or cell.difference_high is None:
        return "too few" if cell.difference is not None else ""
    return f"{_signed(table, cell.difference_low)} to {_signed(table, cell.difference_high)}"


_NOT_DONE: Mapping[State, str] = {"lacks": "Not run", "failed": "Failed", "part": "In part", "to do": "Not begun"}


def _reasons(table: StudyTable) -> Iterator[tuple[State, str, list[TableCell]]]:
    """Why cells are not done, each reason once, with its cells."""
    for state in _NOT_DONE:
        reasons: dict[str, list[TableCell]] = {}
        for cell in table.cells:
            if cell.state == state and not cell.why.startswith("needs "):
                for why in cell.why.splitlines():
                    reasons.setdefault(why, []).append(cell)
        yield from ((state, why, cells) for why, cells in reasons.items())


def _causes(table: StudyTable) -> Iterator[str]:
    """A line for each cause: reasons that differ in a name alone are one, and what helps is left to the notes."""
    found: dict[tuple[State, str], tuple[dict[str, None], dict[int, None]]] = {}
    for state, why, cells in _reasons(table):
        sentence = why.partition(". ")[0].removesuffix(".")
        name = _QUOTED.search(sentence)
        names, counted = found.setdefault((state, _QUOTED.sub("{}", sentence, count=1)), ({}, {}))
        names |= {name[0]: None} if name else {}
        counted |= dict.fromkeys(map(id, cells))
    for (state, form), (names, counted) in found.items():
        said = form.replace("{}", ", ".join(names), 1) if names else form
        yield f"{_NOT_DONE[state]}, {number_of(len(counted), 'cell')}: {said}."


def _waiting(table: StudyTable) -> Iterator[str]:
    if count := sum(cell.state == "to do" and not cell.why for cell in table.cells):
        yield f"Not begun: {number_of(count, 'cell')}."


def study_notes(table: StudyTable) -> list[str]:
    """What a reader must know: first what stands on top, then how many cells lack what, then the study's own note."""
    notes = list(table.notes)
    for state, why, cells in _reasons(table):
        named = ", ".join(f"{cell.row} · {cell.column}" for cell in cells[:2])
        more = f" and {len(cells) - 2:,} more" if len(cells) > 2 else ""
        notes.append(f"{_NOT_DONE[state]}, {number_of(len(cells), 'cell')} ({named}{more}): {why}")
    return [*notes, *_waiting(table), *_doubts(table)]


def _doubts(table: StudyTable) -> Iterator[str]:
    """What makes figures doubtful."""
    if broken := [cell for cell in table.cells if cell.failed and len(cell.runs) == 1]:
        named = ", ".join(f"{cell.row} · {cell.column}: {cell.failed:,}" for cell in broken[:6])
        more = f", and {len(broken) - 6:,} more cells" if len(broken) > 6 else ""
        again = "" if all(cell.imported for cell in broken) else "; the same command asks again"
        made = "Recorded replies that are missing or hold an error" if not again else "Attempts that an error ended"
        right = sum(cell.failed_right for cell in broken)
        count = f"count as their text is read, {right:,} as right, the others as 0" if right else "count as 0"
        yield f"{made} {count} ({named}{more}){again}."
    missing = sum(cell.missing for cell in table.cells if not cell.why.startswith("needs "))
    if missing:
        yield f"{missing:,} answers have no score; they are in no mean."


def print_study(
    table: StudyTable, findings: Sequence[StudyFinding], console: Console, picture: str = "", full: bool = False
) -> None:
    """Print a study: the tables, the picture, the analyses, why cells are not run; `full`: with what helps."""
    for one in study_tables(table):
        print_table(one, console)
    drawn = study_picture(table, picture)
    if drawn is not None:
        console.print()
        console.print(draw(drawn, width=min(console.width, 100)))
    for finding in findings:
        if finding.result is None:
            console.print(Text(f"\nAnalysis {safe(finding.asked.name)}: {safe(finding.why)}"))
            continue
        print_analysis(finding.result, console)
        for line in published_lines(finding):
            console.print(Text(line), soft_wrap=True)
    whole = [f"Note: {note}" for note in study_notes(table)]
    first = (f"Note: {note.partition('. ')[0].removesuffix('.')}." for note in table.notes)
    short = [*first, *_causes(table), *_waiting(table), *(f"Note: {doubt}" for doubt in _doubts(table))]
    for said in whole if full else short:
        console.print(Text(one_line(said, 4000)), soft_wrap="`" in said)
    if not full and not set(short) <= {*whole, *_waiting(table)}:
        console.print(Text("What helps, and the notes in full: study show --full", style="dim"))


def published_lines(finding: StudyFinding) -> Iterator[str]:
    """What the paper prints of an analysis, beside ours where the same cell is there."""
    if finding.result is None:
        return
    table = finding.result.table
    for row, column, value in finding.asked.published:
        ours = None
        for line in table.rows:
            # The label may stand behind the run's.
            if row in [cell for cell in line if isinstance(cell, str)] and column in table.columns:
                ours = line[table.columns.index(column)]
        known = 100 * ours.value if isinstance(ours, Figure) and ours.value is not None else ours
        if isinstance(known, int | float):
            yield f"{row} · {column}: ours {known:.4g}, published {value:g}, deviation {known - value:+.4g}"
        else:
            yield f"{row} · {column}: published {value:g}"


def study_picture(table: StudyTable, kind: str) -> Picture | None:
    """The table as a picture; ``None``: it has none, or nothing in it is a share."""
    rows = [row for row in table.rows if any(_share(cell) is not None for cell in row.cells)]
    if not kind or not rows:
        return None
    lines, places = kind != "bars", _places(table.columns)
    marks = [
        Mark(
            name=cell.column,
            group=row.name,
            value=_share(cell),
            low=_hundredth(cell.low),
            high=_hundredth(cell.high),
            x=places[cell.column] if lines else None,
        )
        for row in rows
        for cell in row.cells
        if not lines or cell.column in places
    ]
    x = "columns in their order" if len(_numbers(table.columns)) < len(table.columns) else ""
    return Picture(title=table.title, marks=tuple(marks), x=x, bars=not lines)


def _share(cell: TableCell) -> float | None:
    """A cell's value from 0 to 1; ``None``: it has none, or is no percent."""
    return None if cell.value is None or not 0 <= cell.value <= 100 else cell.value / 100


def _hundredth(value: float | None) -> float | None:
    return None if value is None else value / 100


def _numbers(columns: Sequence[str]) -> dict[str, float]:
    found = {name: re.search(r"\d+(?:\.\d+)?", name) for name in columns}
    return {name: float(one[0]) for name, one in found.items() if one}


def _places(columns: Sequence[str]) -> dict[str, float]:
    """Where each column stands across: at the number in its name (k = 8, 7B), or in the order of the columns."""
    numbers = _numbers(columns)
    if len(numbers) < len(columns):
        return {name: float(place) for place, name in enumerate(columns, 1)}
    return numbers


def study_csv(table: StudyTable) -> str:
    """A line for each cell, with everything that is known of it."""
    groups, rows = {row.name: row.group for row in table.rows}, list[Sequence[object]]([_CSV])
    for cell in table.cells:
        values = [getattr(cell, name) if name != "group" else groups[cell.row] for name in _CSV[:-1]]
        rows.append([*values, " ".join(cell.runs)])
    return csv_text(rows)


def list_table(rows: Sequence[tuple[str, str, int, int, str]]) -> TextTable:
    """Studies with their titles, their cells, and how many of these something is kept of."""
    columns = [Column(name, right=name in ("cells", "kept"), whole=name == "name") for name in _LISTED]
    return table_of("studies", (dict(zip(_LISTED, row, strict=True)) for row in rows), columns)
