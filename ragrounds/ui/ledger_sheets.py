"""The ledger as a table of text."""

from __future__ import annotations

from ragrounds.evals.compare.ledger import Ledger, Line
from ragrounds.ui.figures import dollars, tokens
from ragrounds.ui.sheets import Column, Sheet
from ragrounds.ui.text import safe

_OPTIONAL = ("reused", "failed", "cached", "reasoning")
"""Columns that are shown where anything stands in them."""


def ledger_sheet(ledger: Ledger) -> Sheet:
    """One line for each part, dearest first, and their sum."""
    lines = [*ledger.lines, ledger.total] if len(ledger.lines) != 1 else list(ledger.lines)
    cells = [_cells(line) for line in lines]
    shown = [name for name in cells[0] if name not in _OPTIONAL or any(row[name] not in ("0", "-") for row in cells)]
    rows = []
    for line, figures in zip(lines, cells, strict=True):
        last = line is ledger.total and len(lines) > 1
        names = [("all" if last and not place else safe(getattr(line, key))) for place, key in enumerate(ledger.by)]
        rows.append((*names, *(figures[name] for name in shown)))
    return Sheet(
        key="ledger",
        title=f"costs by {', '.join(ledger.by)} (paid: really paid; uncached: with an empty journal)"
        if ledger.by
        else "costs (paid: really paid; uncached: with an empty journal)",
        columns=(
            *(Column(key, right=False, whole=key == "run") for key in ledger.by),
            *(Column(name) for name in shown),
        ),
        rows=tuple(rows),
    )


def _cells(line: Line) -> dict[str, str]:
    used = line.usage
    at_least = f" (at least {dollars(line.known)})" if line.unpriced and line.known else ""
    return {
        "calls": f"{line.calls:,}",
        "reused": f"{line.reused:,}",
        "failed": f"{line.failed:,}",
        "in": tokens(used.input if used else None),
        "cached": tokens(used.cached if used else None),
        "out": tokens(used.output if used else None),
        "reasoning": tokens(used.reasoning if used else None),
        "cost_paid": dollars(line.cost_paid),
        "cost_uncached": dollars(line.cost_uncached) + at_least,
    }
