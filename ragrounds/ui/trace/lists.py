"""Lists outside of the viewer: as tables for a terminal or for Markdown, as JSON and as CSV; first that of attempts.

CSV has every figure as it is, with readers' marks and notes; a table has what fits a line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import msgspec
from rich.cells import cell_len

from ragrounds.evals.store.attempt_notes import AttemptNote
from ragrounds.evals.store.summaries import AttemptFacts, AttemptSummary, UnknownFacts
from ragrounds.files import guarded
from ragrounds.ui.text import UNKNOWN, dollars, duration, number_of, one_line, safe, tokens
from ragrounds.ui.trace.attempt_list import mark

_MISSED = ("scorer", "uncached", "tokens", "outcome", "calls", "time", "hops", "gold")
"""Columns of a table that are left out where it is too wide, the first first."""
_TO_RIGHT = frozenset({"score", "calls", "tokens", "uncached", "time", "hops"})
"""Columns of tables that hold figures."""
_LEFT_OUT = frozenset({"run", "question", "gold", "index", "facts", "notes"})
_FIGURES = tuple(name for name in AttemptSummary.__struct_fields__ if name not in _LEFT_OUT)
_FACTS = tuple(name for name in AttemptFacts.__struct_fields__ if name not in ("gold", "notes"))
CSV_COLUMNS = (
    "run", "agent", "question_id", "subject", "question", "gold", *_FIGURES, *_FACTS, "gold_known", "run_notes",
    "marks", "notes",
)  # fmt: skip


def summary_json(summary: AttemptSummary) -> dict[str, object]:
    """A row as values that JSON can hold; the run by its id."""
    facts = summary.facts
    return {
        "run": summary.run.id,
        "agent": summary.run.agent,
        "question_id": summary.question.id,
        "subject": summary.question.group,
        "question": summary.question.text,
        "gold": summary.gold.answer,
        **{name: getattr(summary, name) for name in _FIGURES},
        "facts": None
        if facts is None
        else {
            **{name: getattr(facts, name) for name in _FACTS},
            "gold_known": facts.gold,
            "run_notes": facts.notes.split(),
        },
        "notes": [note_json(one) for one in summary.notes],
    }


def note_json(note: AttemptNote) -> dict[str, object]:
    """What a reader has left, as values that JSON can hold."""
    return {"author": note.author, "mark": note.mark, "text": note.text, "at": note.at}


def notes_cell(notes: Sequence[AttemptNote], longest: int | None = None) -> str:
    """Marks and notes in one line: ``*star (ada: look again)``."""
    parts = []
    for note in notes:
        said = one_line(note.text, longest or len(note.text) + 1)
        by = f"({safe(note.author)}: {said})" if said else ""
        parts.append(" ".join(filter(None, (f"*{safe(note.mark)}" if note.mark else "", by))))
    return " ".join(parts)


def list_rows(summaries: Sequence[AttemptSummary]) -> list[list[str]]:
    """Rows as cells of text, the headings first. Searches and readers' notes have a column where any row has some."""
    searched = any(one.facts is not None and one.facts.searches for one in summaries)
    noted = any(one.notes for one in summaries)
    rows = [["", "score", "scorer", "outcome", "calls", "tokens", "uncached", "time", "agent", "question"]]
    rows[0] += [*(["hops", "gold"] if searched else []), *(["notes"] if noted else [])]
    for one in summaries:
        ran = one.outcome != "not_run"
        rows.append(
            [
                mark(one)[0].strip(),
                UNKNOWN if one.value is None else f"{one.value:g}",
                one.scorer or UNKNOWN,
                one.outcome,
                f"{one.calls}" if ran else "",
                tokens(one.tokens) if ran else "",
                dollars(one.cost_uncached) if ran else "",
                duration(one.seconds) if ran else "",
                safe(one.run.agent),
                safe(one.question.id) + (f" #{one.epoch}" if one.run.epochs > 1 else ""),
                *([f"{one.facts.searches}" if one.facts else "", gold_words(one.facts)] if searched else []),
                *([notes_cell(one.notes, 60)] if noted else []),
            ]
        )
    return rows


def narrowed(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Rows whose table fits a width: columns that can be missed are left out, one after the other."""
    kept = list(range(len(rows[0])))
    for name in _MISSED:
        sizes = [max(cell_len(row[column]) for row in rows) for column in kept]
        if sum(sizes) + 2 * (len(kept) - 1) <= width:
            break
        kept = [column for column in kept if rows[0][column] != name]
    return [[row[column] for column in kept] for row in rows]


def gold_words(facts: AttemptFacts | None) -> str:
    """What became of the gold documents, in few words; empty where none is known."""
    if facts is None or facts.gold is None:
        return ""
    if not facts.gold_found:
        return "not found"
    rank = "" if facts.gold_rank is None else f" at {facts.gold_rank}"
    if facts.gold_seen is None:
        seen = ""
    elif facts.gold_seen:
        seen = ", cut" if facts.gold_cut == facts.gold_seen else ", seen"
    else:
        seen = ", not seen"
    return f"found{rank}{seen}"


def list_csv(summaries: Sequence[AttemptSummary]) -> str:
    """Rows as CSV, the headings first; what is not known is empty."""
    rows: list[Sequence[object]] = [CSV_COLUMNS]
    for one in summaries:
        row = summary_json(one)
        facts = row.pop("facts")
        row |= facts if isinstance(facts, dict) else {}
        row["run_notes"] = one.facts.notes.split() if one.facts else None
        row["marks"] = " ".join(note.mark for note in one.notes if note.mark)
        row["notes"] = "\n".join(f"{note.author}: {note.text}" for note in one.notes if note.text)
        rows.append([row.get(name) for name in CSV_COLUMNS])
    return csv_text(rows)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV. No cell is a formula to a spreadsheet; ``None`` is empty."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(map(_csv_cell, row) for row in rows)
    return out.getvalue()


def unknown_words(unknown: UnknownFacts) -> str:
    """Which attempts the conditions of a filter can say nothing of, in one line; empty: of each they say something."""
    parts = []
    if unknown.no_gold:
        parts.append(f"{number_of(unknown.no_gold, 'attempt')} with no gold documents known")
    if unknown.no_prompts:
        parts.append(f"{number_of(unknown.no_prompts, 'attempt')} of which no recorded prompt tells what was seen")
    if unknown.no_facts:
        parts.append(f"{number_of(unknown.no_facts, 'attempt')} whose steps are not indexed")
    return f"Not judged by this filter: {', '.join(parts)}." if parts else ""


def table_text(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in aligned columns, those of figures to the right."""
    sizes = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for name, cell, size in zip(rows[0], row, sizes, strict=True):
            gap = " " * (size - cell_len(cell))
            cells.append(gap + cell if name in _TO_RIGHT else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def table_markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "|`*_<>[]\\" else letter for letter in flat)


def _csv_cell(value: object) -> object:
    if isinstance(value, float):
        return value + 0.0  # -0.0 is 0.0
    if value is None:
        return ""
    if isinstance(value, list):
        return guarded(safe(" ".join(map(str, value))))
    return guarded(safe(value)) if isinstance(value, str) else msgspec.to_builtins(value)
