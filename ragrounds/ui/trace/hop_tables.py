"""The hops of attempts outside of the viewer: as lines of a terminal's width, as a table, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from ragrounds.evals.store.hop_reading import HopsOfAttempt
from ragrounds.evals.store.summaries import AttemptSummary
from ragrounds.files import guarded
from ragrounds.ui.text import one_line, safe
from ragrounds.ui.trace.attempt_list import mark
from ragrounds.ui.trace.hop_lines import LEGEND, NARROW_LEGEND, HopLine, hop_cells, hop_columns, hop_heading, hop_line

_NARROWEST = 60
"""Columns that a line has at least."""
_QUERY = 40
"""Characters of a query in a cell of a table."""
CSV_COLUMNS = (
    "run", "agent", "question_id", "epoch", "outcome", "value", "prediction", "search", "query", "found", "new",
    "repeats", "error", "gold_ranks", "gold_fate", "cause", "because",
)  # fmt: skip


def hop_text(read: Iterable[HopsOfAttempt], width: int, agents: Mapping[str, str]) -> str:
    """One line an attempt, the headings first and the legend last; empty of none.

    Args:
        read: with the fates of gold.
        width: of the lines, in columns.
        agents: run id → short name; empty: the agent has no column.
    """
    made: list[tuple[AttemptSummary, HopLine]] = [(one.summary, hop_line(one)) for one in read]
    if not made:
        return ""
    counts = sorted(len(line.hops) for _, line in made)
    columns = hop_columns(max(width, _NARROWEST), agents, max(1, counts[int(0.95 * (len(counts) - 1))]))
    lines = [hop_heading(columns, 0, columns.shown)]
    for summary, line in made:
        lines.append("".join(text for text, _ in hop_cells(summary, line, columns, agents)))
    legend = LEGEND if width >= len(LEGEND) else NARROW_LEGEND
    return "\n".join([*(line.rstrip() for line in lines), legend])


def hop_rows(read: Iterable[HopsOfAttempt]) -> list[list[str]]:
    """Cells of text, the headings first: as many searches as the attempt with most of them."""
    made = [(one.summary, hop_line(one)) for one in read]
    most = max((len(line.hops) for _, line in made), default=0)
    rows = [["", "agent", "question", *(f"search {number}" for number in range(1, most + 1)), "answer", "likely"]]
    for summary, line in made:
        hops = [
            f"{one_line(hop.query, _QUERY)} {'' if hop.failed else hop.found}{hop.signs}".strip() for hop in line.hops
        ]
        name = safe(summary.question.id) + (f" #{summary.epoch}" if summary.run.epochs > 1 else "")
        cause = line.cause.word if line.cause else ""
        answer = one_line(line.answer, _QUERY)
        rows.append(
            [
                mark(summary)[0].strip(),
                safe(summary.run.agent),
                name,
                *hops,
                *([""] * (most - len(hops))),
                answer,
                cause,
            ]
        )
    return rows


def hop_json(read: HopsOfAttempt) -> dict[str, object]:
    """An attempt with its hops as values that JSON can hold."""
    cause = read.cause
    return {
        "run": read.summary.run.id,
        "agent": read.summary.run.agent,
        "question_id": read.summary.question.id,
        "epoch": read.summary.epoch,
        "outcome": read.summary.outcome,
        "value": read.summary.value,
        "prediction": read.summary.prediction,
        "hops": [
            {
                "number": hop.number,
                "query": hop.query,
                "found": len(hop.found),
                "new": hop.new,
                "repeats": hop.repeats,
                "error": hop.error,
                "gold": [
                    {"rank": one.rank, "passage": one.passage.id, "fate": one.fate} for one in hop.found if one.gold
                ],
            }
            for hop in read.hops
        ],
        "cause": None if cause is None else {"word": cause.word, "text": cause.text, "hop": cause.hop},
    }


def hop_csv(read: Iterable[HopsOfAttempt]) -> str:
    """A row a search; an attempt without one has a row without a search. No cell is a formula to a spreadsheet."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for one in read:
        summary, cause = one.summary, one.cause
        whole: dict[str, object] = {
            "run": summary.run.id,
            "agent": summary.run.agent,
            "question_id": summary.question.id,
            "epoch": summary.epoch,
            "outcome": summary.outcome,
            "value": summary.value,
            "prediction": summary.prediction,
            "cause": cause.word if cause else "",
            "because": cause.text if cause else "",
        }
        signs = hop_line(one).hops
        rows: list[dict[str, object]] = [
            {
                "search": hop.number,
                "query": hop.query,
                "found": len(hop.found),
                "new": hop.new,
                "repeats": hop.repeats,
                "error": hop.error,
                "gold_ranks": " ".join(map(str, hop.gold_ranks)),
                "gold_fate": sign.fate if hop.gold_ranks else "",
            }
            for hop, sign in zip(one.hops, signs, strict=True)
        ]
        for row in rows or [{}]:
            writer.writerow({name: _cell(value) for name, value in (whole | row).items()})
    return out.getvalue()


def _cell(value: object) -> object:
    return guarded(safe(value)) if isinstance(value, str) else "" if value is None else value
