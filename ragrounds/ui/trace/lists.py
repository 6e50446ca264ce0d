"""Lists of attempts outside of the viewer: as tables for a terminal or for Markdown, as JSON and as CSV.

CSV has every figure unrounded, with readers' marks and notes; a table has what fits a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ragrounds.evals.store.attempt_notes import AttemptNote
from ragrounds.evals.trace.summaries import AttemptFacts, AttemptSummary, UnknownFacts
from ragrounds.ui.agent_names import names_of_runs
from ragrounds.ui.columns import Column, TextTable, table_of, words
from ragrounds.ui.tables.comparison_csv import csv_text
from ragrounds.ui.text import UNKNOWN, dollars, duration, number_of, one_line, safe, tokens
from ragrounds.ui.trace.attempt_list import mark

_LEFT_OUT = frozenset({"run", "question", "gold", "index", "facts", "given_name", "notes"})
_FIGURES = tuple(name for name in AttemptSummary.__struct_fields__ if name not in _LEFT_OUT)
_FACTS = tuple(name for name in AttemptFacts.__struct_fields__ if name not in ("gold", "notes"))
CSV_COLUMNS = (
    "run", "agent", "question_id", "subject", "question", "gold", *_FIGURES, *_FACTS, "gold_known", "run_notes",
    "marks", "notes",
)  # fmt: skip


def summary_json(summary: AttemptSummary) -> dict[str, object]:
    """Return a row as values that JSON can hold, with the run's id."""
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
        "notes": [{key: getattr(note, key) for key in ("author", "mark", "text", "at")} for note in summary.notes],
    }


def notes_cell(notes: Sequence[AttemptNote], longest: int | None = None) -> str:
    """Return marks and notes in one line: ``*star (ada: look again)``."""
    parts = []
    for note in notes:
        text = one_line(note.text, longest or len(note.text) + 1)
        byline = f"({safe(note.author)}: {text})" if text else ""
        parts.append(" ".join(filter(None, (f"*{safe(note.mark)}" if note.mark else "", byline))))
    return " ".join(parts)


def attempt_name(summary: AttemptSummary) -> str:
    """Return the id of the question, with the epoch if the run has several."""
    return summary.question.id + (f" #{summary.epoch}" if summary.run.epochs > 1 else "")


def _ran(text: Callable[[Any], str]) -> Callable[[AttemptSummary], str]:
    """Return a function that is empty for attempts that were not run, and applies `text` to others."""
    return lambda summary: "" if summary.outcome == "not_run" else text(summary)


_COLUMNS = (
    words("", lambda summary: mark(summary)[0].strip()),
    Column("score", lambda summary: UNKNOWN if summary.value is None else f"{summary.value:g}"),
    words("scorer", lambda summary: summary.scorer or UNKNOWN, spare=8),
    words("outcome", spare=5),
    Column("model calls", _ran(lambda summary: f"{summary.model_calls}"), spare=4),
    Column("tokens", _ran(lambda summary: tokens(summary.tokens)), spare=6),
    Column("full price", _ran(lambda summary: dollars(summary.cost_uncached)), spare=7),
    Column("time", _ran(lambda summary: duration(summary.seconds)), spare=3),
    words("agent", "agent_name", unfolded=True),
    words("question", attempt_name, unfolded=True),
    Column("hops", "facts.hops", where="facts", spare=2),
    words("gold", lambda summary: gold_words(summary.facts), where="facts", spare=1),
    words("notes", lambda summary: notes_cell(summary.notes, 60), where="notes"),
)


def list_table(summaries: Sequence[AttemptSummary]) -> TextTable:
    """Return rows as a table of text. Searches and readers' notes have a column if any row has some."""
    runs = {summary.run.id: summary.run for summary in summaries}
    names = names_of_runs(list(runs.values()), {summary.run.id: summary.given_name for summary in summaries})
    rows = [replace(summary, given_name=names[summary.run.id]) for summary in summaries]
    return table_of("attempts", rows, _COLUMNS, title=number_of(len(summaries), "attempt"))


def gold_words(facts: AttemptFacts | None) -> str:
    """Return the fate of the gold documents in few words; empty if no gold documents are known."""
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
    """Return rows as CSV, the headings first; unknown values are empty."""
    rows: list[Sequence[object]] = [CSV_COLUMNS]
    for summary in summaries:
        row = summary_json(summary)
        facts = row.pop("facts")
        row |= facts if isinstance(facts, dict) else {}
        row["run_notes"] = summary.facts.notes.split() if summary.facts else None
        row["marks"] = " ".join(note.mark for note in summary.notes if note.mark)
        row["notes"] = "\n".join(f"{note.author}: {note.text}" for note in summary.notes if note.text)
        rows.append([row.get(name) for name in CSV_COLUMNS])
    return csv_text(rows)


_UNKNOWN = {
    "no_gold": "with no gold documents known",
    "no_searches": "whose searches are not known",
    "no_prompts": "without a recorded prompt that shows what was seen",
    "no_facts": "whose steps were not read yet",
}


def unknown_words(unknown: UnknownFacts) -> str:
    """Return how many attempts a filter's conditions cannot be applied to, and why; empty if none."""
    counts = ((getattr(unknown, name), words) for name, words in _UNKNOWN.items())
    parts = [f"{number_of(count, 'attempt')} {words}" for count, words in counts if count]
    return f"Not judged by this filter: {', '.join(parts)}." if parts else ""
