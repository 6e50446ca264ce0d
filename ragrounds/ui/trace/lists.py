"""Lists outside of the viewer: as tables for a terminal or for Markdown, as JSON and as CSV; first that of attempts.

CSV has every figure as it is, with readers' marks and notes; a table has what fits a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragrounds.evals.store.attempt_notes import AttemptNote
from ragrounds.evals.trace.summaries import AttemptFacts, AttemptSummary, UnknownFacts
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.comparison_csv import csv_text
from ragrounds.ui.text import UNKNOWN, dollars, duration, number_of, one_line, safe, tokens
from ragrounds.ui.trace.attempt_list import mark

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


def attempt_name(summary: AttemptSummary) -> str:
    """The id of its question, with the epoch where there are several."""
    return summary.question.id + (f" #{summary.epoch}" if summary.run.epochs > 1 else "")


def _ran(text: Callable[[Any], str]) -> Callable[[AttemptSummary], str]:
    """What is written of an attempt that was made."""
    return lambda one: "" if one.outcome == "not_run" else text(one)


_COLUMNS = (
    words("", lambda one: mark(one)[0].strip()),
    Column("score", lambda one: UNKNOWN if one.value is None else f"{one.value:g}"),
    words("scorer", lambda one: one.scorer or UNKNOWN, spare=8),
    words("outcome", spare=5),
    Column("model calls", _ran(lambda one: f"{one.model_calls}"), spare=4),
    Column("tokens", _ran(lambda one: tokens(one.tokens)), spare=6),
    Column("full price", _ran(lambda one: dollars(one.cost_uncached)), spare=7),
    Column("time", _ran(lambda one: duration(one.seconds)), spare=3),
    words("agent", "run.agent", whole=True),
    words("question", attempt_name, whole=True),
    Column("hops", "facts.hops", where="facts", spare=2),
    words("gold", lambda one: gold_words(one.facts), where="facts", spare=1),
    words("notes", lambda one: notes_cell(one.notes, 60), where="notes"),
)


def list_table(summaries: Sequence[AttemptSummary]) -> TextTable:
    """Rows as a table of text. Searches and readers' notes have a column where any row has some."""
    return table_of("attempts", summaries, _COLUMNS, title=number_of(len(summaries), "attempt"))


def gold_words(facts: AttemptFacts | None) -> str:
    """What became of the gold documents, in few words; empty where none is known."""
    if facts is None or facts.gold is None:
        return ""
    if facts.gold_found is None:
        return "not known"
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


def unknown_words(unknown: UnknownFacts) -> str:
    """Which attempts the conditions of a filter can say nothing of, in one line; empty: of each they say something."""
    parts = []
    if unknown.no_gold:
        parts.append(f"{number_of(unknown.no_gold, 'attempt')} with no gold documents known")
    if unknown.no_searches:
        parts.append(f"{number_of(unknown.no_searches, 'attempt')} of which it is not known whether they searched")
    if unknown.no_prompts:
        parts.append(f"{number_of(unknown.no_prompts, 'attempt')} of which no recorded prompt shows what was seen")
    if unknown.no_facts:
        parts.append(f"{number_of(unknown.no_facts, 'attempt')} whose steps were not read yet")
    return f"Not judged by this filter: {', '.join(parts)}." if parts else ""
