"""A comparison as tables for the terminal."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragrounds.evals.comparison import SHOWN, Comparison, ProtocolTable, Row
from ragrounds.evals.figures import Figure
from ragrounds.evals.tally import OUTCOMES
from ragrounds.ui.figures import UNKNOWN, dollars, duration, p_value, percent, points, tokens

_ABOUT = {
    "mirage": "as published: an answer that cannot be read counts as A",
    "strict": "the published patterns without that: what cannot be read is wrong",
    "robust": "lenient reading: repaired JSON, option text, full-width letters",
    "facts": "share of the required facts that the answer holds",
}


def print_comparison(comparison: Comparison, protocols: Sequence[str] = (), console: Console | None = None) -> None:
    """Accuracy by protocol, outcomes and cost, paired differences."""
    console = console or results_console()
    shown = [table for table in comparison.tables if table.protocol in (protocols or SHOWN)]
    numbers = {row.run: str(number) for number, row in enumerate(comparison.rows, 1)}
    distinct = [table for index, table in enumerate(shown) if not any(_same(table, other) for other in shown[:index])]
    for table in distinct:
        alike = [other.protocol for other in shown if other is not table and _same(other, table)]
        also = f" ({', '.join(alike)} gives the same figures)" if alike else ""
        _heading(console, f"{table.protocol}: {_ABOUT.get(table.protocol, 'score')}, percent{also}")
        console.print(_accuracy(table, numbers))
    _heading(
        console,
        "outcomes and cost (in, out: tokens; spent: really paid; cold: with an empty journal; s: seconds a question)",
    )
    console.print(_cost(comparison.rows, _readings(shown), numbers))
    for table in distinct:
        if table.pairs:
            _heading(console, f"paired differences under {table.protocol}, percentage points")
            console.print(_pairs(table, numbers))
    for note in comparison.notes:
        console.print(Text(f"Note: {note}", style="yellow"), soft_wrap=True)


def results_console() -> Console:
    """Where results go: stdout. A pipe gets wide lines, so that nothing is cut where nobody looks at a screen."""
    return Console() if sys.stdout.isatty() else Console(width=max(160, Console().width))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"), soft_wrap=True)


def _same(one: ProtocolTable, other: ProtocolTable) -> bool:
    def values(table: ProtocolTable) -> list[object]:
        return [(line.run, line.datasets, line.overall) for line in table.lines]

    return values(one) == values(other) and one.pairs == other.pairs


def _table(*names: str) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("#", justify="right")
    made.add_column("agent", overflow="fold", ratio=None, min_width=20)
    for name in names:
        made.add_column(name, justify="right")
    return made


def _accuracy(table: ProtocolTable, numbers: Mapping[str, str]) -> Table:
    datasets = list(table.lines[0].datasets)
    averages = ["average"] if len(datasets) > 1 else []
    open_ = ["at best"] if any(_is_open(line.overall) for line in table.lines) else []
    made = _table(*(name.rpartition("/")[2] for name in datasets), *averages, "95 %", "n", *open_)
    for line in table.lines:
        whole = line.overall
        cells = [_with_error(line.datasets[name]) for name in datasets]
        cells += [_with_error(whole)] if averages else []
        cells.append(f"{percent(whole.low, 1)}-{percent(whole.high, 1)}" if whole.low is not None else UNKNOWN)
        cells.append(f"{whole.n:,}" + (f" ({whole.missing:,} missing)" if whole.missing else ""))
        cells += [percent(whole.best)] if open_ else []
        made.add_row(numbers[line.run], Text(line.agent), *cells)
    return made


def _is_open(figure: Figure) -> bool:
    return figure.best is not None and figure.value is not None and figure.best > figure.value


def _with_error(figure: Figure) -> str:
    error = f" ±{percent(figure.error)}" if figure.error is not None else ""
    return f"{percent(figure.value)}{error}"


def _readings(tables: Sequence[ProtocolTable]) -> dict[str, Counter[str]]:
    """Run → outcomes over all its questions: choices by the strict protocol (the published one hides them), other
    questions by their own."""
    counted: dict[str, Counter[str]] = {}
    for table in tables:
        if table.protocol == "mirage" and any(other.protocol == "strict" for other in tables):
            continue
        for line in table.lines:
            counted.setdefault(line.run, Counter()).update(line.readings)
    return counted


def _cost(rows: Sequence[Row], readings: Mapping[str, Counter[str]], numbers: Mapping[str, str]) -> Table:
    used = [name for name in OUTCOMES if any(counts[name] for counts in readings.values())]
    made = _table(*(name.replace("_", " ") for name in used), "calls", "in", "out", "spent", "cold", "s")
    for row in rows:
        counts = readings.get(row.run, Counter())
        made.add_row(
            numbers[row.run],
            Text(row.agent),
            *(f"{counts[name]:,}" for name in used),
            f"{row.calls:,}",
            tokens(row.usage.input if row.usage else None),
            tokens(row.usage.output if row.usage else None),
            dollars(row.spent),
            dollars(row.cold),
            duration(row.seconds).removesuffix(" s"),
        )
    return made


def _pairs(table: ProtocolTable, numbers: Mapping[str, str]) -> Table:
    corrected = ["Holm p"] if len(table.pairs) > 1 else []
    binary = any(pair.tests.p_mcnemar is not None for pair in table.pairs)
    tested = ["only 2nd right", "only 1st right", "McNemar p", *corrected, "detectable"] if binary else []
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    made.add_column("2nd - 1st")
    for name in ("difference", "95 %", *tested):
        made.add_column(name, justify="right")
    for pair in table.pairs:
        tests = pair.tests
        interval = f"{points(tests.low, 1)} to {points(tests.high, 1)}" if tests.low is not None else UNKNOWN
        cells = [points(tests.difference), interval]
        if binary:
            cells += [_count(tests.second_only), _count(tests.first_only), p_value(tests.p_mcnemar)]
            cells += [p_value(pair.p_holm)] if corrected else []
            cells.append(percent(tests.detectable, 1))
        made.add_row(f"#{numbers[pair.second]} - #{numbers[pair.first]}", *cells)
    return made


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"
