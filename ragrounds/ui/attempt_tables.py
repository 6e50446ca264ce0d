"""An attempt as tables and prose: its question and answer, its scores, and every call with what was asked and came
back."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from ragrounds.evals.store.traces import Trace, TracedCall
from ragrounds.ui.columns import Column, table_of, words
from ragrounds.ui.notebook import Prose
from ragrounds.ui.tables import print_table
from ragrounds.ui.text import dollars, duration, safe, tokens

_LONGEST = 2000
"""Characters of one text that are shown."""


def print_trace(trace: Trace, console: Console) -> None:
    """Print what was asked and answered, the scores, then the calls in their order, long texts cut."""
    run, attempt, asked, gold = trace.run, trace.attempt, trace.question, trace.gold
    console.print(Text(safe(f"{asked.id}, epoch {attempt.epoch}, by {run.agent} ({run.id})"), style="bold"))
    used = attempt.usage.input + attempt.usage.output if attempt.usage else None
    took = f"{tokens(used)} tokens, full price {dollars(attempt.cost_uncached)}, {duration(attempt.seconds)}"
    rows = {
        "question": "\n".join([asked.text, *(f"{letter}. {text}" for letter, text in asked.options.items())]),
        "right answer": gold.answer or "; ".join(wordings[0] for wordings in gold.facts),
        "status": attempt.status + (f": {attempt.reason}" if attempt.reason else "") + f" ({took})",
        "answer": attempt.text,
        **{f"note by {safe(note.author)}": f"{note.mark} {note.text}".strip() for note in trace.notes},
    }
    about = [(name, safe(text, _LONGEST)) for name, text in rows.items() if text]
    print_table(table_of("attempt", about, (words("", lambda row: row[0]), words("", lambda row: row[1]))), console)
    columns = (
        words("scorer"),
        Column("score", "value", lambda value: "missing" if value is None else f"{value:g}"),
        words("answer", lambda one: one.answer_status.replace("_", " ")),
        words("read as", lambda one: safe(one.prediction or one.reason, _LONGEST)),
    )
    if trace.scores:
        print_table(table_of("scores", trace.scores, columns, title="scores"), console)
    for made in (one for step in trace.steps for one in step.calls):
        call = made.call
        said = f"\n{call.node or call.kind}: {call.kind}, {call.role}, {duration(call.seconds)}"
        console.print(Text(safe(said), style="bold"))
        asked_for = made.searched.query if made.searched else str(made.used or "")
        if made.asked:
            asked_for = "\n\n".join(f"[{message.role}]\n{message.content}" for message in made.asked.messages)
        console.print(Text(safe(asked_for, _LONGEST)))
        for text in _came(made):
            console.print(Prose(safe(text, _LONGEST)))


def _came(made: TracedCall) -> Iterator[str]:
    if made.call.error:
        yield made.call.error
    if made.reply is not None:
        yield made.reply.reasoning
        yield made.reply.text or ", ".join(f"{call.name}({call.arguments})" for call in made.reply.calls)
    yield "\n".join(f"{one.rank}. {one.title or one.document}: {one.text}" for one in made.passages)
    if made.searched and not made.passages:
        yield "nothing was found"
    if made.gave is not None:
        yield str(made.gave)
