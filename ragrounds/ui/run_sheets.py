"""One run: what it is, how far it is, what it read and cost."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ragrounds.evals.compare.comparison import Comparison, Row
from ragrounds.evals.compare.ledger import Ledger
from ragrounds.records import Run
from ragrounds.ui.figures import dollars, duration, tokens
from ragrounds.ui.ledger_sheets import ledger_sheet
from ragrounds.ui.sheets import Column, Sheet
from ragrounds.ui.tables import print_sheet, results_console
from ragrounds.ui.text import safe


def runs_sheet(runs: Sequence[Run], done: Mapping[str, int]) -> Sheet:
    """Runs in a line each. `done`: run id → attempts that are made."""
    return Sheet(
        key="runs",
        title="",
        columns=(
            Column("run", right=False, whole=True),
            Column("agent", right=False),
            Column("benchmark", right=False),
            Column("attempts"),
            Column("created", right=False, whole=True),
        ),
        rows=tuple(
            (
                safe(run.id),
                safe(run.agent),
                safe(run.benchmark),
                f"{done[run.id]:,}/{run.count * run.epochs:,}",
                time.strftime("%Y-%m-%d %H:%M", time.localtime(run.created)),
            )
            for run in runs
        ),
    )


def print_run(run: Run, at_work: str, comparison: Comparison | None, costs: Ledger) -> None:
    """A run's identity, figures and costs, on stdout. `at_work`: who is making it; empty: nobody."""
    console = results_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows = list(_about(run, at_work))
    if comparison is not None:
        rows += _figures(comparison.rows[0])
        for one in comparison.tables:
            outcomes = ", ".join(f"{count:,} {name}" for name, count in one.lines[0].outcomes.items())
            rows.append((f"outcomes ({one.scorer})", outcomes))
    rows += [(f"identity: {name}", _plain(value)) for name, value in run.identity.items()]
    for name, value in rows:
        table.add_row(Text(safe(name)), Text(safe(value, 2000)))
    console.print(table)
    if costs.total.calls:
        print_sheet(ledger_sheet(costs), console)


def _about(run: Run, at_work: str) -> list[tuple[str, str]]:
    asked = shlex.join(run.asked.options) if run.asked else "not known"
    return [
        ("run", run.id),
        ("agent", run.agent),
        ("benchmark", f"{run.benchmark}, {run.count:,} questions × {run.epochs}"),
        ("created", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(run.created)) + f", {run.origin}"),
        ("fingerprint", run.fingerprint),
        *([("asked for by", f"ragrounds run {asked}")] if run.origin == "replayed" else []),
        *([("worked at by", at_work)] if at_work else []),
    ]


def _figures(row: Row) -> list[tuple[str, str]]:
    used = f"{tokens(row.usage.input)} in, {tokens(row.usage.output)} out" if row.usage else "unknown"
    return [
        ("attempts", ", ".join(f"{count:,} {status}" for status, count in row.statuses.items() if count)),
        ("calls", f"{row.calls:,}"),
        ("tokens", used),
        ("cost_paid", dollars(row.cost_paid)),
        ("cost_uncached", dollars(row.cost_uncached)),
        ("time a question", duration(row.seconds)),
    ]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_plain(item)}" for name, item in value.items()) or "-"
    return "-" if value is None else str(value)
